"""Π of all oscillators of an array in one pass over memory, with its gradient in another.

    Π[x] = x/‖x‖,    g_x = (g − ⟨g, Π[x]⟩Π[x])/‖x‖,    both 0 where x is too short to have a direction

Arrays are read in place, as by `akorn.kernels.update`. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn import oscillators as osc
from akorn.kernels.operators import operator
from akorn.kernels.update_tiles import cut, dot, form, load_pairs, lying, place, store_pairs

ELEMENTS = 2048  # elements of each array that a program has


@triton.jit
def _normalise_kernel(
    x,  # [rows, N, pixels], like the other two
    grad,
    out,
    rows,
    pixels,
    tiny,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    BACKWARD: tl.constexpr,
    WIDE: tl.constexpr,
):
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    x0, x1 = load_pairs(x + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    length = tl.sqrt(dot(x0, x1, x0, x1))
    scale = 1.0 / tl.where(length < tiny, float("inf"), length)  # 0 where x is too short to have a direction
    x0 *= scale
    x1 *= scale
    if BACKWARD:
        g0, g1 = load_pairs(grad + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
        radial = dot(g0, g1, x0, x1)
        x0 = (g0 - radial * x0) * scale
        x1 = (g1 - radial * x1) * scale
    store_pairs(out + start, x0, x1, offsets, even, odd, pixels, ROWS, HALF, FLAT)


def _launch(x: Tensor, grad: Tensor | None, n: int) -> Tensor:
    memory = form(x)
    x = x.contiguous(memory_format=memory)
    out = torch.empty_like(x)
    rows, pixels = lying(x, n)
    rows *= x.shape[0]  # it makes no difference where a sample ends
    tiles = cut(rows, pixels, n, x.dtype, ELEMENTS)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _normalise_kernel[(tiles.parts,)](
            x,
            x if grad is None else grad.contiguous(memory_format=memory),
            out,
            rows,
            pixels,
            max(osc.TINY, torch.finfo(x.dtype).tiny),
            BACKWARD=grad is not None,
            **tiles.constants,
        )
    return out


@operator("akorn::normalise")
def normalise(x: Tensor, n: int) -> Tensor:
    """Π of oscillators of N consecutive channels, also like x in memory; differentiable once.

    Args:
        x: [B, C], [B, tokens, C] or pictures [B, C, H, W].
        n: N.

    """
    return _launch(x, None, n)


@operator("akorn::normalise_backward")
def normalise_backward(grad: Tensor, x: Tensor, n: int) -> Tensor:
    """The gradient of x."""
    return _launch(x, grad, n)


@normalise.register_fake
def _(x: Tensor, n: int) -> Tensor:
    return torch.empty_like(x.contiguous(memory_format=form(x)))


@normalise_backward.register_fake
def _(grad: Tensor, x: Tensor, n: int) -> Tensor:
    return torch.empty_like(x.contiguous(memory_format=form(x)))


def _keep(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
    x, ctx.n = inputs
    ctx.save_for_backward(x)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    return normalise_backward(grad, ctx.saved_tensors[0], ctx.n), None


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError("the fused Π has no second derivatives; akorn.kernels.enable(False) selects the plain one")


normalise.register_autograd(_differentiate, setup_context=_keep)
normalise_backward.register_autograd(_refuse)
