"""What several processes of one evaluation exchange."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor

from akorn.devices import leave_at_exit


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


def add_up(values: Tensor, device: torch.device) -> Tensor:
    """The sum over all processes, on the CPU; `device` is the one that the processes exchange tensors on."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return values
    total = values.to(device)
    dist.all_reduce(total)
    return total.cpu()
