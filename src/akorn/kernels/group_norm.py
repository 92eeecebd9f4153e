"""GroupNorm in one pass over memory each way, for arrays in any order of tokens and channels.

With D channels per group, T tokens, and the statistics of a sample's group over both,

    y = (x − mean) · r · w + b,  r = 1/√(var + ε),      g_x = r (g w − ⟨g w⟩ − x̂ ⟨g w x̂⟩),  x̂ = (x − mean) r

where ⟨·⟩ is the mean over a group. A program holds all tokens of some groups, so x is read once; torch's own needs
[B, C, T] and would convert tokens there and back. Arithmetic is float32 (float64 for float64). Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

_WIDTH = 16  # smallest number of channels per program: whole memory sectors where channels lie side by side
_USUAL, _MOST = 8192, 16384  # elements per program: the aim, and what registers hold


@triton.jit
def _over_group(values, D: tl.constexpr, BLOCK_C: tl.constexpr):
    """One value per channel → the sum of its group, at every channel."""
    sums = tl.sum(tl.reshape(values, [BLOCK_C // D, D]), 1, keep_dims=True)
    return tl.reshape(tl.broadcast_to(sums, [BLOCK_C // D, D]), [BLOCK_C])


@triton.jit
def _group_norm_kernel(
    x,  # [samples, tokens, channels], like out, in any order
    weight,
    bias,
    out,
    statistics,  # [2, samples, groups]: the mean, and r
    samples,
    tokens,
    channels,
    x_sample,  # strides
    x_token,
    x_channel,
    out_token,
    out_channel,
    EPS: tl.constexpr,  # a constant keeps all its digits, also in float64
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    WIDE: tl.constexpr,
):
    across = tl.cdiv(channels, BLOCK_C)
    sample = (tl.program_id(0) // across).to(tl.int64)
    c = (tl.program_id(0) % across) * BLOCK_C + tl.arange(0, BLOCK_C)
    t = tl.arange(0, BLOCK_T)[:, None]
    inside = (t < tokens) & (c < channels)[None, :]
    tile = tl.load(x + sample * x_sample + t * x_token + c[None, :] * x_channel, mask=inside, other=0.0).to(WIDE)
    count = tokens * D
    mean = _over_group(tl.sum(tile, 0), D, BLOCK_C) / count
    tile = tl.where(inside, tile - mean[None, :], 0.0)
    r = 1.0 / tl.sqrt(_over_group(tl.sum(tile * tile, 0), D, BLOCK_C) / count + EPS)
    w = tl.load(weight + c, mask=c < channels, other=0.0).to(WIDE)
    b = tl.load(bias + c, mask=c < channels, other=0.0).to(WIDE)
    y = tile * (r * w)[None, :] + b[None, :]
    places = sample * tokens * channels + t * out_token + c[None, :] * out_channel
    tl.store(out + places, y.to(out.dtype.element_ty), mask=inside)
    groups = channels // D
    first = (c % D == 0) & (c < channels)  # one per group writes
    tl.store(statistics + sample * groups + c // D, mean, mask=first)
    tl.store(statistics + (samples + sample) * groups + c // D, r, mask=first)


@triton.jit
def _group_norm_backward_kernel(
    grad,  # [samples, tokens, channels] in the order of `out`
    x,
    weight,
    statistics,
    grad_x,
    sums,  # [2, samples, channels]: of the weight, of the bias, over the tokens of a sample
    samples,
    tokens,
    channels,
    x_sample,
    x_token,
    x_channel,
    out_token,
    out_channel,
    to_sample,  # strides of grad_x
    to_token,
    to_channel,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    WIDE: tl.constexpr,
):
    across = tl.cdiv(channels, BLOCK_C)
    sample = (tl.program_id(0) // across).to(tl.int64)
    c = (tl.program_id(0) % across) * BLOCK_C + tl.arange(0, BLOCK_C)
    t = tl.arange(0, BLOCK_T)[:, None]
    some = c < channels
    inside = (t < tokens) & some[None, :]
    groups = channels // D
    mean = tl.load(statistics + sample * groups + c // D, mask=some, other=0.0)
    r = tl.load(statistics + (samples + sample) * groups + c // D, mask=some, other=0.0)
    w = tl.load(weight + c, mask=some, other=0.0).to(WIDE)
    places = sample * tokens * channels + t * out_token + c[None, :] * out_channel
    g = tl.load(grad + places, mask=inside, other=0.0).to(WIDE)
    tile = tl.load(x + sample * x_sample + t * x_token + c[None, :] * x_channel, mask=inside, other=0.0).to(WIDE)
    tile = (tile - mean[None, :]) * r[None, :]  # x̂; beyond the tokens g is 0
    of_weight = tl.sum(g * tile, 0)
    of_bias = tl.sum(g, 0)
    tl.store(sums + sample * channels + c, of_weight, mask=some)
    tl.store(sums + (samples + sample) * channels + c, of_bias, mask=some)
    count = tokens * D
    along = _over_group(w * of_weight, D, BLOCK_C) / count
    level = _over_group(w * of_bias, D, BLOCK_C) / count
    back = r[None, :] * (g * w[None, :] - level[None, :] - tile * along[None, :])
    to = grad_x + sample * to_sample + t * to_token + c[None, :] * to_channel
    tl.store(to, back.to(grad_x.dtype.element_ty), mask=inside)


def at_odds(x: Tensor, weight: Tensor, bias: Tensor) -> str | None:
    """Why no fused norm can take these arrays, by their types and devices; None if one can."""
    if not {x.dtype, weight.dtype, bias.dtype} <= set(DTYPES) or weight.dtype != bias.dtype:
        return f"arrays of {x.dtype}, {weight.dtype} and {bias.dtype}"
    if (x.dtype == torch.float64) != (weight.dtype == torch.float64):
        return "some arrays are float64, others are not"
    if weight.device != x.device or bias.device != x.device:
        return "arrays on several devices"
    return None


def why_not(x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int) -> str | None:
    """Why `group_norm` cannot take arrays that `akorn.kernels.usable` allows, or None if it can."""
    if weight is None or bias is None:
        return "no weight or bias"
    if x.ndim not in (3, 4):
        return f"{x.ndim} axes"
    if (reason := at_odds(x, weight, bias)) is not None:
        return reason
    channels = x.shape[1] if x.ndim == 4 else x.shape[-1]
    size = channels // groups
    if channels != weight.numel() or channels % groups or size & (size - 1):
        return f"{channels} channels in {groups} groups"
    tokens = x.shape[2:].numel() if x.ndim == 4 else x.shape[1]
    if x.numel() == 0 or _blocks(tokens, channels, size) is None:
        return f"{tokens} tokens, {size} channels per group"
    return None


@operator("akorn::group_norm")
def group_norm(
    x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """GroupNorm of [B, tokens, C] or [B, C, H, W], for what `why_not` allows; differentiable once.

    dtype: the type of the result. Returns the result, with the memory order of pictures, and plain for tokens; and the
    statistics that the backward pass uses, [2, B, groups].
    """
    x = _settled(x)
    out = _result(x, dtype)
    statistics = x.new_empty(2, x.shape[0], groups, dtype=torch.promote_types(x.dtype, torch.float32))
    tokens, to = _tokens(x), _tokens(out)
    samples, count, channels = tokens.shape
    grid, constants = _launch(samples, count, channels, channels // groups, x.dtype)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _group_norm_kernel[grid](
            tokens,
            weight.contiguous(),
            bias.contiguous(),
            to,
            statistics,
            samples,
            count,
            channels,
            *tokens.stride(),
            *to.stride()[1:],
            EPS=eps,
            **constants,
        )
    return out, statistics


@group_norm.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(x.dtype, torch.float32)
    return _result(x, dtype), x.new_empty(2, x.shape[0], groups, dtype=wide)


@operator("akorn::group_norm_backward")
def group_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of weight and bias as sums over each sample's tokens, [2, B, C]."""
    x = _settled(x)
    grad = grad.contiguous(memory_format=_memory(x))
    grad_x = torch.empty_like(x)
    tokens, given, to = _tokens(x), _tokens(grad), _tokens(grad_x)
    samples, count, channels = tokens.shape
    sums = x.new_empty(2, samples, channels, dtype=statistics.dtype)
    grid, constants = _launch(samples, count, channels, channels // statistics.shape[2], x.dtype)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _group_norm_backward_kernel[grid](
            given,
            tokens,
            weight.contiguous(),
            statistics,
            to,
            sums,
            samples,
            count,
            channels,
            *tokens.stride(),
            *given.stride()[1:],
            *to.stride(),
            **constants,
        )
    return grad_x, sums


