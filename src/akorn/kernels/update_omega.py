"""Ω in the update kernels: its possible forms, Ωv for a tile, and its gradient.

Tiles are those of `update_tiles`. The oscillator of a row is row % oscillators in every layout, and rows beyond the
end have one too. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.update_tiles import dot, form


@triton.jit
def load_rates(
    rates,  # [oscillators, N/2]
    row,
    oscillators,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    FLAT: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The rate of every pair of a tile, [ROWS, HALF] or [ROWS, HALF, 1]."""
    if FLAT:  # of either component, as vectors are loaded, so that both are spread over threads in the same way
        each = tl.arange(0, ROWS * HALF * 2)
        k = (row + each // N) % oscillators
        both = tl.load(rates + k * HALF + each % N // 2).to(WIDE)
        rate, _ = tl.split(tl.reshape(both, [ROWS, HALF, 2]))
    else:
        k = (row + tl.arange(0, ROWS)[:, None]) % oscillators
        h = tl.arange(0, HALF)[None, :]
        rate = tl.load(rates + k * (N // 2) + h, mask=h < N // 2, other=0.0).to(WIDE)[:, :, None]
    return rate


@triton.jit
def load_omega(
    omega,  # [N, N], or [oscillators, N, N] if EACH
    i,
    row,
    oscillators,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    FLAT: tl.constexpr,
    EACH: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Row i of Ω for every row of a tile, as pairs that are 0 beyond N."""
    if FLAT:  # as vectors are loaded
        each = tl.arange(0, ROWS * HALF * 2)
        entries = omega + i * N + each % N
        if EACH:
            entries += (row + each // N) % oscillators * (N * N)
        both = tl.load(entries).to(WIDE)
        first, second = tl.split(tl.reshape(both, [ROWS, HALF, 2]))
    else:
        h = 2 * tl.arange(0, HALF)[None, :]
        entries = omega + i * N + h
        if EACH:
            entries += (row + tl.arange(0, ROWS)[:, None]) % oscillators * (N * N)
        first = tl.load(entries, mask=h < N, other=0.0).to(WIDE)[:, :, None]
        second = tl.load(entries + 1, mask=h + 1 < N, other=0.0).to(WIDE)[:, :, None]
    return first, second


@triton.jit
def rotate(
    omega,
    v0,
    v1,
    row,
    oscillators,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    FLAT: tl.constexpr,
    EACH: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Ωv for a tile of vectors: a scalar product for each row of Ω, put in its place."""
    h = tl.arange(0, HALF)[None, :]
    if not FLAT:
        h = h[:, :, None]
    w0 = tl.zeros_like(v0)
    w1 = tl.zeros_like(v1)
    for i in tl.static_range(N):
        o0, o1 = load_omega(omega, i, row, oscillators, N, ROWS, HALF, FLAT, EACH, WIDE)
        value = tl.where(h == i // 2, dot(o0, o1, v0, v1), 0.0)
        if i % 2 == 0:
            w0 += value
        else:
            w1 += value
    return w0, w1


def rotation(rate: Tensor | None, x: Tensor, n: int) -> dict[str, Any]:
    """The form of Ω for the kernels: ROTATE is 0 for none, 1 for rates of pairs and 2 for matrices.

    EACH says whether every oscillator has its own. ValueError unless this rotation fits x.
    """
    oscillators = (x.shape[1] if x.ndim == 4 else x.shape[-1]) // n
    if rate is None:
        return {"ROTATE": 0, "EACH": False, "oscillators": 1}
    if rate.numel() == 1 and n % 2 == 0:
        return {"ROTATE": 1, "EACH": False, "oscillators": 1}
    if rate.shape == (oscillators, n // 2) and n % 2 == 0:
        return {"ROTATE": 1, "EACH": True, "oscillators": oscillators}
    if rate.shape == (n, n):
        return {"ROTATE": 2, "EACH": False, "oscillators": 1}
    if rate.shape == (oscillators, n, n):
        return {"ROTATE": 2, "EACH": True, "oscillators": oscillators}
    raise ValueError(
        f"Ω must be a matrix [N, N] or [oscillators, N, N] or, for even n only, one rate of pairs or [oscillators, N/2]"
        f" rates; got shape {list(rate.shape)} for n={n} and {oscillators} oscillators"
    )


def omega_gradient(grad: Tensor, x: Tensor, rate: Tensor, n: int) -> Tensor:
    """The gradient of an Ω that is more than one rate, from the gradient g of Jx or of c.

    Of matrices it is (G − Gᵀ)/2 with G = Σ g xᵀ, since the rest has no effect on antisymmetric ones; the rate of a pair
    gets G₁₂ − G₂₁. An energy's contribution to g makes no difference, since it is parallel to x.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    x, grad = (array.contiguous(memory_format=form(x)).to(wide) for array in (x, grad))
    with torch.autocast(x.device.type, enabled=False):
        if x.ndim == 4 and form(x) is torch.contiguous_format:
            parts = [array.flatten(2).unflatten(1, (-1, n)) for array in (grad, x)]  # [B, oscillators, N, H·W]
            product = (parts[0] @ parts[1].mT).sum(0)  # [oscillators, N, N]
        else:
            last = [array.movedim(1, -1) if x.ndim == 4 else array for array in (grad, x)]
            first, second = (array.reshape(-1, array.shape[-1] // n, n) for array in last)  # [all, oscillators, N]
            product = first.permute(1, 2, 0) @ second.transpose(0, 1)
    if rate.shape == (n, n):
        product = product.sum(0)
    odd = product - product.mT
    return (odd / 2 if rate.shape[-1] == n else odd.diagonal(1, -2, -1)[:, ::2]).to(rate.dtype)
