"""Which work is worth a launch of our own, where every launch is made from Python.

On a GPU an eager step spends more time on launching small kernels than on running them, and launching one of ours takes
longer than launching one of torch's. For norms and convolutions torch has one kernel too: eager calls take it unless
the arrays are large. Recorded as a CUDA graph, or compiled, launches cost nothing, and ours are always taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from akorn import kernels

NORM = 2**24
"""Elements from which an eager norm of ours pays; measured on an H200, as is what follows."""
CONVOLUTION = 60e9
"""Floating-point operations from which an eager convolution of ours pays in TF32; in 16 bits twice as many."""

_free = 0  # how many contexts we are in; a plain number, which the threads of the backward pass see too


@contextmanager
def free() -> Iterator[None]:
    """Inside, launches cost nothing: what runs is recorded, or will be."""
    global _free
    _free += 1
    try:
        yield
    finally:
        _free -= 1


def pays(work: float, least: float) -> bool:
    """Whether a kernel of ours is worth its launch here: `work` is large, or launches cost nothing."""
    return work >= least or _free > 0 or kernels.interpreting() or torch.compiler.is_compiling()


def convolution_pays(x: Tensor, weight: Tensor, stride: int) -> bool:
    """`pays` for a convolution of pictures."""
    operations = 2.0 * x.shape[0] * x.shape[2:].numel() / stride**2 * weight.numel()
    kind = x.device.type
    narrow = torch.is_autocast_enabled(kind) or x.dtype in (torch.bfloat16, torch.float16)
    return pays(operations, 2 * CONVOLUTION if narrow else CONVOLUTION)
