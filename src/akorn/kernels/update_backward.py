"""The backward pass of `akorn.kernels.update` in one pass over memory.

With u = Jx + c + Ωx, y = x + γ(u − ⟨u, x⟩x) and x′ = y/‖y‖, and g the gradient of x′:

    g_y = (g − ⟨g, x′⟩x′)/‖y‖,    g_u = γ(g_y − ⟨g_y, x⟩x),    g_x = g_y − γ⟨u, x⟩g_y − γ⟨g_y, x⟩u + Ωᵀg_u

g_u is the gradient of Jx and of c, and Ωᵀ = −Ω. Without Proj,

    y = x + γu,    g_u = γg_y,    g_x = g_y + Ωᵀg_u

Everything is recomputed from x, Jx and c, so nothing else is kept for it. g may come in two parts of different types,
from the update that follows and from its coupling, and the gradient of c may be added to a sum from other steps. For γ
and one rate ω, the kernel writes one sum per program, and these are then added in a fixed order; the gradient of any
other Ω is a product of arrays that the kernel has written. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator
from akorn.kernels.update_omega import load_rates, rotate, rotation
from akorn.kernels.update_tiles import cut, dot, first_row, form, load_pairs, lying, place, store_pairs


class Block(NamedTuple):
    """How much work a program of an update kernel does."""

    elements: int  # of each array
    warps: int = 4


BLOCK = Block(1024)  # 8 elements per thread, since more arrays are held at a time than forward


@triton.jit
def _update_backward_kernel(
    grad,  # of x′; this and all arrays [samples, rows, N, pixels]
    grad_narrow,  # to be added to it
    grad_energy,  # [samples]
    x,
    jx,
    c,
    gamma,
    rate,  # or Ω
    grad_x,
    grad_jx,  # also the gradient of c, unless SEPARATE
    grad_c,  # added to what is there if TOTAL
    sums,  # [2, programs]: of γ, of one ω
    rows,
    pixels,
    pair_weight,  # in the energy, and in its contribution to grad_jx
    jx_weight,
    oscillators,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PIXELS: tl.constexpr,
    FLAT: tl.constexpr,
    PROJECT: tl.constexpr,
    ROTATE: tl.constexpr,  # this and EACH as `rotation` says
    EACH: tl.constexpr,
    ENERGY: tl.constexpr,
    SEPARATE: tl.constexpr,
    SUMS: tl.constexpr,
    TWICE: tl.constexpr,
    TOTAL: tl.constexpr,
    WIDE: tl.constexpr,
):
    sample, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    x0, x1 = load_pairs(x + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    j0, j1 = load_pairs(jx + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    c0, c1 = load_pairs(c + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    g0, g1 = load_pairs(grad + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    if TWICE:
        n0, n1 = load_pairs(grad_narrow + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
        g0 += n0
        g1 += n1
    step = tl.load(gamma).to(WIDE)
    row = first_row(rows, pixels, ROWS, PIXELS)
    if ROTATE == 1:
        turn = load_rates(rate, row, oscillators, N, ROWS, HALF, FLAT, WIDE) if EACH else tl.load(rate).to(WIDE)

    # Recompute the step.
    u0 = j0 + c0
    u1 = j1 + c1
    if ROTATE == 1:
        u0 += turn * x1
        u1 -= turn * x0
    if ROTATE == 2:
        w0, w1 = rotate(rate, x0, x1, row, oscillators, N, ROWS, HALF, FLAT, EACH, WIDE)
        u0 += w0
        u1 += w1
    d0 = u0
    d1 = u1
    if PROJECT:
        along = dot(u0, u1, x0, x1)
        d0 -= along * x0
        d1 -= along * x1
    y0 = x0 + step * d0
    y1 = x1 + step * d1
    length = tl.sqrt(dot(y0, y1, y0, y1))
    scale = 1.0 / tl.where(length < 1e-12, float("inf"), length)  # 0 where y is too short to have a direction
    y0 *= scale
    y1 *= scale

    # Back through Π.
    radial = dot(g0, g1, y0, y1)
    g0 = (g0 - radial * y0) * scale
    g1 = (g1 - radial * y1) * scale
    if SUMS:
        tl.store(sums + tl.program_id(0), tl.sum(g0 * d0 + g1 * d1))

    # Back through Proj and Ω.
    h0 = step * g0
    h1 = step * g1
    f0 = h0
    f1 = h1
    if PROJECT:
        beside = dot(h0, h1, x0, x1)
        f0 -= beside * x0
        f1 -= beside * x1
        g0 -= along * h0 + beside * u0
        g1 -= along * h1 + beside * u1
    if ROTATE == 1:
        g0 -= turn * f1
        g1 += turn * f0
        if SUMS and not EACH:
            tl.store(sums + tl.num_programs(0) + tl.program_id(0), tl.sum(f0 * x1 - f1 * x0))
    if ROTATE == 2:
        w0, w1 = rotate(rate, f0, f1, row, oscillators, N, ROWS, HALF, FLAT, EACH, WIDE)
        g0 -= w0
        g1 -= w1
    e = tl.load(grad_energy + sample).to(WIDE) if ENERGY else 0.0
    if ENERGY:
        g0 -= e * (pair_weight * j0 + c0)
        g1 -= e * (pair_weight * j1 + c1)
    if SEPARATE:
        s0 = f0 - e * x0 if ENERGY else f0
        s1 = f1 - e * x1 if ENERGY else f1
        if TOTAL:
            t0, t1 = load_pairs(grad_c + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
            s0 += t0
            s1 += t1
        store_pairs(grad_c + start, s0, s1, offsets, even, odd, pixels, ROWS, HALF, FLAT)
    if ENERGY:
        f0 -= jx_weight * e * x0
        f1 -= jx_weight * e * x1
    store_pairs(grad_x + start, g0, g1, offsets, even, odd, pixels, ROWS, HALF, FLAT)
    store_pairs(grad_jx + start, f0, f1, offsets, even, odd, pixels, ROWS, HALF, FLAT)


def separate(jx: Tensor, c: Tensor, wanted: list[bool], grad_energy: Tensor | None, pair_weight: float | None) -> bool:
    """Whether the gradients of Jx and c need an array each; `wanted` says which of the two are requested."""
    return all(wanted) and (jx.dtype != c.dtype or (grad_energy is not None and pair_weight != 1.0))


@operator("akorn::update_backward")
def update_backward(
    grad: Tensor,
    grad_narrow: Tensor | None,
    grad_energy: Tensor | None,
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of `update`.

    Args:
        grad: that of x′.
        grad_narrow: what is to be added to it, of any type: the gradient of the narrow x′; or None.
        grad_energy: that of the energies, [B], or None if there are none.
        x: as for `update`, like those that follow.
        jx: Jx.
        c: C.
        gamma: γ.
        rate: Ω or None.
        n: N.
        project: whether there is Proj.
        pair_weight: the weight of x·Jx in the energy.
        wanted: whether gradients of Jx, of c, and of γ or one ω are requested.

    Returns: the gradients of x; of Jx (or of c if only that is requested); of c, empty if it is that of Jx;
        and of γ and one ω, [2], or of γ alone, [1], or empty if not requested. `omega_gradient` makes that of
        another Ω from the second or third.

    """
    further = (x, jx, c, gamma, rate, n, project, pair_weight, wanted)
    return launch_backward(grad, grad_energy, *further, grad_narrow=grad_narrow)


