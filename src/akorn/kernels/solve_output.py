"""The Kuramoto update as the tail of the product with W^O: Jx is never written to memory; forward only.

Otherwise like `akorn.kernels.update`, for N a power of two. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from dataclasses import replace

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    TensorDescriptor,
)

from akorn.kernels.operators import operator
from akorn.kernels.solve_attention import multiply
from akorn.kernels.tune import Config, best, call, precision
from akorn.kernels.update import MAX_N, advance, check_update

# Rows, columns and depth of a tile of o·W^Oᵀ. The product is short (512 channels are 8 iterations), so two or three
# tiles per multiprocessor matter more than large ones: one multiplies while another updates. With `early`, x and c are
# loaded into registers during the product; otherwise they are loaded tile by tile afterwards.
CONFIGS = (
    Config(block=128, columns=128, depth=64, warps=8, stages=3),
    Config(block=64, columns=128, depth=64, warps=4, stages=3),
    Config(block=64, columns=256, depth=64, warps=4, stages=3),
    Config(block=128, columns=256, depth=64, warps=8, stages=3),
    Config(block=64, columns=128, depth=64, warps=4, stages=3, early=True),
    Config(block=128, columns=128, depth=64, warps=8, stages=3, early=True),
    Config(block=128, columns=128, depth=64, warps=8, stages=3, early=True, registers=128),
)


@triton.jit
def _tail(
    pull,  # [ROWS, COLUMNS], a tile of Jx
    state,
    drive,
    out,
    row,
    column,
    gamma,
    rate,
    pair_weight,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
    PROJECT: tl.constexpr,
    ROTATE: tl.constexpr,
):
    """The update of a tile. Returns minus the energy of its rows, [ROWS]."""
    state = state.to(tl.float32)
    drive = drive.to(tl.float32)
    value = tl.sum(state * (pair_weight * pull + drive), 1)
    state = advance(state, pull + drive, gamma, rate, ROWS, COLUMNS, N, PROJECT, ROTATE)
    out.store([row, column], state.to(out.dtype))
    return value


@triton.jit
def _read(base, row, column, rows, C: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of [rows, C] into registers; zeros outside."""
    m = row + tl.arange(0, ROWS)
    places = m.to(tl.int64)[:, None] * C + column + tl.arange(0, COLUMNS)[None, :]
    return tl.load(base + places, mask=(m < rows)[:, None], other=0.0)


