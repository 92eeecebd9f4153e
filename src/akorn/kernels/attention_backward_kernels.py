"""The kernels of `akorn.kernels.attention_backward`. Needs Triton to import."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

from akorn.kernels.attention_tiles import load_row, load_tile, store_tile
from akorn.kernels.pairs import turn, turn_back
from akorn.kernels.solve_attention import multiply


@triton.jit
def _transposed_product(
    a, b, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr
):
    """aᵀb of [ROWS, COLUMNS] and [ROWS, BLOCK_D]. A square a takes less shared memory when computed as (bᵀa)ᵀ."""
    if ROWS == COLUMNS:
        return tl.trans(multiply(tl.trans(b), a, tl.zeros([BLOCK_D, COLUMNS], tl.float32), PRECISION))
    else:
        return multiply(tl.trans(a), b, tl.zeros([COLUMNS, BLOCK_D], tl.float32), PRECISION)


@triton.jit
def _weights(logarithms, BOUND: tl.constexpr):
    """P from its logarithms (base 2). With BOUND it is finite at keys outside the tokens too, where scores of 0 may be
    far too high.
    """
    if BOUND:
        logarithms = tl.minimum(logarithms, 0.0)
    return tl.exp2(logarithms)


@triton.jit
def _two_numbers(both):
    """The two float32 numbers of a pair that was read as one whole number."""
    first, second = both.to(tl.int32), (both >> 32).to(tl.int32)
    return first.to(tl.float32, bitcast=True), second.to(tl.float32, bitcast=True)


@triton.jit
def _meet_queries(
    k, v, dk, dv, source, out_grad, sums, matrices, target, unturned, first, parts, score_scale, grad_scale,
    TOKENS: tl.constexpr,
    C: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WHOLE: tl.constexpr,
    TURN: tl.constexpr,
    SETS: tl.constexpr,
    UNTURNED: tl.constexpr,
    INSIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of keys against BLOCK_Q queries, which add to its gradients; see `attend_keys_kernel`."""
    dtype = source.dtype.element_ty
    queries = first + tl.arange(0, BLOCK_Q)
    q = load_tile(source, queries, parts, 3 * C, TOKENS, D, INSIDE)
    do = load_tile(out_grad, queries, parts, C, TOKENS, D, INSIDE)
    if TURN and SETS > 0:
        q = turn(q, matrices, queries, parts, 0, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
    if WHOLE and SETS > 2:
        do = turn_back(do, matrices, queries, parts, 3, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
    total = load_row(sums, queries, TOKENS, INSIDE)
    if not WHOLE:
        total, slope = _two_numbers(total)
    # Keys are the rows: P and dS are then in registers, from which the next products take their first factor.
    scores = multiply(k, tl.trans(q), tl.zeros([BLOCK_K, BLOCK_Q], tl.float32), PRECISION)
    # Keys outside are rows that nothing uses, unless WHOLE.
    weights = _weights(scores * score_scale - total[None, :], WHOLE and BLOCK_K > TOKENS)
    dp = multiply(v, tl.trans(do), tl.zeros([BLOCK_K, BLOCK_Q], tl.float32), PRECISION)
    if WHOLE:
        slope = tl.sum(weights * dp, 0)
    ds = (weights * (dp - slope[None, :])).to(dtype)
    p = weights.to(dtype)
    dv = multiply(p, do, dv, PRECISION)
    dk = multiply(ds, q, dk, PRECISION)
    if WHOLE:
        dq = _transposed_product(ds, k, BLOCK_K, BLOCK_Q, BLOCK_D, PRECISION)
        store_tile(target, queries, parts, dq * grad_scale, 3 * C, TOKENS, D)
    if UNTURNED:
        o = _transposed_product(p, v, BLOCK_K, BLOCK_Q, BLOCK_D, PRECISION)
        store_tile(unturned, queries, parts, o, C, TOKENS, D)
    return dk, dv


@triton.jit
def attend_keys_kernel(
    qkv,  # [B, TOKENS, 3·C]; queries and keys are already turned unless TURN
    values,  # likewise for the values
    out_grad,  # do, [B, TOKENS, C]; unless WHOLE, dõ
    sums,  # log₂ Σ exp, [B, HEADS, TOKENS]; unless WHOLE, δ is beside it, and both are one 64-bit number
    matrices,  # see `akorn.kernels.pairs.pack`
    grad,  # dq̃, dk̃, dṽ, like qkv; dq̃ only if WHOLE
    unturned,  # õ, like do; only if UNTURNED
    score_scale,  # log₂e / √D
    grad_scale,  # 1 / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    REST: tl.constexpr,  # queries of a shorter last iteration, if one pays off
    BLOCK_D: tl.constexpr,
    WHOLE: tl.constexpr,
    TURN: tl.constexpr,
    SETS: tl.constexpr,
    UNTURNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of a block of keys and values; also of the queries if the block has all keys (WHOLE).

    There are no masks: keys and values outside are zero, so their P, which is finite, adds nothing, and their gradients
    are not written; queries outside have do = 0, hence dS = 0.
    """
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_K - 1) // BLOCK_K
    FULL: tl.constexpr = TOKENS // BLOCK_Q * BLOCK_Q if REST > 0 else TOKENS
    dtype = qkv.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    place = row * (3 * C) + column
    keys = tl.program_id(0) % BLOCKS * BLOCK_K + tl.arange(0, BLOCK_K)
    parts = tl.arange(0, BLOCK_D)
    k = load_tile(qkv + place + C, keys, parts, 3 * C, TOKENS, D)
    v = load_tile(values + place + 2 * C, keys, parts, 3 * C, TOKENS, D)
    if TURN and SETS > 0:
        k = turn(k, matrices, keys, parts, 1, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    if TURN and SETS > 2:
        v = turn(v, matrices, keys, parts, 2, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    source = qkv + place
    target = grad + place
    out_grad += row * C + column
    unturned += row * C + column
    sums += pair * TOKENS
    for first in range(0, FULL, BLOCK_Q):
        dk, dv = _meet_queries(
            k, v, dk, dv, source, out_grad, sums, matrices, target, unturned, first, parts,
            score_scale, grad_scale, TOKENS, C, D, BLOCK_Q, BLOCK_K, BLOCK_D, WHOLE, TURN, SETS, UNTURNED,
            FULL % BLOCK_Q == 0, PRECISION,
        )  # fmt: skip
    if REST > 0:
        dk, dv = _meet_queries(
            k, v, dk, dv, source, out_grad, sums, matrices, target, unturned, FULL, parts,
            score_scale, grad_scale, TOKENS, C, D, REST, BLOCK_K, BLOCK_D, WHOLE, TURN, SETS, UNTURNED,
            FULL + REST == TOKENS, PRECISION,
        )  # fmt: skip
    store_tile(target + C, keys, parts, dk * grad_scale, 3 * C, TOKENS, D)
    store_tile(target + 2 * C, keys, parts, dv, 3 * C, TOKENS, D)


@triton.jit
def _meet_keys(
    q, do, total, slope, dq, o, source, values, first, parts, score_scale,
    TOKENS: tl.constexpr,
    STRIDE: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    UNTURNED: tl.constexpr,
    INSIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of queries against BLOCK_K keys, which add to its gradient and to õ; see `attend_queries_kernel`."""
    dtype = q.dtype
    keys = first + tl.arange(0, BLOCK_K)
    k = load_tile(source, keys, parts, STRIDE, TOKENS, D, INSIDE)
    v = load_tile(values, keys, parts, STRIDE, TOKENS, D, INSIDE)
    scores = multiply(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
    weights = _weights(scores * score_scale - total[:, None], not INSIDE)
    dp = multiply(do, tl.trans(v), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
    ds = (weights * (dp - slope[:, None])).to(dtype)
    dq = multiply(ds, k, dq, PRECISION)
    if UNTURNED:
        o = multiply(weights.to(dtype), v, o, PRECISION)
    return dq, o


@triton.jit
def attend_queries_kernel(
    qkv,  # [B, TOKENS, 3·C]; queries and keys are already turned
    values,  # likewise for the values
    out_grad,  # do, [B, TOKENS, C]
    out,  # o, like do
    lse,  # [B, HEADS, TOKENS], base 2
    matrices,  # see `akorn.kernels.pairs.pack`
    turned,  # dõ, like do, computed here for `attend_keys_kernel`; only if SETS is 4
    sums,  # [B, HEADS, TOKENS, 2]: lse and δ side by side, also computed here
    grad,  # dq̃, like qkv
    unturned,  # õ, like do; only if UNTURNED
    score_scale,  # log₂e / √D
    grad_scale,  # 1 / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    REST: tl.constexpr,  # keys of the last iteration, if fewer are left
    BLOCK_D: tl.constexpr,
    SETS: tl.constexpr,
    UNTURNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradient of a block of queries; before that, dõ and δ of its tokens.

    δ needs no matrix: do·o = do·(M õ) = (Mᵀ do)·õ.
    """
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    FULL: tl.constexpr = TOKENS // BLOCK_K * BLOCK_K
    dtype = qkv.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    place = row * (3 * C) + column
    queries = tl.program_id(0) % BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    parts = tl.arange(0, BLOCK_D)
    q = load_tile(qkv + place, queries, parts, 3 * C, TOKENS, D)
    do = load_tile(out_grad + row * C + column, queries, parts, C, TOKENS, D)
    o = load_tile(out + row * C + column, queries, parts, C, TOKENS, D)
    slope = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    total = load_row(lse + pair * TOKENS, queries, TOKENS, False)
    tl.store(sums + (pair * TOKENS + queries) * 2, total, mask=queries < TOKENS)
    tl.store(sums + (pair * TOKENS + queries) * 2 + 1, slope, mask=queries < TOKENS)
    if SETS > 2:
        do = turn_back(do, matrices, queries, parts, 3, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
        store_tile(turned + row * C + column, queries, parts, do, C, TOKENS, D)
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    o = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    source = qkv + place + C
    values += place + 2 * C
    for first in range(0, FULL, BLOCK_K):
        dq, o = _meet_keys(
            q, do, total, slope, dq, o, source, values, first, parts, score_scale,
            TOKENS, 3 * C, D, BLOCK_Q, BLOCK_K, UNTURNED, True, PRECISION,
        )  # fmt: skip
    if REST > 0:
        dq, o = _meet_keys(
            q, do, total, slope, dq, o, source, values, FULL, parts, score_scale,
            TOKENS, 3 * C, D, BLOCK_Q, REST, UNTURNED, FULL + REST == TOKENS, PRECISION,
        )  # fmt: skip
    store_tile(grad + place, queries, parts, dq * grad_scale, 3 * C, TOKENS, D)
    if UNTURNED:
        store_tile(unturned + row * C + column, queries, parts, o, C, TOKENS, D)
