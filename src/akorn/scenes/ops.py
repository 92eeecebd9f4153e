"""Elementwise functions for the shared mathematics, in torch.

The modules `vectors`, `shapes`, `ground`, `lamps`, `reflection`, `textures` and `transport` are written once, with
these functions and the four arithmetic operations. On a CPU they run on tensors, one element for each ray.
`akorn.scenes.kernel` compiles the same functions with Triton, where these names stand for Triton's functions. So they
use only what both understand: elementwise arithmetic, tuples of three as vectors, branches on single numbers, and no
early returns.
"""

from __future__ import annotations

from typing import Any

import torch

Value = Any
"""A number for each ray: a tensor [rays] here, a block in Triton; or one number for all rays."""
Vector = tuple[Any, Any, Any]

sqrt, exp, log, sin, cos, floor, absolute = (
    torch.sqrt, torch.exp, torch.log, torch.sin, torch.cos, torch.floor, torch.abs
)  # fmt: skip
where = torch.where


def maximum(a: Value, b: Value) -> Value:
    """The larger of two; `b` may be a plain number."""
    return torch.maximum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, min=b)


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two; `b` may be a plain number."""
    return torch.minimum(a, b) if isinstance(b, torch.Tensor) else torch.clamp(a, max=b)


def as_float(a: Value, like: Value) -> Value:
    """A mask or whole numbers as numbers of the type of `like`."""
    return a.to(like.dtype)
