"""The measured limits of the machine: a large matrix product, and a pass over large arrays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from akorn.bench.measure import measure

# (side of the square matrices, elements of the arrays): enough to reach the ceiling, not more
_SIZES = {"cuda": (8192, 1 << 28), "cpu": (2048, 1 << 25)}
_TINY = (128, 1 << 16)


@dataclass(frozen=True)
class Ceilings:
    """The limits of one device in one precision."""

    flops: float
    """Floating-point operations per second of a product."""
    bandwidth: float
    """Bytes per second of a ← b + 2c, read and written."""

    def __str__(self) -> str:
        return f"{self.flops / 1e12:.3g} TFLOP/s in products, {self.bandwidth / 1e9:.3g} GB/s through memory"


def measure_ceilings(device: torch.device, dtype: torch.dtype, *, tiny: bool = False, repeats: int = 5) -> Ceilings:
    """Both ceilings for matrices of this type; products of float32 follow torch's current setting."""
    side, count = _TINY if tiny else _SIZES.get(device.type, _SIZES["cpu"])
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    b, c = (torch.ones(count, device=device) for _ in range(2))
    product, total = torch.empty_like(left), torch.empty_like(b)

    def multiply() -> Tensor:
        return torch.mm(left, right, out=product)

    def triad() -> Tensor:
        return torch.add(b, c, alpha=2.0, out=total)

    found = measure({"product": multiply, "triad": triad}, device, repeats, memory=False)
    return Ceilings(2.0 * side**3 / found["product"].seconds, 3.0 * 4 * count / found["triad"].seconds)
