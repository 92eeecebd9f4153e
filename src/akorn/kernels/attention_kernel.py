"""The kernel of `akorn.kernels.attention`. Needs Triton to import."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

from akorn.kernels.attention_tiles import load_tile, store_tile
from akorn.kernels.pairs import turn
from akorn.kernels.solve_attention import multiply


@triton.jit
def _meet(
    q, top, total, o, key_source, value_source, matrices, first, parts, scale,
    TOKENS: tl.constexpr,
    STRIDE: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    TURN: tl.constexpr,
    SETS: tl.constexpr,
    INSIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of queries against BLOCK_K keys (which are all tokens if INSIDE) → the highest logarithm so far, and,
    relative to it, the sum of the weights and the weighted sum of the values.
    """
    dtype = value_source.dtype.element_ty
    keys = first + tl.arange(0, BLOCK_K)
    k = load_tile(key_source, keys, parts, STRIDE, TOKENS, D, INSIDE)
    v = load_tile(value_source, keys, parts, STRIDE, TOKENS, D, INSIDE)
    if TURN and SETS > 0:
        k = turn(k, matrices, keys, parts, 1, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    if TURN and SETS > 2:
        v = turn(v, matrices, keys, parts, 2, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    scores = multiply(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
    if not INSIDE:
        scores = tl.where(keys[None, :] < TOKENS, scores, -float("inf"))
    higher = tl.maximum(top, tl.max(scores, 1) * scale)  # finite: every block has a key
    weights = tl.exp2(scores * scale - higher[:, None])
    fade = tl.exp2(top - higher)
    total = total * fade + tl.sum(weights, 1)
    o = multiply(weights.to(dtype), v, o * fade[:, None], PRECISION)
    return higher, total, o


@triton.jit
def attend_kernel(
    qkv,  # [B, TOKENS, 3·C], channel = part·C + head·D + d: the queries
    key_source,  # likewise for the keys, already turned unless TURN
    value_source,  # likewise for the values
    matrices,  # see `akorn.kernels.pairs.pack`; not read without SETS
    out,  # [B, TOKENS, C]
    lse,  # [B, HEADS, TOKENS]: log₂ of the sum of exponentials
    turned,  # q̃, like qkv; only if KEEP and not TURN
    unturned,  # õ, like out; only if KEEP and SETS is 4
    scale,  # log₂e / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    REST: tl.constexpr,  # keys of the last iteration, if fewer are left
    BLOCK_D: tl.constexpr,
    TURN: tl.constexpr,
    SETS: tl.constexpr,
    KEEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of queries of one head of one sample against all keys."""
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    WHOLE: tl.constexpr = TOKENS // BLOCK_K * BLOCK_K
    dtype = out.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    queries = tl.program_id(0) % BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    parts = tl.arange(0, BLOCK_D)
    place = row * (3 * C) + column
    q = load_tile(qkv + place, queries, parts, 3 * C, TOKENS, D)
    if SETS > 0:
        q = turn(q, matrices, queries, parts, 0, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
        if KEEP and not TURN:
            store_tile(turned + place, queries, parts, q, 3 * C, TOKENS, D)
    key_source += place + C
    value_source += place + 2 * C
    top = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first in range(0, WHOLE, BLOCK_K):
        top, total, o = _meet(
            q, top, total, o, key_source, value_source, matrices, first, parts, scale,
            TOKENS, 3 * C, D, BLOCK_Q, BLOCK_K, BLOCK_D, TURN, SETS, True, PRECISION,
        )  # fmt: skip
    if REST > 0:
        top, total, o = _meet(
            q, top, total, o, key_source, value_source, matrices, WHOLE, parts, scale,
            TOKENS, 3 * C, D, BLOCK_Q, REST, BLOCK_D, TURN, SETS, WHOLE + REST == TOKENS, PRECISION,
        )  # fmt: skip
    o *= (1.0 / total)[:, None]
    if SETS > 2:
        if KEEP:
            store_tile(unturned + row * C + column, queries, parts, o, C, TOKENS, D)
        o = turn(o, matrices, queries, parts, 3, TOKENS, D, BLOCK_Q, BLOCK_D)
    store_tile(out + row * C + column, queries, parts, o, C, TOKENS, D)
    tl.store(lse + pair * TOKENS + queries, top + tl.log2(total), mask=queries < TOKENS)