@triton.jit(do_not_specialize=["rows"])
def _output_update_kernel(
    o,  # descriptors of [rows, C], [C, C] (W^O), and three [rows, C]: rows past the end read 0 and are not written
    weight,
    x,
    c,
    out,
    gamma,
    rate,
    energies,  # [rows, tiles per row]
    x_start,  # where x and c begin
    c_start,
    rows,
    pair_weight,
    C: tl.constexpr,
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HALVES: tl.constexpr,
    EARLY: tl.constexpr,
    PROJECT: tl.constexpr,
    ROTATE: tl.constexpr,
    ENERGY: tl.constexpr,
    PRECISION: tl.constexpr,
):
    TILES: tl.constexpr = C // BLOCK_N
    program = tl.program_id(0)
    tile = program % TILES  # tiles of the same rows run together, and share those rows in the cache
    row = (program // TILES) * BLOCK_M
    column = tile * BLOCK_N
    H: tl.constexpr = BLOCK_N // 2 if HALVES else BLOCK_N
    if EARLY:
        x1 = _read(x_start, row, column, rows, C, BLOCK_M, H)
        c1 = _read(c_start, row, column, rows, C, BLOCK_M, H)
        if HALVES:
            x2 = _read(x_start, row, column + H, rows, C, BLOCK_M, H)
            c2 = _read(c_start, row, column + H, rows, C, BLOCK_M, H)
    pull = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for k in range(0, C, BLOCK_K):
        pull = multiply(o.load([row, k]), weight.load([column, k]).T, pull, PRECISION)

    g = tl.load(gamma).to(tl.float32)
    turn = tl.load(rate).to(tl.float32) if ROTATE else 0.0
    if HALVES:  # one after the other: the registers of a multiprocessor then hold two tiles
        left, right = tl.split(tl.permute(tl.reshape(pull, [BLOCK_M, 2, H]), (0, 2, 1)))
    else:
        left = pull
    if not EARLY:
        x1 = x.load([row, column])
        c1 = c.load([row, column])
    value = _tail(left, x1, c1, out, row, column, g, turn, pair_weight, BLOCK_M, H, N, PROJECT, ROTATE)
    if HALVES:
        if not EARLY:
            x2 = x.load([row, column + H])
            c2 = c.load([row, column + H])
        value += _tail(right, x2, c2, out, row, column + H, g, turn, pair_weight, BLOCK_M, H, N, PROJECT, ROTATE)
    if ENERGY:
        m = row + tl.arange(0, BLOCK_M)
        tl.store(energies + m.to(tl.int64) * TILES + tile, -value, mask=m < rows)


def can_fuse_output(channels: int, n: int) -> bool:
    """Whether `output_update` takes these: tiles are powers of two, at least 16 wide, and hold whole oscillators."""
    return channels % 16 == 0 and n <= MAX_N and n & (n - 1) == 0


def output_config(config: Config, channels: int) -> Config:
    """The config with tiles no wider than the largest power of two that divides the channels."""
    largest = channels & -channels
    return replace(config, columns=min(config.columns, largest), depth=min(config.depth, largest))


def choose_output(
    x: Tensor,
    o: Tensor,
    weight: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    energy: bool,
) -> Config:
    """The fastest config for these arguments; times the candidates on copies at the first call."""
    channels = x.shape[-1]
    rows = x.numel() // channels
    candidates = [output_config(config, channels) for config in CONFIGS]
    key = ("output", x.device, x.dtype, channels, n, project, rate is not None, energy, rows.bit_length())
    scratch = torch.empty_like(x)

    def launch(config: Config) -> None:
        energies = x.new_empty(rows, channels // config.columns, dtype=torch.float32) if energy else None
        output_update_into(scratch, energies, o, weight, x, c, gamma, rate, n, project, 1.0, config)

    return best(key, candidates, launch, scratch)


def output_update_into(
    out: Tensor,
    energies: Tensor | None,
    o: Tensor,
    weight: Tensor,
    x: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float,
    config: Config,
) -> None:
    """`output_update`, written to `out` (which may be x) and to `energies` [B·tokens, C / config.columns]."""
    channels = x.shape[-1]
    rows = x.numel() // channels
    halves = config.columns >= 64
    width = config.columns // 2 if halves else config.columns

    def tiles(array: Tensor, high: int, wide: int) -> TensorDescriptor:
        return TensorDescriptor.from_tensor(array.view(-1, channels), [high, wide])

    call(_output_update_kernel, (triton.cdiv(rows, config.block) * (channels // config.columns),))(
        tiles(o, config.block, config.depth),
        tiles(weight, config.columns, config.depth),
        tiles(x, config.block, width),
        tiles(c, config.block, width),
        tiles(out, config.block, width),
        gamma,
        rate if rate is not None else gamma,
        energies if energies is not None else gamma,
        x,
        c,
        rows,
        pair_weight,
        C=channels,
        N=n,
        BLOCK_M=config.block,
        BLOCK_N=config.columns,
        BLOCK_K=config.depth,
        HALVES=halves,
        EARLY=config.early,
        PROJECT=project,
        ROTATE=rate is not None,
        ENERGY=energies is not None,
        PRECISION=precision(x.dtype),
        **config.options,
    )


@operator("akorn::output_update")
def output_update(
    o: Tensor,
    weight: Tensor,
    x: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float,
) -> tuple[Tensor, Tensor]:
    """`update` with Jx = o Wᵀ, which is never written to memory.

    Args:
        o: the heads' outputs, like x.
        weight: W^O, [C, C].
        x: [B, tokens, C]; C a multiple of 16.
        c: like x.
        gamma: γ, one value.
        rate: ω of every pair of components, one value; None for no rotation.
        n: N, a power of two up to 16.
        project: as for `update`.
        pair_weight: as for `update`.

    Returns: x′ like x, and the energies, [B] float32.

    """
    check_update(x, c, rate, n)
    channels = x.shape[-1]
    if not can_fuse_output(channels, n):
        raise ValueError(f"needs N a power of two and channels a multiple of 16, got n={n}, {channels} channels")
    if o.shape != x.shape or weight.shape != (channels, channels):
        raise ValueError(f"x is {list(x.shape)}: o must be too and weight {[channels, channels]},"
                         f" got {list(o.shape)} and {list(weight.shape)}")  # fmt: skip
    o, weight, x, c = o.contiguous(), weight.contiguous(), x.contiguous(), c.contiguous()
    config = choose_output(x, o, weight, c, gamma, rate, n, project, True)
    out = torch.empty_like(x)
    energies = x.new_empty(x.numel() // channels, channels // config.columns, dtype=torch.float32)
    output_update_into(out, energies, o, weight, x, c, gamma, rate, n, project, pair_weight, config)
    return out, energies.view(x.shape[0], -1).sum(1)


@output_update.register_fake
def _(
    o: Tensor,
    weight: Tensor,
    x: Tensor,
    c: Tensor,
    gamma: Tensor,
    rate: Tensor | None,
    n: int,
    project: bool,
    pair_weight: float,
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(x.shape[0], dtype=torch.float32)