@group_norm_backward.register_fake
def _(grad: Tensor, x: Tensor, weight: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
    x = _settled(x)
    return torch.empty_like(x), x.new_empty(2, x.shape[0], weight.shape[0], dtype=statistics.dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, bias, _, _, _ = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.bias_dtype = bias.dtype
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, statistics = ctx.saved_tensors
    grad_x, sums = group_norm_backward(grad, x, weight, statistics)
    of_weight, of_bias = sums.sum(1)
    return grad_x, of_weight.to(weight.dtype), of_bias.to(ctx.bias_dtype), None, None, None


group_norm.register_autograd(_differentiate, setup_context=_keep)


def _refuse(ctx: Any, *grads: Tensor) -> None:
    raise RuntimeError(
        "the fused GroupNorm has no second derivatives; akorn.kernels.enable(False) selects the plain one"
    )


group_norm_backward.register_autograd(_refuse)


def _memory(x: Tensor) -> torch.memory_format:
    """The memory order of the result: channels last if the pictures have it, otherwise plain."""
    last = x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _settled(x: Tensor) -> Tensor:
    """x as the kernels read it: pictures in one of two orders, tokens with either axis' neighbours side by side."""
    if x.ndim == 4:
        return x.contiguous(memory_format=_memory(x))
    return x if 1 in x.stride()[1:] else x.contiguous()


def _tokens(x: Tensor) -> Tensor:
    """[B, tokens, C], a view."""
    return x.flatten(2).transpose(1, 2) if x.ndim == 4 else x


def _result(x: Tensor, dtype: torch.dtype) -> Tensor:
    """An empty array for the result."""
    if _memory(x) is torch.channels_last:
        batch, channels, height, width = x.shape
        return x.new_empty((batch, height, width, channels), dtype=dtype).permute(0, 3, 1, 2)
    return x.new_empty(x.shape, dtype=dtype)


def _blocks(tokens: int, channels: int, size: int) -> tuple[int, int] | None:
    """(tokens, channels) of a program's tile, powers of two, whole groups; None if they are too many."""
    high = triton.next_power_of_2(tokens)
    wide = max(size, min(triton.next_power_of_2(channels), max(_WIDTH, min(64, _USUAL // high))))
    return (high, wide) if high * wide <= _MOST else None


def _launch(
    samples: int, tokens: int, channels: int, size: int, dtype: torch.dtype
) -> tuple[tuple[int], dict[str, Any]]:
    """The grid, and what the kernels are compiled for."""
    blocks = _blocks(tokens, channels, size)
    if blocks is None or size & (size - 1):
        raise ValueError(f"groups of {size} channels and {tokens} tokens do not fit a program")
    high, wide = blocks
    constants = {
        "D": size,
        "BLOCK_T": high,
        "BLOCK_C": wide,
        "WIDE": tl.float64 if dtype == torch.float64 else tl.float32,
        "num_warps": min(16, max(1, high * wide // 1024)),
    }
    return (samples * triton.cdiv(channels, wide),), constants
