"""Which work is worth one of our kernel launches, if every launch is made from Python.

On a GPU an eager step spends more time on launching small kernels than on running them, and launching one of ours takes
longer than launching one of torch's. For norms and convolutions torch also has a single kernel: eager calls use it
unless the arrays are large. In a CUDA graph, or compiled, launches cost nothing, and our kernels are always used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from akorn import kernels

NORM = 2**24
"""Elements from which our eager norm pays off; measured on an H200, like the next number."""
CONVOLUTION = 60e9
"""Floating-point operations from which our eager convolution pays off in TF32; in 16 bits twice as many."""

_free = 0  # depth of nested contexts; a plain number, which the threads of the backward pass also see


@contextmanager
def free() -> Iterator[None]:
    """A context in which launches cost nothing, because the work is or will be recorded."""
    global _free
    _free += 1
    try:
        yield
    finally:
        _free -= 1


def pays(work: float, least: float) -> bool:
    """Whether one of our kernels is worth its launch: `work` is large, or launches cost nothing."""
    return work >= least or _free > 0 or kernels.interpreting() or torch.compiler.is_compiling()


def convolution_pays(x: Tensor, weight: Tensor, stride: int) -> bool:
    """`pays` for a convolution of pictures."""
    operations = 2.0 * x.shape[0] * x.shape[2:].numel() / stride**2 * weight.numel()
    kind = x.device.type
    narrow = torch.is_autocast_enabled(kind) or x.dtype in (torch.bfloat16, torch.float16)
    return pays(operations, 2 * CONVOLUTION if narrow else CONVOLUTION)
