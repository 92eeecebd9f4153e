"""What the attention kernels for training share: tiles of tokens and channels, and how they are multiplied."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.tune import interpreted, precision


@triton.jit
def load_tile(
    base, tokens, parts, STRIDE: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr, INSIDE: tl.constexpr = False
):
    """Rows `tokens` of [TOKENS, D], STRIDE apart; zeros outside. INSIDE says that no row is outside."""
    places = base + tokens[:, None] * STRIDE + parts[None, :]
    if INSIDE and parts.shape[0] == D:
        x = tl.load(places)
    elif INSIDE:
        x = tl.load(places, mask=(parts < D)[None, :], other=0.0)
    else:
        x = tl.load(places, mask=(tokens[:, None] < TOKENS) & (parts[None, :] < D), other=0.0)
    return x


@triton.jit
def load_row(base, tokens, TOKENS: tl.constexpr, INSIDE: tl.constexpr):
    """A value for each of the tokens; zeros outside."""
    return tl.load(base + tokens) if INSIDE else tl.load(base + tokens, mask=tokens < TOKENS, other=0)


@triton.jit
def store_tile(base, tokens, parts, x, STRIDE: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr):
    """Write rows as `load_tile` reads them."""
    inside = (tokens[:, None] < TOKENS) & (parts[None, :] < D)
    tl.store(base + tokens[:, None] * STRIDE + parts[None, :], x.to(base.dtype.element_ty), mask=inside)


def padded(size: int) -> int:
    """The side of a tile for this many tokens or channels: a power of two, and at least what products need."""
    return max(16, triton.next_power_of_2(size))


def rest(tokens: int, block: int) -> int:
    """The side of a last, smaller tile for the tokens that whole blocks leave over; 0 if there are none."""
    return padded(tokens % block) if tokens % block else 0


def products(dtype: torch.dtype) -> str:
    """How matrices are multiplied: float32 without loss, or with 16 bits if PyTorch's own products have 10 (TF32).

    Weights are exponentials of scores, so rounding matters more here than in the products around them.
    """
    if dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
        return "split wide" if interpreted() else "split"
    return precision(dtype)


def value_bytes(dtype: torch.dtype) -> int:
    """The size of a value in shared memory: products of float32 without loss store it as two numbers."""
    return dtype.itemsize * (2 if products(dtype) == "tf32x3" else 1)


def launching(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of x the current one, on which Triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
