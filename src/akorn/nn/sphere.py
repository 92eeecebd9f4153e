"""Π of whole arrays of oscillators, fused where kernels may be used."""

from __future__ import annotations

from torch import Tensor

from akorn import kernels
from akorn import oscillators as osc


def to_sphere(x: Tensor, n: int) -> Tensor:
    """Every oscillator at length 1: [B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
    dim = osc.channel_axis(x)
    if kernels.usable(x):
        from akorn.kernels.normalise import normalise
        from akorn.kernels.update import DTYPES, MAX_N

        if n <= MAX_N and x.dtype in DTYPES:
            osc.check_grouping(x.shape[dim], n)
            return normalise(x, n)
    return osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)
