"""Attention for training, with GTA's matrices inside: from the product with W^QKV to the one with W^O.

Queries, keys and values are read where the first product wrote them, and the output is written where the next one reads
it, so nothing is copied between layouts. Softmax is in float32. Needs Triton to import; `akorn.kernels.solve_attention`
is the form for solving, without gradients.
"""

# mypy: disable-error-code="no-untyped-call,misc"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.attention_backward import attend_backward
from akorn.kernels.attention_kernel import attend_kernel
from akorn.kernels.attention_tiles import launching, padded, products, rest, value_bytes
from akorn.kernels.backward_memory import kept
from akorn.kernels.operators import operator
from akorn.kernels.pairs import pack
from akorn.kernels.pairs_passes import turned
from akorn.kernels.tune import Config, best, call

MAX_TOKENS = 4096
MAX_HEAD_DIM = 128
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


# Queries per program, and keys per iteration of its loop; with `depth` = 1 programs transform what they load.
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
_NARROW = (  # for short rows: more keys at once, or more programs in parallel
    Config(block=64, columns=128, warps=4, stages=2),
    Config(block=64, columns=128, warps=4, stages=2, registers=128),
    Config(block=64, columns=64, warps=4, stages=3, registers=96),
    Config(block=64, columns=32, warps=4, stages=3),
    Config(block=128, columns=64, warps=4, stages=2),
)
_LARGE = Config(block=128, columns=64, warps=8, stages=1, depth=1)
_WIDE_BLOCKS = (
    Config(block=64, columns=16, warps=4, stages=2),
    Config(block=64, columns=32, warps=4, stages=1),
    Config(block=128, columns=64, warps=8, stages=2),
)


def candidates(tokens: int, head_dim: int, dtype: torch.dtype, before: bool = False) -> tuple[Config, ...]:
    """The divisions worth trying, the first of which always fits; `before` excludes those that transform what they
    load.

    Programs transform what they load if a program has all queries of a head, or perhaps half of them: see
    `akorn.kernels.attention_backward.gradients` for the reason.
    """
    width = padded(head_dim) * value_bytes(dtype)
    if width > 256:
        return _WIDE_BLOCKS
    if tokens <= 128:
        return _WHOLE
    blocks = (*_BLOCKS, *_NARROW) if width <= 64 else _BLOCKS
    return blocks if before or tokens > 256 else (*blocks, _LARGE)


def supports(tokens: int, head_dim: int, dtype: torch.dtype) -> bool:
    """Whether the kernels support this many tokens, heads of this many components, and this type."""
    return 1 <= tokens <= MAX_TOKENS and head_dim <= MAX_HEAD_DIM and head_dim % 2 == 0 and dtype in DTYPES


