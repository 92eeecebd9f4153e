"""Attention over a short set of tokens in one kernel: GTA's matrices, softmax and values, forward only.

One program handles one head of one sample. It reads queries, keys and values where the product with W^QKV left them
and writes where the product with W^O reads, so nothing is copied between layouts. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import math

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.tune import Config, best, precision

MAX_TOKENS = 128
MAX_HEAD_DIM = 128

# The queries a turn of the program's loop, and its warps. Turns of 64 and 128 use the wide matrix instructions, turns
# of 32 waste least on padding (81 → 96).
CONFIGS = (
    Config(block=64, warps=4, stages=1),
    Config(block=128, warps=8, stages=1, registers=128),
    Config(block=128, warps=4, stages=1),
    Config(block=32, warps=4, stages=1),
)


@triton.jit
def swap_pairs(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(x₁, x₂) → (x₂, x₁) on each pair of consecutive columns: a renaming of registers, no traffic."""
    first, second = tl.split(tl.reshape(x, [ROWS, COLUMNS // 2, 2]))
    return tl.reshape(tl.join(second, first), [ROWS, COLUMNS])


@triton.jit
def multiply(a, b, total, PRECISION: tl.constexpr):
    """The sum total + a·b in float32; `akorn.kernels.tune.precision` says how."""
    if PRECISION == "wide":
        total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
    else:
        total = tl.dot(a, b, total, input_precision=PRECISION)
    return total


@triton.jit
def _matrices(matrices, offsets, inside, PLANE: tl.constexpr):
    """Both planes of a set of 2×2 matrices, see `pack_matrices`."""
    own = tl.load(matrices + offsets, mask=inside, other=0.0, eviction_policy="evict_last")
    other = tl.load(matrices + PLANE + offsets, mask=inside, other=0.0, eviction_policy="evict_last")
    return own.to(tl.float32), other.to(tl.float32)


@triton.jit
def _transform(x, matrices, offsets, inside, PLANE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The 2×2 matrices on pairs of columns, as own · x + other · swapped x."""
    own, other = _matrices(matrices, offsets, inside, PLANE)
    x = x.to(tl.float32)
    return own * x + other * swap_pairs(x, ROWS, COLUMNS)


@triton.jit
def _attention_kernel(
    qkv,  # [B, TOKENS, 3·C], channel = part·C + head·D + d
    matrices,  # [4, 2, TOKENS, D], see `pack_matrices`; not read without POSITION
    out,  # [B, TOKENS, C]
    scale,  # log₂e / √D
    TOKENS: tl.constexpr,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    POSITION: tl.constexpr,
    PRECISION: tl.constexpr,
):
    C: tl.constexpr = HEADS * D
    PLANE: tl.constexpr = TOKENS * D
    dtype = out.dtype.element_ty
    program = tl.program_id(0)
    sample = (program // HEADS).to(tl.int64)
    head = program % HEADS
    source = qkv + sample * (TOKENS * 3 * C) + head * D
    target = out + sample * (TOKENS * C) + head * D

    tokens = tl.arange(0, BLOCK_T)
    parts = tl.arange(0, BLOCK_D)
    inside = (tokens[:, None] < TOKENS) & (parts[None, :] < D)
    rows = tokens[:, None] * (3 * C) + parts[None, :]
    places = tokens[:, None] * D + parts[None, :]
    k = tl.load(source + C + rows, mask=inside, other=0.0, cache_modifier=".cg")  # [BLOCK_T, BLOCK_D]
    v = tl.load(source + 2 * C + rows, mask=inside, other=0.0, cache_modifier=".cg")
    if POSITION:
        k = _transform(k, matrices + 2 * PLANE, places, inside, PLANE, BLOCK_T, BLOCK_D).to(dtype)
        v = _transform(v, matrices + 4 * PLANE, places, inside, PLANE, BLOCK_T, BLOCK_D).to(dtype)
        # The output's matrices need the output with its pairs swapped. A second product is cheaper than swapping in
        # the layout that the first one leaves its result in.
        v_swapped = swap_pairs(v, BLOCK_T, BLOCK_D)
    k = tl.trans(k)  # [BLOCK_D, BLOCK_T]

    for start in tl.static_range(0, TOKENS, BLOCK_Q):
        asking = start + tl.arange(0, BLOCK_Q)
        ours = (asking[:, None] < TOKENS) & (parts[None, :] < D)
        q_places = asking[:, None] * D + parts[None, :]
        q = tl.load(source + asking[:, None] * (3 * C) + parts[None, :], mask=ours, other=0.0, cache_modifier=".cg")
        if POSITION:
            q = _transform(q, matrices, q_places, ours, PLANE, BLOCK_Q, BLOCK_D).to(dtype)
        scores = multiply(q, k, tl.zeros([BLOCK_Q, BLOCK_T], tl.float32), PRECISION) * scale  # [BLOCK_Q, BLOCK_T]
        scores = tl.where(tokens[None, :] < TOKENS, scores, -float("inf"))
        weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
        total = tl.sum(weights, 1)
        weights = (weights * (1.0 / total)[:, None]).to(dtype)
        o = multiply(weights, v, tl.zeros([BLOCK_Q, BLOCK_D], tl.float32), PRECISION)
        if POSITION:
            swapped = multiply(weights, v_swapped, tl.zeros([BLOCK_Q, BLOCK_D], tl.float32), PRECISION)
            own, other = _matrices(matrices + 6 * PLANE, q_places, ours, PLANE)
            o = own * o + other * swapped
        tl.store(target + asking[:, None] * C + parts[None, :], o.to(dtype), mask=ours)


def pack_matrices(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """The four sets of 2×2 matrices, [tokens, D/2, 2, 2] each, as the kernel reads them: [4, 2, tokens, D].

    Mx on a pair is own · x + other · (x₂, x₁): own holds the diagonal (m₁₁, m₂₂), other the rest (m₁₂, m₂₁).
    """
    m = torch.stack((query, key, value, output))  # [4, tokens, D/2, 2, 2]
    own = m.diagonal(dim1=-2, dim2=-1).flatten(-2)  # [4, tokens, D]
    other = torch.stack((m[..., 0, 1], m[..., 1, 0]), -1).flatten(-2)
    return torch.stack((own, other), 1).contiguous()


def supports(tokens: int, head_dim: int) -> bool:
    """Whether the kernel takes this many tokens, and heads of this many components."""
    return tokens <= MAX_TOKENS and head_dim <= MAX_HEAD_DIM and head_dim % 2 == 0


def attention_into(out: Tensor, qkv: Tensor, matrices: Tensor | None, heads: int, config: Config | None = None) -> None:
    """`attention`, written to `out` [B, tokens, C]."""
    batch, tokens, channels = out.shape
    head_dim = channels // heads
    block_t = max(16, triton.next_power_of_2(tokens))
    block_d = max(16, triton.next_power_of_2(head_dim))

    def launch(config: Config) -> None:
        _attention_kernel[(batch * heads,)](
            qkv,
            matrices if matrices is not None else qkv,
            out,
            math.log2(math.e) / math.sqrt(head_dim),
            TOKENS=tokens,
            HEADS=heads,
            D=head_dim,
            BLOCK_T=block_t,
            BLOCK_D=block_d,
            BLOCK_Q=min(config.block, block_t),
            POSITION=matrices is not None,
            PRECISION=precision(qkv.dtype),
            **config.options,
        )

    if config is None:
        key = ("attention", out.device, out.dtype, tokens, heads, head_dim, matrices is not None, batch.bit_length())
        config = best(key, CONFIGS, launch)
    launch(config)


@torch.library.custom_op("akorn::attention", mutates_args=())
def attention(qkv: Tensor, matrices: Tensor | None, heads: int) -> Tensor:
    """M^O softmax((M^Q q)(M^K k)ᵀ / √D) M^V v for every head.

    Args:
        qkv: [B, tokens, 3C], the product with W^QKV; channel = part·C + head·D + d.
        matrices: what `pack_matrices` made of GTA's matrices, [4, 2, tokens, D]; None for no positions.
        heads: number of heads.

    Returns: [B, tokens, C].

    """
    if qkv.ndim != 3 or qkv.shape[2] % (3 * heads):
        raise ValueError(f"qkv must be [B, tokens, 3·C] with C a multiple of {heads} heads, got {list(qkv.shape)}")
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    if not supports(tokens, channels // heads):
        raise ValueError(
            f"at most {MAX_TOKENS} tokens and even heads of at most {MAX_HEAD_DIM} components,"
            f" got {tokens} tokens and heads of {channels // heads}"
        )
    if matrices is not None and matrices.shape != (4, 2, tokens, channels // heads):
        raise ValueError(f"matrices must be {[4, 2, tokens, channels // heads]}, got {list(matrices.shape)}")
    out = qkv.new_empty(batch, tokens, channels)
    attention_into(out, qkv.contiguous(), None if matrices is None else matrices.contiguous(), heads)
    return out


@attention.register_fake
def _(qkv: Tensor, matrices: Tensor | None, heads: int) -> Tensor:
    return qkv.new_empty(qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3)
