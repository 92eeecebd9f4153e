"""What the processes of one training run or evaluation exchange. A single process exchanges nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from akorn.runtime.devices import leave_at_exit, shares_gpus


def place(device: torch.device) -> tuple[int, int]:
    """The rank of this process and how many there are; joins the others if a launcher started several."""
    if not dist.is_available():
        return 0, 1
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return 0, 1
        from accelerate import PartialState  # type: ignore[import-untyped]

        leave_at_exit()
        backend = {"backend": "gloo"} if device.type == "cuda" and shares_gpus() else {}
        PartialState(cpu=device.type == "cpu", **backend)
    return dist.get_rank(), dist.get_world_size()


def gather(values: Tensor) -> list[Tensor]:
    """The tensors of all processes, in order, in every process."""
    if not several():
        return [values]
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values.contiguous())
    return parts


def add_up(values: Tensor, device: torch.device | None = None) -> Tensor:
    """The sum over all processes, on the device of `values`; `device` is where they are exchanged, if different."""
    if not several():
        return values
    total = values.to(device, copy=True)
    dist.all_reduce(total)
    return total.to(values.device)


def average(values: Tensor) -> Tensor:
    """The mean over all processes."""
    if not several():
        return values
    total = values.clone()
    dist.all_reduce(total)
    return total.div_(dist.get_world_size())


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replace each gradient by its mean over the processes, in place.

    Where only some processes have one, it is zero in the others. Where none has one, it stays None, as in a single
    process: optimisers would not leave a parameter alone that has a gradient of zeros.

    We do not use DistributedDataParallel, because it rearranges its buckets after the first step, which changes
    the order of summation, so a run resumed on three or more processes would differ in the last bits. Also,
    tasks can call the model as often, and by whichever method, they like. The models are small:
    one exchange of all gradients costs little compared with a step.
    """
    if not several():
        return
    missing = [number for number, parameter in enumerate(parameters) if parameter.grad is None]
    users = torch.ones(len(parameters), device=parameters[0].device)  # of each parameter: processes with a gradient
    if missing:
        users[missing] = 0
    dist.all_reduce(users)
    if missing:  # nobody else must know, and wait for, the numbers
        for number, count in zip(missing, users[missing].tolist(), strict=True):
            if count:
                parameters[number].grad = torch.zeros_like(parameters[number])
    for group in _by_dtype([p.grad for p in parameters if p.grad is not None]):
        _unflatten_into(group, average(torch.cat([g.flatten() for g in group])))


@torch.no_grad()
def copy_from_main(tensors: Sequence[Tensor]) -> None:
    """Overwrite the tensors with those of the main process."""
    if not several():
        return
    for group in _by_dtype([t.detach() for t in tensors]):
        flat = torch.cat([t.flatten() for t in group])
        dist.broadcast(flat, src=0)
        _unflatten_into(group, flat)


def largest(value: int) -> int:
    """The largest of all processes' numbers."""
    if not several():
        return value
    device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else None
    shared = torch.tensor(value, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return int(shared)


def exchange_waits() -> bool:
    """Whether exchanging a number makes the host wait for a GPU, as NCCL does."""
    return several() and dist.get_backend() == "nccl"


def gather_objects(value: Any) -> list[Any]:
    """The values of all processes, in order, in every process; anything that can be pickled."""
    if not several():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def wait() -> None:
    """Wait until every process has reached this point."""
    if not several():
        return
    # Done here, since accelerate numbers the GPU by the process, which fails if processes share a GPU.
    dist.barrier(device_ids=[torch.cuda.current_device()] if dist.get_backend() == "nccl" else None)


def is_main() -> bool:
    """Whether this is the main process, the only one that prints."""
    return dist.get_rank() == 0 if several() else os.environ.get("RANK", "0") == "0"


def several() -> bool:
    """Whether there are other processes in this run."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def _unflatten_into(tensors: Sequence[Tensor], flat: Tensor) -> None:
    pieces = flat.split([t.numel() for t in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))
