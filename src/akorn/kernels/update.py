"""The Kuramoto update in one pass over memory, with its backward pass in `update_backward`.

    x′ = Π[x + γ (Ωx + Proj_x(Jx + c))],    E = −½ x·Jx − x·c  or  −x·(Jx + c)   of the state before the step

Proj is optional, as in the paper's ablation: it is known when a kernel is compiled.
Arrays are read in place, as [oscillators, N, pixels]: one pixel for channels last, H·W for pictures [B, C, H, W].
Ω is antisymmetric: rates of pairs of components or any such matrices, shared or one per oscillator.
Arithmetic is float32 for all arrays (float64 for float64). The kernel writes energies as sums over parts of a sample,
which are then added in a fixed order: the same input gives the same bits. If the next step multiplies the state in a
narrower type, as under autocast, the same pass also writes it in that type. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator
from akorn.kernels.solve_attention import swap_pairs
from akorn.kernels.update_backward import Block, separate, update_backward
from akorn.kernels.update_omega import load_rates, omega_gradient, rotate, rotation
from akorn.kernels.update_tiles import cut, dot, first_row, form, load_pairs, lying, place, store_pairs

MAX_N = 16
ENERGIES: dict[str | None, float] = {"eq3": 0.5, "published": 1.0}
"""The weight of x·Jx in each energy."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

BLOCK = Block(2048)  # 16 elements per thread


