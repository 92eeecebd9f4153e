"""The Kuramoto update in one pass over memory; forward only.

    x′ = Π[x + γ (Ωx + Proj_x(Jx + c))],    E = −½ x·Jx − x·c  or  −x·(Jx + c)   of the state before the step

Arithmetic is float32 whatever the arrays are. Energies leave the kernel as sums over parts of a sample, which are
then added in a fixed order: the same input gives the same bits. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attention import swap_pairs

MAX_N = 16
ENERGIES: dict[str | None, float] = {"eq3": 0.5, "published": 1.0}
"""The weight of x·Jx in each energy."""

_OSCILLATORS = 256  # a program


@triton.jit
def advance(x, force, gamma, rate, ROWS: tl.constexpr, COLUMNS: tl.constexpr, N: tl.constexpr, ROTATE: tl.constexpr):
    """The next state; N consecutive columns are one oscillator. All float32, [ROWS, COLUMNS]."""
    if ROTATE:  # the part of Ωx is tangent already, so it may pass through Proj with the force
        sign = 1.0 - 2.0 * (tl.arange(0, COLUMNS) % 2).to(tl.float32)
        force += rate * sign[None, :] * swap_pairs(x, ROWS, COLUMNS)
    x = tl.reshape(x, [ROWS, COLUMNS // N, N])
    force = tl.reshape(force, [ROWS, COLUMNS // N, N])
    y = x + gamma * (force - tl.sum(force * x, 2, keep_dims=True) * x)
    length = tl.sqrt(tl.sum(y * y, 2, keep_dims=True))
    return tl.reshape(y * (1.0 / tl.maximum(length, 1e-12)), [ROWS, COLUMNS])


@triton.jit(do_not_specialize=["oscillators"])
def _update_kernel(
    x,  # [B, oscillators, N]
    jx,
    c,
    out,
    gamma,
    rate,
    energies,  # [B, programs a sample]
    oscillators,
    pair_weight,
    N: tl.constexpr,
    WIDTH: tl.constexpr,  # N, padded to a power of two
    BLOCK: tl.constexpr,
    ROTATE: tl.constexpr,
    ENERGY: tl.constexpr,
):
    part = tl.program_id(0)
    sample = tl.program_id(1)
    which = part * BLOCK + tl.arange(0, BLOCK)
    component = tl.arange(0, WIDTH)
    inside = (which[:, None] < oscillators) & (component[None, :] < N)
    offsets = sample.to(tl.int64) * oscillators * N + which[:, None] * N + component[None, :]
    state = tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32)
    pull = tl.load(jx + offsets, mask=inside, other=0.0).to(tl.float32)
    drive = tl.load(c + offsets, mask=inside, other=0.0).to(tl.float32)
    if ENERGY:
        value = tl.sum(tl.sum(state * (pair_weight * pull + drive), 1), 0)
        tl.store(energies + sample * tl.num_programs(0) + part, -value)
    turn = tl.load(rate).to(tl.float32) if ROTATE else 0.0
    state = advance(state, pull + drive, tl.load(gamma).to(tl.float32), turn, BLOCK, WIDTH, WIDTH, ROTATE)
    tl.store(out + offsets, state.to(out.dtype.element_ty), mask=inside)


def update_parts(channels: int, tokens: int, n: int) -> int:
    """How many parts of a sample's energy the kernel writes."""
    return triton.cdiv(tokens * channels // n, _OSCILLATORS)


def update_into(
    out: Tensor,
    energies: Tensor | None,
    x: Tensor,
    jx: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    pair_weight: float,
) -> None:
    """`update`, written to `out` (which may be x) and to `energies` [B, parts]."""
    batch, oscillators = x.shape[0], x[0].numel() // n
    _update_kernel[(triton.cdiv(oscillators, _OSCILLATORS), batch)](
        x,
        jx,
        c,
        out,
        gamma,
        rate if rate is not None else gamma,
        energies if energies is not None else gamma,
        oscillators,
        pair_weight,
        N=n,
        WIDTH=triton.next_power_of_2(n),
        BLOCK=_OSCILLATORS,
        ROTATE=rate is not None,
        ENERGY=energies is not None,
        num_warps=4,
    )


@torch.library.custom_op("akorn::update", mutates_args=())
def update(
    x: Tensor, jx: Tensor, c: Tensor, gamma: Tensor, rate: Tensor | None, n: int, pair_weight: float
) -> tuple[Tensor, Tensor]:
    """One Kuramoto step of a normalised state, and the energy before it.

    Args:
        x: [B, ..., C], channels last; N consecutive ones are an oscillator.
        jx: the coupling Jx, like x.
        c: the stimulus, like x.
        gamma: γ, one value.
        rate: ω of every pair of components (even N), one value; None for no rotation.
        n: N, 2 to 16.
        pair_weight: the weight of x·Jx in the energy, ½ for Eq. 3 and 1 for the published one.

    Returns: x′ like x, and the energies, [B] float32.

    """
    check_update(x, c, rate, n)
    if jx.shape != x.shape:
        raise ValueError(f"jx must have the shape of x, {list(x.shape)}, got {list(jx.shape)}")
    x, jx, c = x.contiguous(), jx.contiguous(), c.contiguous()
    out = torch.empty_like(x)
    energies = x.new_empty(x.shape[0], update_parts(x.shape[-1], x[0].numel() // x.shape[-1], n), dtype=torch.float32)
    update_into(out, energies, x, jx, c, gamma, rate, n, pair_weight)
    return out, energies.sum(1)


@update.register_fake
def _(
    x: Tensor, jx: Tensor, c: Tensor, gamma: Tensor, rate: Tensor | None, n: int, pair_weight: float
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(x.shape[0], dtype=torch.float32)


def check_update(x: Tensor, c: Tensor, rate: Tensor | None, n: int) -> None:
    """ValueError unless these fit together."""
    if not 2 <= n <= MAX_N or x.shape[-1] % n:
        raise ValueError(f"n must be 2 to {MAX_N} and divide the {x.shape[-1]} channels, got n={n}")
    if c.shape != x.shape:
        raise ValueError(f"c must have the shape of x, {list(x.shape)}, got {list(c.shape)}")
    if rate is not None and (n % 2 or rate.numel() != 1):
        raise ValueError(f"pairs rotate at one rate, for even n only; got n={n} and {rate.numel()} rates")
