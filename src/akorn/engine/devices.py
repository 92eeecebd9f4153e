"""The one place that talks to accelerate: devices, processes, precision, and what the processes exchange."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from accelerate.utils import broadcast, gather_object  # type: ignore[import-untyped]
from torch import Tensor, nn

from akorn.engine.config import TrainConfig
from akorn.errors import AkornError
from akorn.runtime.devices import best_kind, leave_at_exit, pick_device


def start(config: TrainConfig) -> Accelerator:
    """Return accelerate's view of this process: which device, which of how many processes, which precision."""
    # "auto" is accelerate's choice, which knows settings of its own; a device asked for by name must be there.
    cpu = (best_kind() if config.device == "auto" else pick_device(config.device).type) == "cpu"
    if config.precision == "fp16" and cpu:
        raise AkornError("precision 'fp16' needs a GPU; on the CPU use float32 or bf16")
    # accelerate keeps one state a process and refuses a second precision or device; a process group must stay.
    joined = torch.distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=not joined)
    mixed = config.precision if config.precision in ("bf16", "fp16") else "no"
    if not joined:  # a group that accelerate makes is ours to leave
        leave_at_exit()
    accelerator = Accelerator(cpu=cpu, mixed_precision=mixed)
    if config.device not in ("auto", accelerator.device.type):
        started = accelerator.device.type
        raise AkornError(f"the device {config.device!r} cannot be used: accelerate was started on {started!r}")
    return accelerator


@contextmanager
def numerics(config: TrainConfig, *, search: bool = False) -> Iterator[None]:
    """Set how float32 products are computed and whether algorithms must be deterministic; undo it afterwards.

    search: let cuDNN time its algorithms for each shape of convolution that it meets, and take the fastest, which
    pays where shapes repeat, as in training; not where they must be deterministic, since its choice may vary.
    """
    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    full = config.precision == "float32"
    try:
        torch.set_float32_matmul_precision("highest" if full else "high")
        torch.backends.cudnn.allow_tf32 = not full
        torch.backends.cudnn.benchmark = search and not config.deterministic
        if config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
            torch.backends.cudnn.deterministic = True
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        torch.backends.cudnn.deterministic = before[2]
        torch.backends.cudnn.benchmark = before[3]
        torch.use_deterministic_algorithms(before[4], warn_only=before[5])


def average_gradients(parameters: Sequence[nn.Parameter], accelerator: Accelerator) -> None:
    """Replace each gradient by its mean over the processes.

    By hand rather than by DistributedDataParallel: DDP rearranges its buckets after the first step, which changes
    the order of summation, so a run resumed on three or more processes would differ in the last bits. It also
    leaves the task free to call the model as often, and by whichever method, it likes. The models are small:
    one exchange of all gradients costs little beside a step.
    """
    if accelerator.num_processes == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:  # unused here, perhaps used in another process
            parameter.grad = torch.zeros_like(parameter)
    gradients = [p.grad for p in parameters if p.grad is not None]
    for group in _by_dtype(gradients):
        flat = accelerator.reduce(torch.cat([g.flatten() for g in group]), "mean")
        _unflatten_into(group, flat)


@torch.no_grad()
def copy_from_main(tensors: Sequence[Tensor], accelerator: Accelerator) -> None:
    """Overwrite the tensors with those of the main process."""
    if accelerator.num_processes == 1:
        return
    for group in _by_dtype([t.detach() for t in tensors]):
        _unflatten_into(group, broadcast(torch.cat([t.flatten() for t in group])))


def gather(value: Any, accelerator: Accelerator) -> list[Any]:
    """Return the value of every process, in their order."""
    return list(gather_object([value])) if accelerator.num_processes > 1 else [value]


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def _unflatten_into(tensors: Sequence[Tensor], flat: Tensor) -> None:
    pieces = flat.split([t.numel() for t in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))
