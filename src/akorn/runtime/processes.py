"""What several processes of one evaluation exchange."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor

from akorn.runtime.devices import leave_at_exit


def place(device: torch.device) -> tuple[int, int]:
    """The number of this process and how many there are; joins the others where a launcher started several."""
    if not dist.is_available():
        return 0, 1
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return 0, 1
        from accelerate import PartialState  # type: ignore[import-untyped]

        leave_at_exit()
        PartialState(cpu=device.type == "cpu")
    return dist.get_rank(), dist.get_world_size()


def gather(values: Tensor) -> list[Tensor]:
    """The tensor of every process, in their order, in every process."""
    if not _several():
        return [values]
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values.contiguous())
    return parts


def add_up(values: Tensor, device: torch.device | None = None) -> Tensor:
    """The sum over all processes, where `values` lie; `device` is where they are exchanged, if that is elsewhere."""
    if not _several():
        return values
    total = values.to(device, copy=True)
    dist.all_reduce(total)
    return total.to(values.device)


def is_main() -> bool:
    """Whether this process is the one that talks, of those that a launcher started."""
    return dist.get_rank() == 0 if _several() else os.environ.get("RANK", "0") == "0"


def _several() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
