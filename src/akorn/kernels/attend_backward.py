"""The gradients of attention with GTA's matrices inside: of the product with W^QKV and of the matrices.

With P = softmax(q̃k̃ᵀ/√D), dõ = M^Oᵀ do and δ = Σ_d do·o:

    dṽ = Pᵀ dõ,    dS = P ∘ (dõ ṽᵀ − δ),    dq̃ = dS k̃ / √D,    dk̃ = dSᵀ q̃ / √D

Nothing is added to memory from two sides, so the same input gives the same bits. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

import math

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attend_tiles import launching, load_tile, padded, products, store_tile, value_bytes
from akorn.kernels.attention import multiply
from akorn.kernels.tune import Config, best
from akorn.kernels.turn import turn, turn_back
from akorn.kernels.turn_passes import turn_gradients_back, turned, turned_output_gradient


@triton.jit
def _transposed_product(
    a, b, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr
):
    """aᵀb of [ROWS, COLUMNS] and [ROWS, BLOCK_D]. A square a takes less shared memory by way of (bᵀa)ᵀ."""
    if ROWS == COLUMNS:
        return tl.trans(multiply(tl.trans(b), a, tl.zeros([BLOCK_D, COLUMNS], tl.float32), PRECISION))
    else:
        return multiply(tl.trans(a), b, tl.zeros([COLUMNS, BLOCK_D], tl.float32), PRECISION)


@triton.jit
def _weights(logarithms, TOKENS: tl.constexpr, BLOCK_K: tl.constexpr):
    """P of its logarithms (base 2), finite at keys outside the tokens too, where scores of 0 may be far too high."""
    if TOKENS % BLOCK_K:
        logarithms = tl.minimum(logarithms, 0.0)
    return tl.exp2(logarithms)


@triton.jit
def _keys_kernel(
    qkv,  # [B, TOKENS, 3·C]; unless WHOLE, queries and keys are turned already
    values,  # likewise for the values
    out_grad,  # do, [B, TOKENS, C]; unless WHOLE, dõ
    lse,  # [B, HEADS, TOKENS], base 2
    delta,  # δ, like lse; not read if WHOLE
    matrices,  # see `akorn.kernels.turn.pack`
    grad,  # dq̃, dk̃, dṽ, like qkv; dq̃ only if WHOLE
    unturned,  # õ, like do; only if UNTURNED
    score_scale,  # log₂e / √D
    grad_scale,  # 1 / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WHOLE: tl.constexpr,
    SETS: tl.constexpr,
    UNTURNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of a block of keys and values; of the queries too where the block has all keys.

    No masks: keys and values outside are zero, so that whatever finite P they have adds nothing, and their gradients
    are not written; queries outside have do = 0, hence dS = 0.
    """
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_K - 1) // BLOCK_K
    dtype = qkv.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    source = qkv + row * (3 * C) + column
    target = grad + row * (3 * C) + column
    keys = tl.program_id(0) % BLOCKS * BLOCK_K + tl.arange(0, BLOCK_K)
    parts = tl.arange(0, BLOCK_D)
    k = load_tile(source + C, keys, parts, 3 * C, TOKENS, D)
    v = load_tile(values + row * (3 * C) + column + 2 * C, keys, parts, 3 * C, TOKENS, D)
    if WHOLE and SETS > 0:
        k = turn(k, matrices, keys, parts, 1, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    if WHOLE and SETS > 2:
        v = turn(v, matrices, keys, parts, 2, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
    dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    for first in range(0, TOKENS, BLOCK_Q):
        queries = first + tl.arange(0, BLOCK_Q)
        q = load_tile(source, queries, parts, 3 * C, TOKENS, D)
        do = load_tile(out_grad + row * C + column, queries, parts, C, TOKENS, D)
        if WHOLE and SETS > 0:
            q = turn(q, matrices, queries, parts, 0, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
        if WHOLE and SETS > 2:
            do = turn_back(do, matrices, queries, parts, 3, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
        total = tl.load(lse + pair * TOKENS + queries, mask=queries < TOKENS, other=0.0)
        # Keys are the rows: P and dS are then where the next products take their first factor from, registers.
        scores = multiply(k, tl.trans(q), tl.zeros([BLOCK_K, BLOCK_Q], tl.float32), PRECISION)
        weights = _weights(scores * score_scale - total[None, :], TOKENS, BLOCK_K)
        dp = multiply(v, tl.trans(do), tl.zeros([BLOCK_K, BLOCK_Q], tl.float32), PRECISION)
        if WHOLE:
            slope = tl.sum(weights * dp, 0)
        else:
            slope = tl.load(delta + pair * TOKENS + queries, mask=queries < TOKENS, other=0.0)
        ds = (weights * (dp - slope[None, :])).to(dtype)
        p = weights.to(dtype)
        dv = multiply(p, do, dv, PRECISION)
        dk = multiply(ds, q, dk, PRECISION)
        if WHOLE:
            dq = _transposed_product(ds, k, BLOCK_K, BLOCK_Q, BLOCK_D, PRECISION)
            store_tile(target, queries, parts, dq * grad_scale, 3 * C, TOKENS, D)
        if UNTURNED:  # computed again rather than kept from the forward pass: a short product against C values a token
            o = _transposed_product(p, v, BLOCK_K, BLOCK_Q, BLOCK_D, PRECISION)
            store_tile(unturned + row * C + column, queries, parts, o, C, TOKENS, D)
    store_tile(target + C, keys, parts, dk * grad_scale, 3 * C, TOKENS, D)
    store_tile(target + 2 * C, keys, parts, dv, 3 * C, TOKENS, D)


@triton.jit
def _queries_kernel(
    qkv,  # as for `_keys_kernel` where that is not WHOLE
    values,
    out_grad,
    lse,
    delta,
    grad,
    unturned,
    score_scale,
    grad_scale,
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    UNTURNED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradient of a block of queries, and õ."""
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    dtype = qkv.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    source = qkv + row * (3 * C) + column
    queries = tl.program_id(0) % BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    parts = tl.arange(0, BLOCK_D)
    q = load_tile(source, queries, parts, 3 * C, TOKENS, D)
    do = load_tile(out_grad + row * C + column, queries, parts, C, TOKENS, D)
    total = tl.load(lse + pair * TOKENS + queries, mask=queries < TOKENS, other=0.0)
    slope = tl.load(delta + pair * TOKENS + queries, mask=queries < TOKENS, other=0.0)
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    o = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first in range(0, TOKENS, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        k = load_tile(source + C, keys, parts, 3 * C, TOKENS, D)
        v = load_tile(values + row * (3 * C) + column + 2 * C, keys, parts, 3 * C, TOKENS, D)
        scores = multiply(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
        weights = _weights(scores * score_scale - total[:, None], TOKENS, BLOCK_K)
        dp = multiply(do, tl.trans(v), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
        ds = (weights * (dp - slope[:, None])).to(dtype)
        dq = multiply(ds, k, dq, PRECISION)
        if UNTURNED:
            o = multiply(weights.to(dtype), v, o, PRECISION)
    store_tile(grad + row * (3 * C) + column, queries, parts, dq * grad_scale, 3 * C, TOKENS, D)
    if UNTURNED:
        store_tile(unturned + row * C + column, queries, parts, o, C, TOKENS, D)


# One program for all keys: the queries a turn, and `depth` = 1. Turns of 32 waste least on padding (81 → 96); the
# second has its loads under way a turn ahead, the last lets two programs share a multiprocessor.
_WHOLE = (
    Config(block=32, warps=8, stages=1, depth=1),
    Config(block=32, warps=8, stages=2, depth=1),
    Config(block=128, warps=8, stages=1, depth=1),
    Config(block=64, warps=8, stages=1, depth=1),
    Config(block=32, warps=8, stages=1, depth=1, registers=128),
)
_LARGE = Config(block=16, warps=8, stages=2, depth=1)

# Blocks: their own rows (keys or queries), and those of a turn of their loop.
_BLOCKS = (
    Config(block=64, columns=64, warps=4, stages=2),
    Config(block=128, columns=64, warps=8, stages=2),
    Config(block=128, columns=32, warps=8, stages=2),
    Config(block=64, columns=32, warps=4, stages=2),
)
_WIDE_BLOCKS = (
    Config(block=64, columns=16, warps=4, stages=2),
    Config(block=128, columns=32, warps=8, stages=1),
    Config(block=64, columns=32, warps=4, stages=1),
)


def candidates(tokens: int, head_dim: int, dtype: torch.dtype) -> tuple[Config, ...]:
    """The cuts worth trying, the first of which fits in any case; `depth` = 1 is one program for all keys.

    That needs room for the gradients of all keys and values in registers, and in shared memory for keys and values in
    two layouts, and for P and dS of the queries of a turn.
    """
    area, width = padded(tokens) * padded(head_dim), value_bytes(dtype)
    if (4 * area + 64 * padded(tokens)) * width > 200 * 1024:
        return _WIDE_BLOCKS if padded(head_dim) * width > 256 else _BLOCKS
    if area > 8192:
        return *_BLOCKS, _LARGE
    return tuple(config for config in _WHOLE if config.block * padded(tokens) <= 16384)


def gradients(
    out_grad: Tensor,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    packed: Tensor | None,
    heads: int,
    learn: bool,
    config: Config | None = None,
) -> tuple[Tensor, Tensor]:
    """`attend_backward`, with a given cut into programs (by default the fastest)."""
    batch, tokens, channels = out.shape
    head_dim = channels // heads
    sets = 0 if packed is None else packed.shape[0]
    grad = qkv.new_empty(qkv.shape)
    unturned = out.new_empty(out.shape) if sets == 4 and learn else None
    sizes = {
        "TOKENS": tokens, "HEADS": heads, "D": head_dim, "BLOCK_D": padded(head_dim), "PRECISION": products(qkv.dtype)
    }  # fmt: skip
    scales = (math.log2(math.e) / math.sqrt(head_dim), 1 / math.sqrt(head_dim))

    def launch(config: Config) -> None:
        whole = config.depth == 1
        own, turns = (min(size, padded(tokens)) for size in (config.block, config.columns))
        if whole:
            own, turns = padded(tokens), own
        source, values, slope, delta = qkv, qkv, out_grad, lse
        if not whole:
            # Every block of queries meets every key, and the other way round. To turn a tile takes two matrices'
            # planes for each of its own values, so turning at each meeting would read several times what attention
            # reads; once before, in a pass over the batch with the matrices in registers, is a reading and a writing.
            slope, delta = turned_output_gradient(out_grad, out, packed, heads)
            if packed is not None:
                source = turned(qkv, packed, heads)
                values = source if sets == 4 else qkv
        arrays, results = (
            (source, values, slope, lse, delta),
            (grad, unturned if unturned is not None else grad, *scales),
        )
        blocks = batch * heads * triton.cdiv(tokens, own)
        _keys_kernel[(blocks,)](
            *arrays, packed if packed is not None else qkv, *results, BLOCK_Q=turns, BLOCK_K=own, WHOLE=whole,
            SETS=sets, UNTURNED=whole and unturned is not None, **sizes, **config.options,
        )  # fmt: skip
        if not whole:
            _queries_kernel[(blocks,)](
                *arrays, *results, BLOCK_Q=own, BLOCK_K=turns, UNTURNED=unturned is not None, **sizes, **config.options
            )

    if config is None:
        key = ("attend backward", qkv.device, qkv.dtype, batch.bit_length(), sets, learn, *sizes.values())
        config = best(key, candidates(tokens, head_dim, qkv.dtype), launch)
    launch(config)
    if packed is None:
        return grad, lse.new_empty(0)
    return grad, turn_gradients_back(grad, qkv, out_grad, unturned, packed, heads, learn)


@torch.library.custom_op("akorn::attend_backward", mutates_args=())
def attend_backward(
    out_grad: Tensor, qkv: Tensor, out: Tensor, lse: Tensor, packed: Tensor | None, heads: int, learn: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of `akorn.kernels.attend.attend`.

    Args:
        out_grad: the output's gradient, [B, tokens, C].
        qkv: the input, [B, tokens, 3C].
        out: the output. (The product with W^O keeps it in any case.)
        lse: log₂ Σ exp of the scores, [B, heads, tokens].
        packed: the matrices, see `akorn.kernels.turn.pack`.
        heads: number of heads.
        learn: whether the matrices' gradients are wanted.

    Returns: the gradient of qkv, and those of the matrices, [sets, tokens, D/2, 2, 2] float32, empty if not wanted.

    """
    if not out.numel():
        return qkv.new_empty(qkv.shape), lse.new_zeros(_matrix_gradient_sizes(packed, learn))
    with launching(qkv):
        return gradients(out_grad.contiguous(), qkv.contiguous(), out, lse, packed, heads, learn)


@attend_backward.register_fake
def _(
    out_grad: Tensor, qkv: Tensor, out: Tensor, lse: Tensor, packed: Tensor | None, heads: int, learn: bool
) -> tuple[Tensor, Tensor]:
    return qkv.new_empty(qkv.shape), lse.new_empty(_matrix_gradient_sizes(packed, learn))


def _matrix_gradient_sizes(packed: Tensor | None, learn: bool) -> tuple[int, ...]:
    return (0,) if packed is None or not learn else (packed.shape[0], packed.shape[2], packed.shape[3] // 2, 2, 2)
