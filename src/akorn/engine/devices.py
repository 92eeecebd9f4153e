"""The one place that talks to accelerate: devices, processes, precision, and what the processes exchange."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed.nn.functional  # before there is a process group, see `_leave`
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from accelerate.utils import broadcast, gather_object  # type: ignore[import-untyped]
from torch import Tensor, nn

from akorn.engine.config import TrainConfig
from akorn.errors import AkornError


def start(config: TrainConfig) -> Accelerator:
    """Return accelerate's view of this process: which device, which of how many processes, which precision."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise AkornError("device is 'cuda', but torch finds no CUDA device; use --device auto or cpu")
    if config.device == "mps" and not torch.backends.mps.is_available():
        raise AkornError("device is 'mps', but torch finds no Apple GPU; use --device auto or cpu")
    cpu = config.device == "cpu" or not (torch.cuda.is_available() or torch.backends.mps.is_available())
    if config.precision == "fp16" and cpu:
        raise AkornError("precision 'fp16' needs a GPU; on the CPU use float32 or bf16")
    # accelerate keeps one state a process and refuses a second precision or device; a process group must stay.
    joined = torch.distributed.is_initialized()
    AcceleratorState._reset_state(reset_partial_state=not joined)
    mixed = config.precision if config.precision in ("bf16", "fp16") else "no"
    accelerator = Accelerator(cpu=cpu, mixed_precision=mixed)
    if not joined and torch.distributed.is_initialized():  # the group is ours, so it is ours to leave
        atexit.register(_leave)
    if config.device not in ("auto", accelerator.device.type):
        raise AkornError(f"device is {config.device!r}, but accelerate was started on {accelerator.device.type!r}")
    return accelerator


def _leave() -> None:
    """Leave a gloo process group before Python shuts down.

    Gloo's threads let go of the exchanged tensors, which takes Python's lock. One that asks for it while Python shuts
    down is ended in the middle of a destructor, and the whole process aborts (SIGABRT). Leaving the group joins these
    threads, and asks nothing of the other processes, so it does not hang after an error. Other backends are left to
    torch: with NCCL, leaving may wait for the other processes, which one that failed cannot afford.

    The threads end with the last reference to the group. `torch.distributed.nn.functional` takes one for good, as a
    default argument, if it is imported (torch's optimisers do so) once there is a group; so it is imported above.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


@contextmanager
def numerics(config: TrainConfig) -> Iterator[None]:
    """Set how float32 products are computed and whether algorithms must be deterministic; undo it afterwards."""
    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    full = config.precision == "float32"
    try:
        torch.set_float32_matmul_precision("highest" if full else "high")
        torch.backends.cudnn.allow_tf32 = not full
        if config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
            torch.backends.cudnn.deterministic = True
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        torch.backends.cudnn.deterministic = before[2]
        torch.use_deterministic_algorithms(before[3], warn_only=before[4])


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
