"""Attention for training, with GTA's matrices inside: from the product with W^QKV to the one with W^O.

Queries, keys and values are read where the product left them and the output is written where the next one reads it, so
nothing is copied between layouts. Softmax is in float32. Needs Triton to import; `akorn.kernels.attention` is the
form for solving, without gradients.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attend_backward import attend_backward
from akorn.kernels.attend_tiles import launching, load_tile, padded, products, store_tile, value_bytes
from akorn.kernels.attention import multiply
from akorn.kernels.tune import Config, best
from akorn.kernels.turn import pack, turn
from akorn.kernels.turn_passes import turned

MAX_TOKENS = 4096
MAX_HEAD_DIM = 128
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@triton.jit
def _attend_kernel(
    qkv,  # [B, TOKENS, 3·C], channel = part·C + head·D + d; queries and keys are turned already unless WHOLE
    values,  # likewise for the values
    matrices,  # see `akorn.kernels.turn.pack`; not read without SETS
    out,  # [B, TOKENS, C]
    lse,  # [B, HEADS, TOKENS]: log₂ of the sum of exponentials
    scale,  # log₂e / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WHOLE: tl.constexpr,
    SETS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of queries of one head of one sample against all keys."""
    C: tl.constexpr = HEADS * D
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    dtype = out.dtype.element_ty
    pair = (tl.program_id(0) // BLOCKS).to(tl.int64)
    row = pair // HEADS * TOKENS
    column = pair % HEADS * D
    source = qkv + row * (3 * C) + column
    queries = tl.program_id(0) % BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    parts = tl.arange(0, BLOCK_D)
    q = load_tile(source, queries, parts, 3 * C, TOKENS, D)
    if WHOLE and SETS > 0:
        q = turn(q, matrices, queries, parts, 0, TOKENS, D, BLOCK_Q, BLOCK_D).to(dtype)
    top = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    o = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first in range(0, TOKENS, BLOCK_K):
        keys = first + tl.arange(0, BLOCK_K)
        k = load_tile(source + C, keys, parts, 3 * C, TOKENS, D)
        v = load_tile(values + row * (3 * C) + column + 2 * C, keys, parts, 3 * C, TOKENS, D)
        if WHOLE and SETS > 0:
            k = turn(k, matrices, keys, parts, 1, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
        if WHOLE and SETS > 2:
            v = turn(v, matrices, keys, parts, 2, TOKENS, D, BLOCK_K, BLOCK_D).to(dtype)
        scores = multiply(q, tl.trans(k), tl.zeros([BLOCK_Q, BLOCK_K], tl.float32), PRECISION)
        if TOKENS % BLOCK_K:
            scores = tl.where(keys[None, :] < TOKENS, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1) * scale)  # finite: every block has a key
        weights = tl.exp2(scores * scale - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weights, 1)
        o = multiply(weights.to(dtype), v, o * fade[:, None], PRECISION)
        top = higher
    o *= (1.0 / total)[:, None]
    if SETS > 2:
        o = turn(o, matrices, queries, parts, 3, TOKENS, D, BLOCK_Q, BLOCK_D)
    store_tile(out + row * C + column, queries, parts, o, C, TOKENS, D)
    tl.store(lse + pair * TOKENS + queries, top + tl.log2(total), mask=queries < TOKENS)


# Queries of a program, and the keys of a turn of its loop; with `depth` = 1 programs turn what they load.
_WHOLE = (
    Config(block=128, columns=128, warps=8, stages=1, depth=1),
    Config(block=128, columns=128, warps=8, stages=1, depth=1, registers=128),
    Config(block=64, columns=128, warps=4, stages=1, depth=1),
    Config(block=128, columns=128, warps=4, stages=1, depth=1),
    Config(block=128, columns=32, warps=4, stages=1, depth=1),
)
_BLOCKS = (
    Config(block=64, columns=64, warps=4, stages=2),
    Config(block=128, columns=64, warps=8, stages=2),
    Config(block=128, columns=128, warps=8, stages=2),
    Config(block=128, columns=32, warps=4, stages=3),
)
_LARGE = Config(block=128, columns=64, warps=8, stages=1, depth=1)
_WIDE_BLOCKS = (
    Config(block=64, columns=16, warps=4, stages=2),
    Config(block=64, columns=32, warps=4, stages=1),
    Config(block=128, columns=64, warps=8, stages=2),
)


def candidates(tokens: int, head_dim: int, dtype: torch.dtype) -> tuple[Config, ...]:
    """The cuts worth trying, the first of which fits in any case.

    Programs turn what they load where a program has all queries of a head, or perhaps half of them: see
    `akorn.kernels.attend_backward.gradients` for the reason.
    """
    if padded(head_dim) * value_bytes(dtype) > 256:
        return _WIDE_BLOCKS
    if tokens <= 128:
        return _WHOLE
    return (*_BLOCKS, _LARGE) if tokens <= 256 else _BLOCKS


def supports(tokens: int, head_dim: int, dtype: torch.dtype) -> bool:
    """Whether the kernels take this many tokens, heads of this many components, and this type."""
    return 1 <= tokens <= MAX_TOKENS and head_dim <= MAX_HEAD_DIM and head_dim % 2 == 0 and dtype in DTYPES


def forward(qkv: Tensor, packed: Tensor | None, heads: int, config: Config | None = None) -> tuple[Tensor, Tensor]:
    """The output and log₂ Σ exp of the scores, with a given cut into programs (by default the fastest)."""
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    head_dim = channels // heads
    out = qkv.new_empty((batch, tokens, channels))
    lse = qkv.new_empty((batch, heads, tokens), dtype=torch.float32)
    sets = 0 if packed is None else packed.shape[0]
    sizes = {
        "TOKENS": tokens, "HEADS": heads, "D": head_dim, "BLOCK_D": padded(head_dim), "SETS": sets,
        "PRECISION": products(qkv.dtype),
    }  # fmt: skip

    def launch(config: Config) -> None:
        whole = config.depth == 1
        source = turned(qkv, packed, heads) if packed is not None and not whole else qkv
        block_q, block_k = (min(size, padded(tokens)) for size in (config.block, config.columns))
        _attend_kernel[(batch * heads * triton.cdiv(tokens, block_q),)](
            source, qkv if sets == 2 else source, packed if packed is not None else qkv, out, lse,
            math.log2(math.e) / math.sqrt(head_dim),
            BLOCK_Q=block_q, BLOCK_K=block_k, WHOLE=whole, **sizes, **config.options,
        )  # fmt: skip

    if config is None:
        key = ("attend", qkv.device, qkv.dtype, batch.bit_length(), *sizes.values())
        config = best(key, candidates(tokens, head_dim, qkv.dtype), launch)
    launch(config)
    return out, lse


@torch.library.custom_op("akorn::attend", mutates_args=())
def _attend(
    qkv: Tensor, query: Tensor | None, key: Tensor | None, value: Tensor | None, output: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`attend`, and what its gradient needs: log₂ Σ exp of the scores, and the matrices as the kernels read them."""
    matrices = [m for m in (query, key, value, output) if m is not None]
    if not qkv.numel():
        return _results(qkv, len(matrices), heads)
    qkv = qkv.contiguous()
    with launching(qkv):
        packed = pack(matrices, qkv) if matrices else None
        out, lse = forward(qkv, packed, heads)
    return out, lse, packed if packed is not None else qkv.new_empty(0)


@_attend.register_fake
def _(
    qkv: Tensor, query: Tensor | None, key: Tensor | None, value: Tensor | None, output: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _results(qkv, sum(m is not None for m in (query, key, value, output)), heads)


def _results(qkv: Tensor, sets: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    return (
        qkv.new_empty((batch, tokens, channels)),
        qkv.new_empty((batch, heads, tokens), dtype=torch.float32),
        qkv.new_empty((sets, 2, tokens, channels // heads) if sets else (0,)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    qkv, *matrices, heads = inputs
    ctx.save_for_backward(qkv, *output)
    ctx.heads = heads
    ctx.dtypes = [None if m is None else m.dtype for m in matrices]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, out_grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if out_grad is None:
        return (None,) * 6
    qkv, out, lse, packed = ctx.saved_tensors
    learn = any(ctx.needs_input_grad[1:5])
    sets = len([dtype for dtype in ctx.dtypes if dtype is not None])
    grad, sums = attend_backward(out_grad, qkv, out, lse, packed if sets else None, ctx.heads, learn)
    grads: list[Tensor | None] = [None] * 4
    if learn:
        for i, each in enumerate(sums.unbind(0)):
            grads[i] = each.to(ctx.dtypes[i])
    return grad, *grads, None


_attend.register_autograd(_backward, setup_context=_keep)


def attend(qkv: Tensor, matrices: Sequence[Tensor], heads: int) -> Tensor:
    """M^O softmax((M^Q q)(M^K k)ᵀ / √D) M^V v for every head, with gradients for all that is in it.

    Args:
        qkv: [B, tokens, 3C], the product with W^QKV; channel = part·C + head·D + d.
        matrices: free 2×2 matrices for each token and pair of components, [tokens, D/2, 2, 2]: none, those of queries
            and keys, or those of queries, keys, values and outputs.
        heads: number of heads.

    Returns: [B, tokens, C].

    """
    if qkv.ndim != 3 or qkv.shape[2] % (3 * heads):
        raise ValueError(f"qkv must be [B, tokens, 3·C] with C a multiple of {heads} heads, got {list(qkv.shape)}")
    tokens, head_dim = qkv.shape[1], qkv.shape[2] // (3 * heads)
    if not supports(tokens, head_dim, qkv.dtype):
        raise ValueError(
            f"1 to {MAX_TOKENS} tokens and even heads of at most {MAX_HEAD_DIM} components in float32 or less,"
            f" got {tokens} tokens and heads of {head_dim} in {qkv.dtype}"
        )
    if len(matrices) not in (0, 2, 4) or any(m.shape != (tokens, head_dim // 2, 2, 2) for m in matrices):
        raise ValueError(
            f"matrices must be 0, 2 or 4 of {[tokens, head_dim // 2, 2, 2]}, got {[list(m.shape) for m in matrices]}"
        )
    return _attend(qkv, *matrices, *[None] * (4 - len(matrices)), heads)[0]