@triton.jit
def advance(
    x,
    force,
    gamma,
    rate,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
    PROJECT: tl.constexpr,
    ROTATE: tl.constexpr,
):
    """The next state; N consecutive columns are one oscillator. All float32, [ROWS, COLUMNS]."""
    if ROTATE:  # Ωx is already tangent, so it can pass through Proj with the force
        sign = 1.0 - 2.0 * (tl.arange(0, COLUMNS) % 2).to(tl.float32)
        force += rate * sign[None, :] * swap_pairs(x, ROWS, COLUMNS)
    x = tl.reshape(x, [ROWS, COLUMNS // N, N])
    force = tl.reshape(force, [ROWS, COLUMNS // N, N])
    if PROJECT:
        force -= tl.sum(force * x, 2, keep_dims=True) * x
    y = x + gamma * force
    length = tl.sqrt(tl.sum(y * y, 2, keep_dims=True))
    return tl.reshape(y * (1.0 / tl.maximum(length, 1e-12)), [ROWS, COLUMNS])


@triton.jit
def _update_kernel(
    x,  # [samples, rows, N, pixels]
    jx,
    c,
    out,
    narrow,  # `out` once more, in another type
    gamma,
    rate,  # or Ω
    energies,  # [programs]
    rows,
    pixels,
    pair_weight,
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
    TWICE: tl.constexpr,
    WIDE: tl.constexpr,
):
    _, start, offsets, even, odd = place(rows, pixels, N, ROWS, HALF, PIXELS, FLAT)
    x0, x1 = load_pairs(x + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    j0, j1 = load_pairs(jx + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    c0, c1 = load_pairs(c + start, offsets, even, odd, pixels, ROWS, HALF, FLAT, WIDE)
    step = tl.load(gamma).to(WIDE)
    if ENERGY:
        value = tl.sum(x0 * (pair_weight * j0 + c0) + x1 * (pair_weight * j1 + c1))
        tl.store(energies + tl.program_id(0), -value)
    u0 = j0 + c0
    u1 = j1 + c1
    row = first_row(rows, pixels, ROWS, PIXELS)
    if ROTATE == 1:  # Ωx is already tangent, so it can pass through Proj with the force
        turn = load_rates(rate, row, oscillators, N, ROWS, HALF, FLAT, WIDE) if EACH else tl.load(rate).to(WIDE)
        u0 += turn * x1
        u1 -= turn * x0
    if ROTATE == 2:
        w0, w1 = rotate(rate, x0, x1, row, oscillators, N, ROWS, HALF, FLAT, EACH, WIDE)
        u0 += w0
        u1 += w1
    if PROJECT:
        along = dot(u0, u1, x0, x1)
        y0 = x0 + step * (u0 - along * x0)
        y1 = x1 + step * (u1 - along * x1)
    else:
        y0 = x0 + step * u0
        y1 = x1 + step * u1
    length = tl.sqrt(dot(y0, y1, y0, y1))
    scale = 1.0 / tl.where(length < 1e-12, float("inf"), length)  # 0 where y is too short to have a direction
    y0 *= scale
    y1 *= scale
    store_pairs(out + start, y0, y1, offsets, even, odd, pixels, ROWS, HALF, FLAT)
    if TWICE:
        store_pairs(narrow + start, y0, y1, offsets, even, odd, pixels, ROWS, HALF, FLAT)


def update_parts(channels: int, tokens: int, n: int) -> int:
    """How many parts of a sample's energy `update_into` writes."""
    return cut(tokens * channels // n, 1, n, torch.float32, BLOCK.elements).parts


def update_into(
    out: Tensor,
    energies: Tensor | None,
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float,
    block: Block = BLOCK,
    narrow: Tensor | None = None,
) -> None:
    """`update` for arrays of one form, written to `out` (which may be x), `energies` [B, parts] and `narrow`.

    There are as many parts of the energy as `update_parts` says unless another `block` is given.
    """
    rows, pixels = lying(x, n)
    samples = x.shape[0]
    if energies is None:  # then it makes no difference where a sample ends
        rows, samples = samples * rows, 1
    tiles = cut(rows, pixels, n, x.dtype, block.elements)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _update_kernel[(samples * tiles.parts,)](
            x,
            jx,
            c,
            out,
            narrow if narrow is not None else out,
            gamma,
            rate.contiguous() if rate is not None else gamma,
            energies if energies is not None else gamma,
            rows,
            pixels,
            pair_weight,
            PROJECT=project,
            **rotation(rate, x, n),
            ENERGY=energies is not None,
            TWICE=narrow is not None,
            **{**tiles.constants, "num_warps": block.warps},
        )


@operator("akorn::update")
def update(
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
) -> tuple[Tensor, Tensor]:
    """One Kuramoto step of a normalised state, and the energy before it; differentiable once.

    Args:
        x: [B, C], [B, tokens, C] or pictures [B, C, H, W]; N consecutive channels are an oscillator.
        jx: the coupling Jx, in the shape of x; it may have another type.
        c: the stimulus, likewise.
        gamma: γ, one value.
        rate: Ω, None for no rotation: ω of every pair of components (even N), one value, or of each pair of each
            oscillator, [oscillators, N/2]; or a matrix, [N, N] or [oscillators, N, N]. It must be antisymmetric,
            and so is its gradient.
        n: N, 2 to 16.
        project: whether the force passes through Proj, as in Eq. 4; otherwise x′ = Π[x + γ (Ωx + Jx + c)].
        pair_weight: the weight of x·Jx in the energy, ½ for Eq. 3 and 1 for the published one; None for no energy.

    Returns: x′ like x, also in memory, and the energies, [B] in float32 (float64 for float64), or [0] without.

    """
    return _step(x, jx, c, gamma, rate, n, project, pair_weight, None)


@operator("akorn::update_twice")
def update_twice(
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    narrow: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """`update`, and x′ once more in the type `narrow`."""
    second = torch.empty_like(x.contiguous(memory_format=form(x)), dtype=narrow)
    return *_step(x, jx, c, gamma, rate, n, project, pair_weight, second), second


def _step(
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    narrow: Tensor | None,
) -> tuple[Tensor, Tensor]:
    check_update(x, c, None, n)  # `rotation` checks Ω
    if jx.shape != x.shape:
        raise ValueError(f"jx must have the shape of x, {list(x.shape)}, got {list(jx.shape)}")
    if gamma.numel() != 1:
        raise ValueError(f"γ must be one value, got {gamma.numel()}")
    memory = form(x)
    x, jx, c = (array.contiguous(memory_format=memory) for array in (x, jx, c))
    out = torch.empty_like(x)
    if pair_weight is None:
        update_into(out, None, x, jx, c, gamma, rate, n, project, 0.0, narrow=narrow)
        return out, x.new_empty(0, dtype=_wide(x))
    parts = cut(*lying(x, n), n, x.dtype, BLOCK.elements).parts
    energies = x.new_empty(x.shape[0], parts, dtype=_wide(x))
    update_into(out, energies, x, jx, c, gamma, rate, n, project, pair_weight, narrow=narrow)
    return out, energies.sum(1)


@update.register_fake
def _(
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(x.contiguous(memory_format=form(x)))
    return out, x.new_empty(0 if pair_weight is None else x.shape[0], dtype=_wide(x))


@update_twice.register_fake
def _(
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float | None,
    narrow: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    out = torch.empty_like(x.contiguous(memory_format=form(x)))
    energies = x.new_empty(0 if pair_weight is None else x.shape[0], dtype=_wide(x))
    return out, energies, torch.empty_like(out, dtype=narrow)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """For both operators: `update_twice` has one more of each."""
    x, jx, c, gamma, rate, ctx.n, ctx.project, ctx.pair_weight, *_ = inputs
    ctx.save_for_backward(x, jx, c, gamma, rate)
    ctx.set_materialize_grads(False)
    if ctx.pair_weight is None:
        ctx.mark_non_differentiable(output[1])


def _differentiate(
    ctx: Any, grad: Tensor | None, grad_energy: Tensor | None, grad_narrow: Tensor | None = None
) -> tuple[Tensor | None, ...]:
    x, jx, c, gamma, rate = ctx.saved_tensors
    _, for_jx, for_c, for_gamma, for_rate, *others = ctx.needs_input_grad
    if ctx.pair_weight is None:
        grad_energy = None
    if grad is None:
        grad, grad_narrow = grad_narrow, None
    if grad is None and grad_energy is None:
        return (None,) * len(ctx.needs_input_grad)
    pairs = rate is not None and rate.numel() == 1
    grad_x, grad_jx, grad_c, sums = update_backward(
        grad if grad is not None else torch.zeros_like(x),
        grad_narrow,
        grad_energy,
        x,
        jx,
        c,
        gamma,
        rate,
        ctx.n,
        ctx.project,
        ctx.pair_weight,
        [for_jx, for_c, for_gamma or (for_rate and pairs)],
    )
    apart = separate(jx, c, [for_jx, for_c], grad_energy, ctx.pair_weight)
    grad_rate = None
    if for_rate and pairs:
        grad_rate = sums[1].to(rate.dtype).reshape(rate.shape)
    elif for_rate:
        finer = grad_c if apart and c.dtype.itemsize > jx.dtype.itemsize else grad_jx
        grad_rate = omega_gradient(finer, x, rate, ctx.n)
    return (
        grad_x,
        grad_jx if for_jx else None,
        (grad_c if apart else grad_jx) if for_c else None,
        sums[0].to(gamma.dtype).reshape(gamma.shape) if for_gamma else None,
        grad_rate,
        *(None for _ in others),
    )


update.register_autograd(_differentiate, setup_context=_keep)
update_twice.register_autograd(_differentiate, setup_context=_keep)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def check_update(x: Tensor, c: Tensor, rate: Tensor | None, n: int) -> None:
    """ValueError unless these match, with at most one rate."""
    channels = x.shape[1] if x.ndim == 4 else x.shape[-1]
    if not 2 <= n <= MAX_N or channels % n:
        raise ValueError(f"n must be 2 to {MAX_N} and divide the {channels} channels, got n={n}")
    if c.shape != x.shape:
        raise ValueError(f"c must have the shape of x, {list(x.shape)}, got {list(c.shape)}")
    if rate is not None and (n % 2 or rate.numel() != 1):
        raise ValueError(f"pairs rotate at one rate, for even n only; got n={n} and {rate.numel()} rates")
