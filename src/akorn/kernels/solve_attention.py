"""Attention over a short set of tokens in one kernel: GTA's matrices, softmax and values, forward only.

One program handles one head of one sample, or a few heads one after the other, which then share the matrices it has
read. It reads queries, keys and values where the product with W^QKV left them and writes where the product with W^O
reads, so nothing is copied between layouts. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator,misc"

import math
from dataclasses import replace

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator
from akorn.kernels.solve_attention_kernel import attention_kernel, multiply, swap_pairs
from akorn.kernels.tune import Config, best, call, interpreted, precision

__all__ = ["CONFIGS", "attention", "attention_into", "multiply", "pack_matrices", "supports", "swap_pairs"]

MAX_TOKENS = 128
MAX_HEAD_DIM = 128

# Queries per iteration of a program's loop, and warps; then heads per program, and whether pairs are turned in
# bfloat16, two components per instruction. The matrices have twice as many bytes as queries, keys, values and outputs
# together: they stay in the cache of a multiprocessor if its programs leave enough of its memory, and several heads
# share one read; but programs of several heads are large, so fewer run side by side.
CONFIGS = (
    Config(block=64, warps=4, stages=1),
    Config(block=128, warps=8, stages=1, registers=128),
    Config(block=128, warps=4, stages=1),
    Config(block=64, warps=4, stages=1, packed=True),
    Config(block=64, warps=4, stages=1, packed=True, registers=96),
    Config(block=128, warps=8, stages=1, packed=True),
    Config(block=64, warps=4, stages=1, packed=True, group=2, registers=168),
    Config(block=128, warps=8, stages=1, packed=True, group=2, registers=128),
)


def pack_matrices(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """The four sets of 2×2 matrices, [tokens, D/2, 2, 2] each, as the kernel reads them: [4, 2, tokens, D].

    Mx on a pair is own · x + other · (x₂, x₁): own holds the diagonal (m₁₁, m₂₂), other the rest (m₁₂, m₂₁).
    """
    m = torch.stack((query, key, value, output))  # [4, tokens, D/2, 2, 2]
    own = m.diagonal(dim1=-2, dim2=-1).flatten(-2)  # [4, tokens, D]
    other = torch.stack((m[..., 0, 1], m[..., 1, 0]), -1).flatten(-2)
    return torch.stack((own, other), 1).contiguous()


def supports(tokens: int, head_dim: int) -> bool:
    """Whether the kernel supports this many tokens, and heads of this many components."""
    return tokens <= MAX_TOKENS and head_dim <= MAX_HEAD_DIM and head_dim % 2 == 0


def key_tiles(tokens: int) -> tuple[int, int]:
    """The rows of both tiles of keys: powers of two of at least 16; the second is 0 if one tile is as good."""
    whole = max(16, triton.next_power_of_2(tokens))
    return (whole // 2, whole // 4) if whole >= 64 and tokens <= 3 * whole // 4 else (whole, 0)


def fitting(config: Config, qkv: Tensor, matrices: Tensor | None, heads: int) -> Config:
    """The config as far as it applies to these arrays.

    Pairs are turned two components per instruction only for bfloat16, on GPUs that support it, and if every thread has
    at least 8 neighbouring components of every tile: then Triton packs a pair into a register.
    """
    tokens, head_dim = qkv.shape[1], qkv.shape[2] // (3 * heads)
    smallest = min(size for size in (*key_tiles(tokens), config.block) if size) * max(16, head_dim)
    packed = (
        config.packed
        and matrices is not None
        and qkv.dtype == matrices.dtype == torch.bfloat16
        and qkv.is_cuda
        and not interpreted()
        and torch.cuda.get_device_capability(qkv.device)[0] >= 8
        and head_dim % 8 == 0
        and smallest >= 8 * 32 * config.warps
        and all(array.data_ptr() % 16 == 0 for array in (qkv, matrices))
    )
    block = min(config.block, max(16, triton.next_power_of_2(tokens)))
    # Several wide heads do not fit into a multiprocessor, and how many registers they need is hard to predict.
    small = head_dim <= 64 and (qkv.dtype != torch.float32 or interpreted())
    return replace(
        config,
        block=block,
        packed=packed,
        group=math.gcd(config.group, heads) if small else 1,
        registers=config.registers if small and packed == config.packed else None,
    )


def attention_into(out: Tensor, qkv: Tensor, matrices: Tensor | None, heads: int, config: Config | None = None) -> None:
    """`attention`, written to `out` [B, tokens, C]."""
    batch, tokens, channels = out.shape
    head_dim = channels // heads
    first, second = key_tiles(tokens)

    def launch(config: Config) -> None:
        call(attention_kernel, (batch * heads // config.group,))(
            qkv,
            matrices if matrices is not None else qkv,
            out,
            math.log2(math.e) / math.sqrt(head_dim),
            TOKENS=tokens,
            HEADS=heads,
            D=head_dim,
            FIRST=first,
            SECOND=second,
            BLOCK_D=max(16, triton.next_power_of_2(head_dim)),
            BLOCK_Q=config.block,
            GROUP=config.group,
            POSITION=matrices is not None,
            PACKED=config.packed,
            PRECISION=precision(qkv.dtype),
            **config.options,
        )

    if config is not None:
        launch(fitting(config, qkv, matrices, heads))
        return
    fitted = [(each, fitting(each, qkv, matrices, heads)) for each in CONFIGS]
    configs = [config for each, config in fitted if config.packed == each.packed]
    key = (
        "attention", out.device, out.dtype, tokens, heads, head_dim, matrices is not None, batch.bit_length(),
        len(configs),
    )  # fmt: skip
    launch(best(key, configs, launch, out))


@operator("akorn::attention")
def attention(qkv: Tensor, matrices: Tensor | None, heads: int) -> Tensor:
    """M^O softmax((M^Q q)(M^K k)ᵀ / √D) M^V v for every head.

    Args:
        qkv: [B, tokens, 3C], the product with W^QKV; channel = part·C + head·D + d.
        matrices: GTA's matrices from `pack_matrices`, [4, 2, tokens, D]; None for no positions.
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
