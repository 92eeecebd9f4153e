"""How a run starts: accelerate's view of this process, its device and the other processes."""

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from accelerate.utils import InitProcessGroupKwargs  # type: ignore[import-untyped]

from akorn.engine.config import TrainConfig
from akorn.errors import AkornError
from akorn.runtime.devices import best_kind, leave_at_exit, pick_device, shares_gpus


def start(config: TrainConfig) -> Accelerator:
    """Return accelerate's view of this process: its device, its rank among the processes, and its precision."""
    # "auto" is accelerate's choice, which has its own settings; a device requested by name must exist.
    cpu = (best_kind() if config.device == "auto" else pick_device(config.device).type) == "cpu"
    if config.precision == "fp16" and cpu:
        raise AkornError("precision 'fp16' needs a GPU; on the CPU use float32 or bf16")
    # accelerate keeps one state per process and refuses a second precision or device; a process group must stay.
    joined = torch.distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=not joined)
    mixed = config.precision if config.precision in ("bf16", "fp16") else "no"
    if not joined:  # we must leave a group that accelerate creates
        leave_at_exit()
    handlers = [InitProcessGroupKwargs(backend="gloo")] if not cpu and shares_gpus() else []
    accelerator = Accelerator(cpu=cpu, mixed_precision=mixed, kwargs_handlers=handlers)
    if config.device not in ("auto", accelerator.device.type):
        started = accelerator.device.type
        raise AkornError(f"the device {config.device!r} cannot be used: accelerate was started on {started!r}")
    return accelerator
