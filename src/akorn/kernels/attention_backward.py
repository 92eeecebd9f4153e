"""The gradients of attention with GTA's matrices inside: of the product with W^QKV and of the matrices.

With P = softmax(q̃k̃ᵀ/√D), dõ = M^Oᵀ do and δ = Σ_d do·o:

    dṽ = Pᵀ dõ,    dS = P ∘ (dõ ṽᵀ − δ),    dq̃ = dS k̃ / √D,    dk̃ = dSᵀ q̃ / √D

No two programs add to the same memory, so the same input gives the same bits. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-call,misc"

from __future__ import annotations

import math
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attention_backward_kernels import attend_keys_kernel, attend_queries_kernel
from akorn.kernels.attention_tiles import launching, padded, products, rest, value_bytes
from akorn.kernels.operators import operator
from akorn.kernels.pairs_passes import TurnBack, turned
from akorn.kernels.tune import Config, best, call

# One program for all keys: the queries per iteration, and `depth` = 1. Iterations of 32 waste least on padding (81 →
# 96); the second loads one iteration ahead, the last lets two programs share a multiprocessor.
_WHOLE = (
    Config(block=32, warps=8, stages=1, depth=1),
    Config(block=32, warps=8, stages=2, depth=1),
    Config(block=128, warps=8, stages=1, depth=1),
    Config(block=64, warps=8, stages=1, depth=1),
    Config(block=32, warps=8, stages=1, depth=1, registers=128),
)
_LARGE = Config(block=16, warps=8, stages=2, depth=1)

# Blocks: their own rows (keys or queries), and those of one iteration of their loop.
_BLOCKS = (
    Config(block=64, columns=64, warps=4, stages=2),
    Config(block=128, columns=64, warps=8, stages=2),
    Config(block=128, columns=32, warps=8, stages=2),
    Config(block=64, columns=32, warps=4, stages=2),
)
_NARROW = (  # for short rows: more programs in parallel, or longer iterations
    Config(block=64, columns=64, warps=4, stages=2, registers=128),
    Config(block=64, columns=32, warps=4, stages=3, registers=96),
    Config(block=64, columns=128, warps=4, stages=2),
    Config(block=128, columns=32, warps=4, stages=2),
)
_WIDE_BLOCKS = (
    Config(block=64, columns=16, warps=4, stages=2),
    Config(block=128, columns=32, warps=8, stages=1),
    Config(block=64, columns=32, warps=4, stages=1),
)


def candidates(tokens: int, head_dim: int, dtype: torch.dtype) -> tuple[Config, ...]:
    """The divisions worth trying, the first of which always fits; `depth` = 1 is one program for all keys.

    That needs room for the gradients of all keys and values in registers, and in shared memory for keys and values in
    two layouts, and for P and dS of the queries of one iteration.
    """
    area, width = padded(tokens) * padded(head_dim), value_bytes(dtype)
    if (4 * area + 64 * padded(tokens)) * width > 200 * 1024:
        return _blocks(head_dim, dtype)
    if area > 8192:
        return *_blocks(head_dim, dtype), _LARGE
    whole = tuple(config for config in _WHOLE if config.block * padded(tokens) <= 16384)
    return whole if tokens <= 128 else (*whole, *_blocks(head_dim, dtype))


def _blocks(head_dim: int, dtype: torch.dtype) -> tuple[Config, ...]:
    """The divisions with a block of keys, or of queries, for each program; the first always fits."""
    width = padded(head_dim) * value_bytes(dtype)
    return _WIDE_BLOCKS if width > 256 else (*_BLOCKS, *_NARROW) if width <= 64 else _BLOCKS


def _sides(config: Config, tokens: int) -> tuple[int, int]:
    """The rows of a program, and those of one iteration of its loop."""
    block, columns = (min(size, padded(tokens)) for size in (config.block, config.columns))
    return (padded(tokens), block) if config.depth == 1 else (block, columns)


def gradients(
    out_grad: Tensor,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    packed: Tensor | None,
    heads: int,
    learn: bool,
    bias: bool = False,
    kept: Tensor | None = None,
    unturned: Tensor | None = None,
    given: Config | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """`attend_backward`, with a given division into programs (by default the fastest, for keys and for queries)."""
    batch, tokens, channels = out.shape
    head_dim = channels // heads
    sets = 0 if packed is None else packed.shape[0]
    grad = qkv.new_empty(qkv.shape)
    # Unless it was kept, õ is recomputed, which takes one more short product.
    again = sets == 4 and learn and unturned is None
    if again:
        unturned = out.new_empty(out.shape)
    sizes = {
        "TOKENS": tokens, "HEADS": heads, "D": head_dim, "BLOCK_D": padded(head_dim), "SETS": sets,
        "PRECISION": products(qkv.dtype),
    }  # fmt: skip
    # Before there is anything in `grad`: see there.
    back = None if packed is None else TurnBack(grad, qkv, out_grad, unturned, packed, heads, learn, bias)
    matrices = packed if packed is not None else qkv
    results = (
        grad, unturned if unturned is not None else grad, math.log2(math.e) / math.sqrt(head_dim),
        1 / math.sqrt(head_dim),
    )  # fmt: skip
    key = (qkv.device, qkv.dtype, batch.bit_length(), again, learn, kept is not None, *sizes.values())

    def launch(config: Config) -> None:
        whole = config.depth == 1
        source, slope, totals = qkv if kept is None else kept, out_grad, lse
        if not whole:
            # Every block of queries meets every key, and vice versa. Transforming a tile reads two planes of matrices
            # for each of its own values, so transforming at each meeting would read several times what attention reads;
            # transforming once before, in a pass over the batch with the matrices in registers, costs one read and one
            # write.
            if packed is not None and kept is None:
                source = turned(qkv, packed, heads)
            slope = out.new_empty(out.shape) if sets == 4 else out_grad
            sums = lse.new_empty((*lse.shape, 2))
            totals = sums.view(torch.int64)

            def launch_queries(config: Config) -> None:
                own, turns = _sides(config, tokens)
                call(attend_queries_kernel, (batch * heads * triton.cdiv(tokens, own),))(
                    source, qkv if sets == 2 else source, out_grad, out, lse, matrices, slope, sums, *results,
                    BLOCK_Q=own, BLOCK_K=turns, REST=rest(tokens, turns), UNTURNED=again, **sizes, **config.options,
                )  # fmt: skip

            cuts = _blocks(head_dim, qkv.dtype)
            launch_queries(given if given is not None else best(("attend queries", *key), cuts, launch_queries))
        own, turns = _sides(config, tokens)
        last = rest(tokens, turns)
        call(attend_keys_kernel, (batch * heads * triton.cdiv(tokens, own),))(
            source, qkv if sets == 2 else source, slope, totals, matrices, *results,
            BLOCK_Q=turns, BLOCK_K=own, REST=last if last < turns else 0, WHOLE=whole, TURN=whole and kept is None,
            UNTURNED=whole and again, **sizes, **config.options,
        )  # fmt: skip

    choices = candidates(tokens, head_dim, qkv.dtype)
    launch(given if given is not None else best(("attend backward", *key), choices, launch))
    if back is not None:
        return grad, *back()
    return grad, lse.new_empty(0), grad.sum((0, 1), dtype=torch.float32) if bias else lse.new_empty(0)


@operator("akorn::attend_backward")
def attend_backward(
    out_grad: Tensor,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    packed: Tensor | None,
    heads: int,
    learn: bool,
    bias: bool = False,
    kept: Tensor | None = None,
    unturned: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `akorn.kernels.attention.attend`.

    Args:
        out_grad: the output's gradient, [B, tokens, C].
        qkv: the input, [B, tokens, 3C].
        out: the output. (The product with W^O keeps it in any case.)
        lse: log₂ Σ exp of the scores, [B, heads, tokens].
        packed: the matrices, see `akorn.kernels.pairs.pack`.
        heads: number of heads.
        learn: whether the matrices' gradients are needed.
        bias: whether the sums of qkv's gradient over samples and tokens are needed.
        kept: what the matrices made of queries, keys and values, like qkv, if the forward pass kept it.
        unturned: the output before its matrices, likewise.

    Returns: the gradient of qkv, those of the matrices, [sets, tokens, D/2, 2, 2] float32, and the sums, [3C] float32;
    empty if they are not wanted.

    """
    if not out.numel():
        matrices, columns = _sizes(qkv, packed, learn, bias)
        return qkv.new_empty(qkv.shape), lse.new_zeros(matrices), lse.new_zeros(columns)
    with launching(qkv):
        return gradients(out_grad.contiguous(), qkv.contiguous(), out, lse, packed, heads, learn, bias, kept, unturned)


@attend_backward.register_fake
def _(
    out_grad: Tensor,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    packed: Tensor | None,
    heads: int,
    learn: bool,
    bias: bool = False,
    kept: Tensor | None = None,
    unturned: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    matrices, columns = _sizes(qkv, packed, learn, bias)
    return qkv.new_empty(qkv.shape), lse.new_empty(matrices), lse.new_empty(columns)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError("fused attention has no second derivatives; akorn.kernels.enable(False) selects the plain one")


attend_backward.register_autograd(_refuse)


def _sizes(qkv: Tensor, packed: Tensor | None, learn: bool, bias: bool) -> tuple[tuple[int, ...], tuple[int]]:
    """Of the matrices' gradients, and of a bias's."""
    matrices = (packed.shape[0], packed.shape[2], packed.shape[3] // 2, 2, 2) if packed is not None and learn else (0,)
    return matrices, (qkv.shape[2] if bias else 0,)