def launch_backward(
    grad: Tensor,
    grad_energy: Tensor | None,
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    wanted: list[bool],
    block: Block = BLOCK,
    *,
    grad_narrow: Tensor | None = None,
    into: Tensor | None = None,
    add: bool = False,
    overwrite: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`update_backward` that can reuse existing arrays, with programs of a given size.

    The gradient of c is written to `into`, an array like c, or with `add` added to what it holds; with `overwrite` the
    gradient of x may take the place of `grad`. Use what is returned: an array in another memory order is copied.
    """
    memory = form(x)
    x, jx, c, grad = (array.contiguous(memory_format=memory) for array in (x, jx, c, grad))
    if grad_narrow is not None:
        grad_narrow = grad_narrow.contiguous(memory_format=memory)
    apart = into is not None or separate(jx, c, wanted[:2], grad_energy, pair_weight)
    grad_x = grad if overwrite and grad.dtype == x.dtype else torch.empty_like(x)
    grad_jx = torch.empty_like(jx if wanted[0] else c)
    if into is not None:
        grad_c = into.contiguous(memory_format=memory)
    else:
        grad_c = torch.empty_like(c) if apart else c.new_empty(0)
    rows, pixels = lying(x, n)
    samples = x.shape[0]
    if grad_energy is None:  # then it makes no difference where a sample ends
        rows, samples = samples * rows, 1
    else:
        grad_energy = grad_energy.contiguous()
    tiles = cut(rows, pixels, n, x.dtype, block.elements)
    programs = samples * tiles.parts
    wide = torch.promote_types(x.dtype, torch.float32)
    # Without one ω the kernel does not write the second row.
    sums = x.new_empty(_sums(rate), programs, dtype=wide) if wanted[2] else None
    weight = pair_weight if pair_weight is not None else 0.0
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _update_backward_kernel[(programs,)](
            grad,
            grad_narrow if grad_narrow is not None else grad,
            grad_energy if grad_energy is not None else gamma,
            x,
            jx,
            c,
            gamma,
            rate.contiguous() if rate is not None else gamma,
            grad_x,
            grad_jx,
            grad_c if apart else grad_jx,
            sums if sums is not None else gamma,
            rows,
            pixels,
            weight,
            weight if wanted[0] else 1.0,
            PROJECT=project,
            **rotation(rate, x, n),
            ENERGY=grad_energy is not None,
            SEPARATE=apart,
            SUMS=sums is not None,
            TWICE=grad_narrow is not None,
            TOTAL=add,
            **{**tiles.constants, "num_warps": block.warps},
        )
    return grad_x, grad_jx, grad_c, sums.sum(1) if sums is not None else x.new_empty(0, dtype=wide)


@update_backward.register_fake
def _(
    grad: Tensor,
    grad_narrow: Tensor | None,
    grad_energy: Tensor | None,
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    like = torch.empty_like(x.contiguous(memory_format=form(x)))
    apart = separate(jx, c, wanted[:2], grad_energy, pair_weight)
    return (
        like,
        torch.empty_like(like, dtype=(jx if wanted[0] else c).dtype),
        torch.empty_like(like, dtype=c.dtype) if apart else c.new_empty(0),
        x.new_empty(_sums(rate) if wanted[2] else 0, dtype=torch.promote_types(x.dtype, torch.float32)),
    )


def _sums(rate: Tensor | None) -> int:
    return 2 if rate is not None and rate.numel() == 1 else 1


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "the fused Kuramoto update has no second derivatives; akorn.kernels.enable(False) selects the plain one"
    )


update_backward.register_autograd(_refuse)
