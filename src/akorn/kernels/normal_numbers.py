"""The random starts of `akorn.sudoku.hashed_starts` in one pass: hashed counters become normal numbers in registers.

The plain form makes about thirty passes over arrays of 64-bit numbers. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import math

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from triton.language.extra import libdevice  # type: ignore[import-not-found,import-untyped,unused-ignore]

from akorn.kernels.tune import interpreted

_BLOCK = 1024


@triton.jit
def _mix(x):
    """splitmix64's finaliser."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def _normal_kernel(
    streams,  # [S] int64
    out,  # [S, count]: cosines first, then sines
    count,
    half,
    turn,  # 2π / 2²⁴
    BLOCK: tl.constexpr,
    LIBDEVICE: tl.constexpr,
):
    sample = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counter = (place + 1).to(tl.uint64)
    stream = tl.load(streams + sample).to(tl.uint64, bitcast=True)
    bits = _mix(stream + counter * 0x9E3779B97F4A7C15)
    uniform = ((bits >> 40 & 0xFFFFFF) + 1).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08  # 2⁻²⁴
    angle = (bits >> 16 & 0xFFFFFF).to(tl.int32).to(tl.float32) * turn
    if LIBDEVICE:  # what PyTorch calls too
        length = tl.sqrt_rn(-2.0 * libdevice.log(uniform))
        first = length * libdevice.cos(angle)
        second = length * libdevice.sin(angle)
    else:
        length = tl.sqrt_rn(-2.0 * tl.log(uniform))
        first = length * tl.cos(angle)
        second = length * tl.sin(angle)
    row = out + sample * count
    tl.store(row + place, first, mask=place < half)
    tl.store(row + half + place, second, mask=place + half < count)


def normal_numbers(streams: Tensor, count: int) -> Tensor:
    """`count` standard normal numbers of each stream [S] int64: float32 [S, count]."""
    out = streams.new_empty(len(streams), count, dtype=torch.float32)
    half = (count + 1) // 2
    with torch.cuda.device_of(streams):
        for first in range(0, len(streams), 65535):  # the limit of a grid's second axis
            part = slice(first, first + 65535)
            _normal_kernel[(triton.cdiv(half, _BLOCK), len(streams[part]))](
                streams[part], out[part], count, half, 2 * math.pi * 2.0**-24, BLOCK=_BLOCK, LIBDEVICE=not interpreted()
            )
    return out
