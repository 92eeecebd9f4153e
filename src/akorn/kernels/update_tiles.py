"""How the update kernels divide arrays of oscillators into tiles, and read and write them.

Arrays are read in place, as [samples, rows, N, pixels]: rows are oscillators, all of a sample's tokens together,
with one pixel for channels last and H·W for pictures in the usual order [B, C, H, W]. A program has one tile: some rows
at some pixels. It holds a tile as two arrays, the even and the odd components, so that the rotation of pairs needs no
shuffling: [ROWS, HALF] where FLAT, else [ROWS, HALF, PIXELS]; axis 1 is summed. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor


@triton.jit
def first_row(rows, pixels, ROWS: tl.constexpr, PIXELS: tl.constexpr):
    """The first row of this program's tile."""
    return (tl.program_id(0) // tl.cdiv(pixels, PIXELS)) % tl.cdiv(rows, ROWS) * ROWS


@triton.jit
def place(
    rows,
    pixels,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
):
    """Where this program's tile lies: sample, first element, then offsets of the even ones, and what is inside."""
    program = tl.program_id(0)
    across = tl.cdiv(pixels, PIXELS)
    down = tl.cdiv(rows, ROWS)
    pixel = (program % across) * PIXELS
    row = first_row(rows, pixels, ROWS, PIXELS)
    sample = program // (across * down)
    start = (sample.to(tl.int64) * rows + row) * N * pixels + pixel
    if FLAT:  # all consecutive: whole oscillators, N a power of two
        offsets = tl.arange(0, ROWS * HALF * 2)
        even = offsets < (rows - row).to(tl.int64) * N
        odd = even
    else:
        r = tl.arange(0, ROWS)[:, None, None]
        h = 2 * tl.arange(0, HALF)[None, :, None]
        p = tl.arange(0, PIXELS)[None, None, :]
        offsets = (r * N + h) * pixels + p
        inside = (r < rows - row) & (p < pixels - pixel)
        even = inside & (h < N)
        odd = inside & (h + 1 < N)
    return sample, start, offsets, even, odd


@triton.jit
def load_pairs(
    array,
    offsets,
    even,
    odd,
    pixels,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The even and the odd components of a tile, in the type to compute in; 0 outside."""
    if FLAT:
        both = tl.load(array + offsets, mask=even, other=0.0).to(WIDE)
        first, second = tl.split(tl.reshape(both, [ROWS, HALF, 2]))
    else:
        first = tl.load(array + offsets, mask=even, other=0.0).to(WIDE)
        second = tl.load(array + offsets + pixels, mask=odd, other=0.0).to(WIDE)
    return first, second


@triton.jit
def store_pairs(
    array,
    first,
    second,
    offsets,
    even,
    odd,
    pixels,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    FLAT: tl.constexpr,
):
    """The inverse of `load_pairs`."""
    if FLAT:
        both = tl.reshape(tl.join(first, second), [ROWS * HALF * 2])
        tl.store(array + offsets, both.to(array.dtype.element_ty), mask=even)
    else:
        tl.store(array + offsets, first.to(array.dtype.element_ty), mask=even)
        tl.store(array + offsets + pixels, second.to(array.dtype.element_ty), mask=odd)


@triton.jit
def dot(a0, a1, b0, b1):
    """The scalar product of two vectors per oscillator."""
    return tl.sum(a0 * b0 + a1 * b1, 1, keep_dims=True)


@dataclass(frozen=True)
class Tiles:
    """How arrays [samples, rows, N, pixels] are divided into programs."""

    parts: int  # programs per sample
    constants: dict[str, Any]  # what the kernels are compiled for


@lru_cache(4096)
def cut(rows: int, pixels: int, n: int, dtype: torch.dtype, elements: int) -> Tiles:
    """Tiles of about this many elements."""
    half = triton.next_power_of_2((n + 1) // 2)
    # Consecutive pixels for whole memory segments, but few enough that a warp has all components of its oscillators.
    wide = min(triton.next_power_of_2(pixels), max(16, 128 // half))
    high = max(1, elements // (2 * half * wide))
    constants = {
        "N": n,
        "ROWS": high,
        "HALF": half,
        "PIXELS": wide,
        "FLAT": pixels == 1 and n == 2 * half,
        "WIDE": tl.float64 if dtype == torch.float64 else tl.float32,
        "num_warps": 4,
    }
    return Tiles(triton.cdiv(rows, high) * triton.cdiv(pixels, wide), constants)


def form(x: Tensor) -> torch.memory_format:
    """The memory layout for the arrays of an update: that of x, or plain if x has gaps."""
    if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format


def lying(x: Tensor, n: int) -> tuple[int, int]:
    """(rows, pixels) of a sample, for an array in its `form`."""
    pixels = max(1, x.shape[2] * x.shape[3]) if x.ndim == 4 and form(x) is torch.contiguous_format else 1
    return x.shape[1:].numel() // (n * pixels), pixels