def forward(
    qkv: Tensor, packed: Tensor | None, heads: int, keep: bool = False, given: Config | None = None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """The output, log₂ Σ exp of the scores, and what is kept, see `_kept`, with a given division into programs (by
    default the fastest).
    """
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    head_dim = channels // heads
    out = qkv.new_empty((batch, tokens, channels))
    lse = qkv.new_empty((batch, heads, tokens), dtype=torch.float32)
    sets = 0 if packed is None else packed.shape[0]
    keep_turned, keep_unturned = _kept(tokens, head_dim, qkv.dtype, sets, keep)
    unturned = out.new_empty(out.shape) if keep_unturned else None
    source = qkv
    sizes = {
        "TOKENS": tokens, "HEADS": heads, "D": head_dim, "BLOCK_D": padded(head_dim), "SETS": sets, "KEEP": keep,
        "PRECISION": products(qkv.dtype),
    }  # fmt: skip

    def launch(config: Config) -> None:
        nonlocal source
        turn = config.depth == 1
        # A program transforms its queries itself, since no other program reads them.
        source = turned(qkv, packed, heads, first=1) if packed is not None and not turn else qkv
        block_q, block_k = (min(size, padded(tokens)) for size in (config.block, config.columns))
        call(attend_kernel, (batch * heads * triton.cdiv(tokens, block_q),))(
            qkv, source, qkv if sets == 2 else source, packed if packed is not None else qkv, out, lse, source,
            unturned if unturned is not None else out, math.log2(math.e) / math.sqrt(head_dim),
            BLOCK_Q=block_q, BLOCK_K=block_k, REST=rest(tokens, block_k), TURN=turn, **sizes, **config.options,
        )  # fmt: skip

    key = ("attend", qkv.device, qkv.dtype, batch.bit_length(), *sizes.values())
    launch(given if given is not None else best(key, candidates(tokens, head_dim, qkv.dtype, keep_turned), launch))
    return out, lse, source if keep_turned else None, unturned


def _kept(tokens: int, head_dim: int, dtype: torch.dtype, sets: int, keep: bool) -> tuple[bool, bool]:
    """Whether to keep the transformed queries, keys and values, if they exist, and the output before
    its matrices.
    """
    return keep and sets > 0 and candidates(tokens, head_dim, dtype)[0].depth == 0, keep and sets == 4


@operator("akorn::attend")
def _attend(
    qkv: Tensor,
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    output: Tensor | None,
    bias: Tensor | None,
    heads: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`attend`, and what its gradient needs: log₂ Σ exp of the scores, the matrices as the kernels read them, and what
    is kept (`akorn.kernels.backward_memory`): turned queries, keys and values, and the output before its matrices.
    """
    matrices = [m for m in (query, key, value, output) if m is not None]
    if not qkv.numel():
        return _results(qkv, len(matrices), heads, keep)
    qkv = qkv.contiguous()
    with launching(qkv):
        packed = pack(matrices, qkv) if matrices else None
        out, lse, *others = forward(qkv, packed, heads, keep)
    packed, source, unturned = (array if array is not None else qkv.new_empty(0) for array in (packed, *others))
    return out, lse, packed, source, unturned


@_attend.register_fake
def _(
    qkv: Tensor,
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    output: Tensor | None,
    bias: Tensor | None,
    heads: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _results(qkv, sum(m is not None for m in (query, key, value, output)), heads, keep)


def _results(qkv: Tensor, sets: int, heads: int, keep: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    keep_turned, keep_unturned = _kept(tokens, channels // heads, qkv.dtype, sets, keep)
    return (
        qkv.new_empty((batch, tokens, channels)),
        qkv.new_empty((batch, heads, tokens), dtype=torch.float32),
        qkv.new_empty((sets, 2, tokens, channels // heads) if sets else (0,)),
        qkv.new_empty((batch, tokens, 3 * channels) if keep_turned else (0,)),
        qkv.new_empty((batch, tokens, channels) if keep_unturned else (0,)),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    qkv, *parameters, heads, _ = inputs
    ctx.save_for_backward(qkv, *output)
    ctx.heads = heads
    ctx.dtypes = [None if p is None else p.dtype for p in parameters]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, out_grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if out_grad is None:
        return (None,) * 8
    qkv, out, lse, *others = ctx.saved_tensors
    packed, source, unturned = (array if array.numel() else None for array in others)
    learn, bias = any(ctx.needs_input_grad[1:5]), ctx.needs_input_grad[5]
    grad, sums, columns = attend_backward(out_grad, qkv, out, lse, packed, ctx.heads, learn, bias, source, unturned)
    grads: list[Tensor | None] = [None] * 5
    if learn:
        for i, each in enumerate(sums.unbind(0)):
            grads[i] = each.to(ctx.dtypes[i])
    if bias:
        grads[4] = columns.to(ctx.dtypes[4])
    return grad, *grads, None, None


_attend.register_autograd(_backward, setup_context=_save)


def attend(qkv: Tensor, matrices: Sequence[Tensor], heads: int, bias: Tensor | None = None) -> Tensor:
    """M^O softmax((M^Q q)(M^K k)ᵀ / √D) M^V v for every head, with gradients for all that is in it.

    Args:
        qkv: [B, tokens, 3C], the product with W^QKV; channel = part·C + head·D + d.
        matrices: free 2×2 matrices for each token and pair of components, [tokens, D/2, 2, 2]: none, those of queries
            and keys, or those of queries, keys, values and outputs.
        heads: number of heads.
        bias: [3C], already added to qkv; passed only for its gradient, which the backward pass gets almost for free.

    Returns: [B, tokens, C]. Inside `akorn.kernels.backward_memory.keeping` more is kept for the backward pass, which is
    then faster.

    """
    if qkv.ndim != 3 or qkv.shape[2] % (3 * heads):
        raise ValueError(f"qkv must be [B, tokens, 3·C] with C a multiple of {heads} heads, got {list(qkv.shape)}")
    tokens, head_dim = qkv.shape[1], qkv.shape[2] // (3 * heads)
    if not supports(tokens, head_dim, qkv.dtype):
        raise ValueError(
            f"1 to {MAX_TOKENS} tokens and even heads of at most {MAX_HEAD_DIM} components in float32 or less,"
            f" got {tokens} tokens and heads of {head_dim} in {qkv.dtype}"
        )
    if bias is not None and bias.shape != qkv.shape[2:]:
        raise ValueError(f"the bias must be {list(qkv.shape[2:])}, got {list(bias.shape)}")
    if len(matrices) not in (0, 2, 4) or any(m.shape != (tokens, head_dim // 2, 2, 2) for m in matrices):
        raise ValueError(
            f"matrices must be 0, 2 or 4 of {[tokens, head_dim // 2, 2, 2]}, got {[list(m.shape) for m in matrices]}"
        )
    return _attend(qkv, *matrices, *[None] * (4 - len(matrices)), bias, heads, kept())[0]
