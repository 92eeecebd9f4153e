"""Passes over a batch with GTA's matrices in registers. One turns in advance what attention reads often. The other
turns the gradients back, and computes the sums over samples and heads, which are the gradients of the matrices, and the
sums over samples and tokens, which are the gradient of a bias. Needs Triton to import.

A program has a few tokens and whole rows of a part, the columns of all heads, for one sample after the other: it reads
long stretches of memory, and the loads of several samples overlap.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc,assignment,var-annotated"
# ruff: noqa: RUF005  (Triton does not support starred tuples)

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.pairs import apply, apply_back
from akorn.kernels.solve_attention import swap_pairs
from akorn.kernels.tune import Config, best, call

# The values of a tile in each sample, the samples of one iteration (`depth`), and those of a program (`group`).
CUTS = (
    Config(block=1024, depth=4, group=64, warps=4, stages=1),
    Config(block=1024, depth=2, group=32, warps=4, stages=1),
    Config(block=1024, depth=4, group=256, warps=4, stages=1),
)
_LONGEST = 1024  # columns of a tile


@triton.jit
def _tile(C: tl.constexpr, TOKENS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr):
    """The tokens and columns of this program, and which of them are inside."""
    ACROSS: tl.constexpr = (C + BLOCK_C - 1) // BLOCK_C
    tokens = tl.program_id(0) // ACROSS * BLOCK_T + tl.arange(0, BLOCK_T)[:, None]
    columns = tl.program_id(0) % ACROSS * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    return tokens, columns, (tokens < TOKENS) & (columns < C)


@triton.jit
def _matrices(matrices, tokens, columns, inside, TOKENS: tl.constexpr, D: tl.constexpr):
    """Both planes of a set of 2×2 matrices at the columns of all heads: float32."""
    places = tokens * D + columns % D
    own = tl.load(matrices + places, mask=inside, other=0.0)
    other = tl.load(matrices + TOKENS * D + places, mask=inside, other=0.0)
    return own.to(tl.float32), other.to(tl.float32)


@triton.jit
def _read(base, places, inside, left, APART: tl.constexpr, COUNT: tl.constexpr):
    """The tiles of COUNT samples, APART values from each other; zeros for samples beyond the `left` ones."""
    tiles = ()
    for i in tl.static_range(COUNT):
        tiles = tiles + (tl.load(base + i * APART + places, mask=inside & (i < left), other=0.0),)
    return tiles


@triton.jit(do_not_specialize=["batch"])
def _turn_kernel(
    qkv,  # [batch, TOKENS, 3·C]
    matrices,  # see `akorn.kernels.pairs.pack`
    turned,  # like qkv
    batch,
    FIRST: tl.constexpr,  # the part of the first programs: queries 0, keys 1, values 2
    TOKENS: tl.constexpr,
    C: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    APART: tl.constexpr = TOKENS * 3 * C
    tokens, columns, inside = _tile(C, TOKENS, BLOCK_T, BLOCK_C)
    part = FIRST + tl.program_id(2)
    own, other = _matrices(matrices + part * (2 * TOKENS * D), tokens, columns, inside, TOKENS, D)
    places = tokens * (3 * C) + columns
    first = tl.program_id(1).to(tl.int64) * GROUP
    for sample in range(first, tl.minimum(first + GROUP, batch), COUNT):
        start = sample * APART + part * C
        tiles = _read(qkv + start, places, inside, batch - sample, APART, COUNT)
        for i in tl.static_range(COUNT):
            x = apply(tiles[i], own, other, BLOCK_T, BLOCK_C).to(turned.dtype.element_ty)
            tl.store(turned + start + i * APART + places, x, mask=inside & (sample + i < batch))


@triton.jit
def _collect(
    x,  # what the matrices were applied to, at its part
    grad,  # the gradient of the result, likewise
    matrices,
    sums,  # where the two planes of this program's sums go
    bias,  # where its sums over samples and tokens go
    batch,
    STRIDE: tl.constexpr,
    TOKENS: tl.constexpr,
    C: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BACK: tl.constexpr,
    LEARN: tl.constexpr,
    BIAS: tl.constexpr,
):
    """With LEARN, Σ grad xᵀ over samples; with BACK, grad becomes Mᵀ grad in place; with BIAS, Σ of that."""
    APART: tl.constexpr = TOKENS * STRIDE
    tokens, columns, inside = _tile(C, TOKENS, BLOCK_T, BLOCK_C)
    if BACK:
        own, other = _matrices(matrices, tokens, columns, inside, TOKENS, D)
    sum_own = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    sum_other = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    sum_back = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    places = tokens * STRIDE + columns
    first = tl.program_id(1).to(tl.int64) * GROUP
    for sample in range(first, tl.minimum(first + GROUP, batch), COUNT):
        start = sample * APART
        slopes = _read(grad + start, places, inside, batch - sample, APART, COUNT)
        if LEARN:
            values = _read(x + start, places, inside, batch - sample, APART, COUNT)
        for i in tl.static_range(COUNT):
            slope = slopes[i].to(tl.float32)
            if LEARN:
                value = values[i].to(tl.float32)
                sum_own += slope * value
                sum_other += slope * swap_pairs(value, BLOCK_T, BLOCK_C)
            if BACK:
                back = apply_back(slope, own, other, BLOCK_T, BLOCK_C)
                if BIAS:
                    sum_back += back
                left = inside & (sample + i < batch)
                tl.store(grad + start + i * APART + places, back.to(grad.dtype.element_ty), mask=left)
    if LEARN:
        places = tokens * C + columns
        tl.store(sums + places, sum_own, mask=inside)
        tl.store(sums + TOKENS * C + places, sum_other, mask=inside)
    if BACK and BIAS:
        tl.store(bias + columns, tl.sum(sum_back, 0, keep_dims=True), mask=columns < C)


@triton.jit(do_not_specialize=["batch"])
def _collect_kernel(
    qkv,  # [batch, TOKENS, 3·C]
    grad,  # like qkv: the gradient of turned qkv, which becomes that of qkv
    out_grad,  # do, [batch, TOKENS, C]
    unturned,  # õ, like do: the output before its matrices
    matrices,
    sums,  # [slices, SETS, 2, TOKENS, C]
    bias,  # [slices, tiles of tokens, 3, C]
    batch,
    TOKENS: tl.constexpr,
    C: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    LEARN: tl.constexpr,
    BIAS: tl.constexpr,
):
    ACROSS: tl.constexpr = (C + BLOCK_C - 1) // BLOCK_C
    part = tl.program_id(2)
    tile = tl.program_id(1) * (tl.num_programs(0) // ACROSS) + tl.program_id(0) // ACROSS
    mine = sums + (tl.program_id(1) * tl.num_programs(2) + part).to(tl.int64) * (2 * TOKENS * C)
    if part < 3:
        _collect(
            qkv + part * C, grad + part * C, matrices + part * (2 * TOKENS * D), mine, bias + (tile * 3 + part) * C,
            batch, 3 * C, TOKENS, C, D, GROUP, COUNT, BLOCK_T, BLOCK_C, True, LEARN, BIAS,
        )  # fmt: skip
    else:
        _collect(
            unturned, out_grad, matrices, mine, bias, batch, C,
            TOKENS, C, D, GROUP, COUNT, BLOCK_T, BLOCK_C, False, LEARN, False,
        )  # fmt: skip


@triton.jit(do_not_specialize=["slices"])
def _add_kernel(
    sums,  # [slices, SETS, 2, TOKENS, C]
    total,  # [SETS, TOKENS, D/2, 2, 2]
    slices,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    C: tl.constexpr = HEADS * D
    which = tl.program_id(1)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # of [TOKENS, D/2, 2, 2]
    token, row, column = entry // (2 * D), entry % (2 * D) // 2, entry % 2  # row of 0…D−1, column of its pair
    source = (row % 2 != column) * (TOKENS * C) + token * C + row  # in the plane `own` on the diagonal
    inside = token < TOKENS
    result = tl.zeros([BLOCK], tl.float32)
    for part in range(slices):  # always in this order: the same input gives the same bits
        plane = sums + (part * tl.num_programs(1) + which).to(tl.int64) * (2 * TOKENS * C)
        for head in tl.static_range(HEADS):
            result += tl.load(plane + head * D + source, mask=inside, other=0.0)
    tl.store(total + which * (2 * TOKENS * D) + entry, result, mask=inside)


def turned(qkv: Tensor, packed: Tensor, heads: int, first: int = 0, cut: Config | None = None) -> Tensor:
    """Queries and keys turned by the matrices (values too if there are four sets): an array like qkv.

    Args:
        qkv: [B, tokens, 3C].
        packed: the result of `akorn.kernels.pairs.pack`.
        heads: number of heads.
        first: 1 leaves out the queries, for a kernel that turns each of them only once; their part of the array is not
            written.
        cut: how the work is divided into programs, by default the fastest of `CUTS`.

    """
    out = qkv.new_empty(qkv.shape)
    parts = min(packed.shape[0], 3) - first

    def launch(cut: Config) -> None:
        grid, sizes = _pass(qkv, heads, parts, cut)
        call(_turn_kernel, grid)(qkv, packed, out, qkv.shape[0], FIRST=first, **sizes, **cut.options)

    launch(cut if cut is not None else best(_key("turn", qkv, heads, parts), CUTS, launch))
    return out


class TurnBack:
    """Turns `grad`, the gradient of turned queries, keys and values, into the gradient of qkv, in place.

    Args:
        grad: like qkv; its values matter when the object is called, not before.
        qkv: [B, tokens, 3C].
        out_grad: do, [B, tokens, C].
        unturned: õ like do, the output before its matrices; not needed for two sets, or if nothing is learned.
        packed: the result of `akorn.kernels.pairs.pack`.
        heads: number of heads.
        learn: whether the matrices' gradients are wanted.
        bias: whether the sums of qkv's gradient over samples and tokens are wanted.
        cut: how the work is divided into programs, by default the fastest of `CUTS`. It is timed here, on whatever is
            in `grad`, since each launch changes `grad`.

    """

    def __init__(
        self, grad: Tensor, qkv: Tensor, out_grad: Tensor, unturned: Tensor | None, packed: Tensor, heads: int,
        learn: bool, bias: bool = False, cut: Config | None = None,
    ) -> None:  # fmt: skip
        self.arrays = (qkv, grad, out_grad, unturned if unturned is not None else out_grad, packed)
        self.heads = heads
        self.learn = learn
        self.bias = bias
        self.sets = packed.shape[0]
        self.parts = self.sets if learn else min(self.sets, 3)
        key = _key("collect", qkv, heads, self.parts, learn, bias)
        self.cut = cut if cut is not None else best(key, CUTS, self._try)

    def _try(self, cut: Config) -> None:
        self._launch(cut)

    def _launch(self, cut: Config) -> tuple[Tensor, Tensor]:
        """The sums of each program: [slices, sets, 2, tokens, C] and [slices · tiles of tokens, 3C]."""
        qkv = self.arrays[0]
        grid, sizes = _pass(qkv, self.heads, self.parts, cut)
        tokens, channels, direct = sizes["TOKENS"], sizes["C"], self.bias and self.sets == 4
        tiles = grid[1] * triton.cdiv(tokens, sizes["BLOCK_T"])
        sums = qkv.new_empty((grid[1] if self.learn else 0, self.parts, 2, tokens, channels), dtype=torch.float32)
        columns = qkv.new_empty((tiles if direct else 0, 3 * channels), dtype=torch.float32)
        call(_collect_kernel, grid)(
            *self.arrays, sums, columns, qkv.shape[0], **sizes, LEARN=self.learn, BIAS=direct, **cut.options
        )
        return sums, columns

    def __call__(self) -> tuple[Tensor, Tensor]:
        """The gradients of the matrices, [sets, tokens, D/2, 2, 2] float32, and of a bias, [3C] float32; empty if
        they are not wanted.
        """
        sums, columns = self._launch(self.cut)
        if self.bias and self.sets < 4:  # the values were not read on the way
            columns = self.arrays[1].sum((0, 1), dtype=torch.float32)
        elif self.bias:
            columns = columns.sum(0)
        return self._add(sums) if self.learn else sums.new_empty(0), columns if self.bias else sums.new_empty(0)

    def _add(self, sums: Tensor) -> Tensor:
        slices, sets, _, tokens, channels = sums.shape
        head_dim = channels // self.heads
        total = sums.new_empty((sets, tokens, head_dim // 2, 2, 2))
        _add_kernel[(triton.cdiv(2 * tokens * head_dim, 256), sets)](
            sums, total, slices, TOKENS=tokens, HEADS=self.heads, D=head_dim, BLOCK=256, num_warps=4
        )
        return total


def _key(name: str, qkv: Tensor, heads: int, *others: object) -> tuple[object, ...]:
    return (name, qkv.device, qkv.dtype, qkv.shape[0].bit_length(), *qkv.shape[1:], heads, *others)


def _pass(qkv: Tensor, heads: int, parts: int, cut: Config) -> tuple[tuple[int, int, int], dict[str, int]]:
    """How a pass over a batch is divided: the grid (tiles, slices of the batch, parts), and the sizes."""
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    block_c = min(triton.next_power_of_2(channels), _LONGEST)
    block_t = min(max(1, cut.block // block_c), triton.next_power_of_2(tokens))
    sizes = {
        "TOKENS": tokens, "C": channels, "D": channels // heads, "GROUP": cut.group, "COUNT": cut.depth,
        "BLOCK_T": block_t, "BLOCK_C": block_c,
    }  # fmt: skip
    tiles = triton.cdiv(tokens, block_t) * triton.cdiv(channels, block_c)
    return (tiles, triton.cdiv(batch, cut.group), parts), sizes
