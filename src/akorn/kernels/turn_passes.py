"""Passes over a batch with GTA's matrices in registers: what attention reads often turned beforehand, and the gradients
turned back, with the sums over samples and heads that are the gradients of the matrices. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attend_tiles import load_tile, store_tile
from akorn.kernels.attention import swap_pairs
from akorn.kernels.turn import apply, apply_back, load_matrices

_ELEMENTS = 1024  # of a tile: eight a thread, two loads of 16 bytes in float32
_PROGRAMS = 768  # wanted for a pass over a batch: enough to fill a GPU, few enough that their sums are short
_WARPS = 4


@triton.jit(do_not_specialize=["pairs", "rounds"])
def _turn_kernel(
    qkv,  # [B, TOKENS, 3·C]
    matrices,  # see `pack`
    turned,  # like qkv
    pairs,  # B · HEADS
    rounds,  # of which a program does so many
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    C: tl.constexpr = HEADS * D
    tokens = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    parts = tl.arange(0, BLOCK_D)
    part = tl.program_id(2)
    own, other = load_matrices(matrices + part * 2 * TOKENS * D, tokens, parts, 0, TOKENS, D)
    first = tl.program_id(1).to(tl.int64) * rounds
    for pair in range(first, tl.minimum(first + rounds, pairs)):
        start = pair // HEADS * (TOKENS * 3 * C) + part * C + pair % HEADS * D
        x = load_tile(qkv + start, tokens, parts, 3 * C, TOKENS, D)
        store_tile(turned + start, tokens, parts, apply(x, own, other, BLOCK_T, BLOCK_D), 3 * C, TOKENS, D)


@triton.jit(do_not_specialize=["pairs", "rounds"])
def _output_kernel(
    out_grad,  # do, [B, TOKENS, C]
    out,  # o, like do
    matrices,
    turned,  # dõ = Mᵀ do, like do; not written without TURN
    delta,  # Σ_d do·o, [B, HEADS, TOKENS]
    pairs,
    rounds,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TURN: tl.constexpr,
):
    C: tl.constexpr = HEADS * D
    tokens = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    parts = tl.arange(0, BLOCK_D)
    if TURN:
        own, other = load_matrices(matrices, tokens, parts, 3, TOKENS, D)
    first = tl.program_id(1).to(tl.int64) * rounds
    for pair in range(first, tl.minimum(first + rounds, pairs)):
        start = pair // HEADS * (TOKENS * C) + pair % HEADS * D
        grad = load_tile(out_grad + start, tokens, parts, C, TOKENS, D).to(tl.float32)
        o = load_tile(out + start, tokens, parts, C, TOKENS, D).to(tl.float32)
        tl.store(delta + pair * TOKENS + tokens, tl.sum(grad * o, 1), mask=tokens < TOKENS)
        if TURN:
            store_tile(turned + start, tokens, parts, apply_back(grad, own, other, BLOCK_T, BLOCK_D), C, TOKENS, D)


@triton.jit
def _collect(
    x,  # what the matrices were applied to, at the first sample and head of a part
    grad,  # the gradient of the result, likewise
    matrices,
    sums,  # where the two planes of this program's sums go
    tokens,
    parts,
    first,
    last,
    STRIDE: tl.constexpr,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BACK: tl.constexpr,
    LEARN: tl.constexpr,
):
    """With LEARN, Σ grad xᵀ over samples and heads; with BACK, grad becomes Mᵀ grad in place."""
    if BACK:
        own, other = load_matrices(matrices, tokens, parts, 0, TOKENS, D)
    sum_own = tl.zeros([BLOCK_T, BLOCK_D], tl.float32)
    sum_other = tl.zeros([BLOCK_T, BLOCK_D], tl.float32)
    for pair in range(first, last):
        start = pair // HEADS * (TOKENS * STRIDE) + pair % HEADS * D
        slope = load_tile(grad + start, tokens, parts, STRIDE, TOKENS, D).to(tl.float32)
        if LEARN:
            value = load_tile(x + start, tokens, parts, STRIDE, TOKENS, D).to(tl.float32)
            sum_own += slope * value
            sum_other += slope * swap_pairs(value, BLOCK_T, BLOCK_D)
        if BACK:
            store_tile(grad + start, tokens, parts, apply_back(slope, own, other, BLOCK_T, BLOCK_D), STRIDE, TOKENS, D)
    if LEARN:
        store_tile(sums, tokens, parts, sum_own, D, TOKENS, D)
        store_tile(sums + TOKENS * D, tokens, parts, sum_other, D, TOKENS, D)


@triton.jit(do_not_specialize=["pairs", "rounds"])
def _collect_kernel(
    qkv,  # [B, TOKENS, 3·C]
    grad,  # like qkv: of what the matrices made of it, becomes that of qkv
    out_grad,  # do, [B, TOKENS, C]
    unturned,  # õ, like do: the output before its matrices
    matrices,
    sums,  # [slices, SETS, 2, TOKENS, D]
    pairs,
    rounds,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    LEARN: tl.constexpr,
):
    C: tl.constexpr = HEADS * D
    PLANES: tl.constexpr = 2 * TOKENS * D
    tokens = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    parts = tl.arange(0, BLOCK_D)
    part = tl.program_id(2)
    first = tl.program_id(1).to(tl.int64) * rounds
    last = tl.minimum(first + rounds, pairs)
    mine = sums + (tl.program_id(1) * tl.num_programs(2) + part) * PLANES
    if part < 3:
        _collect(
            qkv + part * C, grad + part * C, matrices + part * PLANES, mine, tokens, parts, first, last, 3 * C,
            TOKENS, HEADS, D, BLOCK_T, BLOCK_D, True, LEARN,
        )  # fmt: skip
    else:
        _collect(
            unturned, out_grad, matrices, mine, tokens, parts, first, last, C,
            TOKENS, HEADS, D, BLOCK_T, BLOCK_D, False, LEARN,
        )  # fmt: skip


@triton.jit(do_not_specialize=["slices"])
def _add_kernel(
    sums,  # [slices, SETS, 2, TOKENS, D]
    total,  # [SETS, TOKENS, D/2, 2, 2]
    slices,
    PLANES: tl.constexpr,  # 2 · TOKENS · D
    BLOCK: tl.constexpr,
):
    which = tl.program_id(1)
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # of [TOKENS, D/2, 2, 2]
    place, column = entry // 2, entry % 2
    source = (place % 2 != column) * (PLANES // 2) + place  # in the plane `own` on the diagonal
    inside = entry < PLANES
    result = tl.zeros([BLOCK], tl.float32)
    for part in range(slices):  # in this order always: the same input gives the same bits
        result += tl.load(sums + (part * tl.num_programs(1) + which) * PLANES + source, mask=inside, other=0.0)
    tl.store(total + which * PLANES + entry, result, mask=inside)


def turned(qkv: Tensor, packed: Tensor, heads: int) -> Tensor:
    """What the matrices make of queries and keys (of values too if there are four sets): an array like qkv."""
    out = qkv.new_empty(qkv.shape)
    parts = min(packed.shape[0], 3)
    grid, rounds, sizes = _pass(qkv.shape[0] * heads, parts, *packed.shape[2:])
    _turn_kernel[grid](qkv, packed, out, qkv.shape[0] * heads, rounds, HEADS=heads, **sizes, num_warps=_WARPS)
    return out


def turned_output_gradient(out_grad: Tensor, out: Tensor, packed: Tensor | None, heads: int) -> tuple[Tensor, Tensor]:
    """Of do and o, [B, tokens, C]: dõ = Mᵀ do (do itself without matrices), and δ = Σ_d do·o, [B, heads, tokens].

    No matrix is in the way of δ: do·(M õ) = (Mᵀ do)·õ.
    """
    batch, tokens, channels = out.shape
    delta = out.new_empty((batch, heads, tokens), dtype=torch.float32)
    turns = packed is not None and packed.shape[0] == 4
    result = out.new_empty(out.shape) if turns else out_grad
    grid, rounds, sizes = _pass(batch * heads, 1, tokens, channels // heads)
    _output_kernel[grid](
        out_grad, out, packed if turns else out, result, delta, batch * heads, rounds, HEADS=heads, TURN=turns, **sizes,
        num_warps=_WARPS,
    )  # fmt: skip
    return result, delta


def turn_gradients_back(
    grad: Tensor, qkv: Tensor, out_grad: Tensor, unturned: Tensor | None, packed: Tensor, heads: int, learn: bool
) -> Tensor:
    """Make of `grad`, that of the turned queries, keys and values, in place that of qkv.

    Args:
        grad: like qkv.
        qkv: [B, tokens, 3C].
        out_grad: do, [B, tokens, C].
        unturned: õ like do, the output before its matrices; not needed for two sets, or where nothing is learned.
        packed: what `pack` made.
        heads: number of heads.
        learn: whether the matrices' gradients are wanted.

    Returns: the gradients of the matrices, summed over samples and heads, [sets, tokens, D/2, 2, 2] float32; empty
    where they are not wanted.

    """
    pairs, (sets, _, tokens, head_dim) = qkv.shape[0] * heads, packed.shape
    grid, rounds, sizes = _pass(pairs, sets if learn else min(sets, 3), tokens, head_dim)
    sums = qkv.new_empty((grid[1] if learn else 0, sets, 2, tokens, head_dim), dtype=torch.float32)
    _collect_kernel[grid](
        qkv, grad, out_grad, unturned if unturned is not None else out_grad, packed, sums, pairs, rounds,
        HEADS=heads, **sizes, LEARN=learn, num_warps=_WARPS,
    )  # fmt: skip
    if not learn:
        return sums.new_empty(0)
    total = sums.new_empty((sets, tokens, head_dim // 2, 2, 2))
    planes = 2 * tokens * head_dim
    _add_kernel[(triton.cdiv(planes, 256), sets)](sums, total, grid[1], PLANES=planes, BLOCK=256, num_warps=4)
    return total


def _pass(pairs: int, parts: int, tokens: int, head_dim: int) -> tuple[tuple[int, int, int], int, dict[str, int]]:
    """How a pass over a batch is cut: the grid (blocks of tokens, slices of the batch, parts), the samples and heads
    of a slice, and the sizes. It depends on the sizes alone, so that sums come out the same everywhere.
    """
    block_d = triton.next_power_of_2(head_dim)
    block_t = min(max(1, _ELEMENTS // block_d), triton.next_power_of_2(tokens))
    blocks = triton.cdiv(tokens, block_t)
    rounds = triton.cdiv(pairs, max(1, _PROGRAMS // (blocks * parts)))
    sizes = {"TOKENS": tokens, "D": head_dim, "BLOCK_T": block_t, "BLOCK_D": block_d}
    return (blocks, triton.cdiv(pairs, rounds), parts), rounds, sizes
