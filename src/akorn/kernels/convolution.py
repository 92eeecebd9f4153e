"""Convolutions of pictures with channels last in memory, for training: cuDNN's, except where it is slow.

With an odd kernel, padded by half its size, y_{c,p} = Σ_{d,δ} W_{c,d,δ} x_{d,p+δ} + b_c. At stride 1 the gradient of x
is a convolution too, of the gradient g of y with W mirrored and its channels exchanged, W′_{d,c,δ} = W_{c,d,−δ}:

    ∂x_{d,p} = Σ_{c,δ} W_{c,d,δ} g_{c,p−δ} = Σ_{c,δ} W′_{d,c,δ} g_{c,p+δ}

cuDNN is often faster at that than at its own input gradient; the faster one is chosen by timing, once per shape
(`akorn.kernels.tune`). Our own kernels add the bias and sum its gradient. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from typing import Any

import torch
import torch.nn.functional as F
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.kernels.operators import operator
from akorn.kernels.tune import best

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LAST = torch.channels_last

_ADDED = 4096  # elements that a program adds the bias to
_SUMMED = 8192  # elements of a gradient that a program sums at a time
_PARTS = 256  # programs per sum: enough to keep a GPU busy, few enough to be added up quickly
_SQUARE = 32  # side of the pieces in which a kernel's channels are exchanged


@triton.jit
def _conv_bias_kernel(y, bias, rows, channels, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """y + b in place; y: [rows, channels]."""
    start = tl.program_id(0).to(tl.int64) * BLOCK_R
    r = tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    b = tl.load(bias + c, mask=c < channels, other=0.0).to(tl.float32)
    inside = (r < rows - start) & (c < channels)[None, :]
    places = y + start * channels + r * channels + c[None, :]
    value = tl.load(places, mask=inside, other=0.0).to(tl.float32) + b[None, :]
    tl.store(places, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _conv_sums_kernel(
    grad,  # [rows, channels]
    parts,  # [programs, channels]
    rows,
    channels,
    tiles,  # per program
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Each program's sum over its rows."""
    first = tl.program_id(0).to(tl.int64) * tiles * BLOCK_R
    r = tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    some = (c < channels)[None, :]
    total = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    for tile in range(tiles):
        start = first + tile * BLOCK_R
        inside = some & (r < rows - start)
        total += tl.load(grad + start * channels + r * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(parts + tl.program_id(0) * channels + c, tl.sum(total, 0), mask=c < channels)


@triton.jit
def _conv_mirror_kernel(
    weight,  # [out_channels, taps, in_channels]
    mirrored,  # [in_channels, taps, out_channels]
    out_channels,
    in_channels,
    taps,
    BLOCK: tl.constexpr,
):
    tap = tl.program_id(0)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    i = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = (o < out_channels)[:, None] & (i < in_channels)[None, :]
    tile = tl.load(weight + (o[:, None] * taps + tap) * in_channels + i[None, :], mask=inside)
    inside = (i < in_channels)[:, None] & (o < out_channels)[None, :]
    to = mirrored + (i[:, None] * taps + taps - 1 - tap) * out_channels + o[None, :]
    tl.store(to, tl.trans(tile), mask=inside)


def why_not(x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    """Why `conv2d` cannot take arrays that `akorn.kernels.usable` allows, or None if it can."""
    arrays = [x, weight] if bias is None else [x, weight, bias]
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[1]:
        return f"pictures of shape {list(x.shape)} and a kernel of shape {list(weight.shape)}"
    if weight.shape[2] != weight.shape[3] or weight.shape[2] % 2 == 0:
        return f"a kernel of {weight.shape[2]}×{weight.shape[3]}"
    if not {array.dtype for array in arrays} <= set(DTYPES):
        return f"arrays of {', '.join(str(array.dtype) for array in arrays)}"
    if any(array.device != x.device for array in arrays):
        return "arrays on several devices"
    if x.numel() == 0:
        return "no pictures"
    if not (_last(x) or _last(weight)):
        return "channels first in memory"
    return None


@operator("akorn::conv2d")
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """The convolution of pictures with an odd kernel, padded by its half, for what `why_not` allows.

    Args:
        x: [B, C, H, W], in the type of the weight.
        weight: [C′, C, k, k].
        bias: [C′], or None for 0; it may be of a wider type.
        stride: if it is 1, the size stays.

    Returns: [B, C′, H/stride, W/stride], with channels last in memory.

    """
    y = F.conv2d(x.contiguous(memory_format=LAST), weight.contiguous(memory_format=LAST), None, stride, _margin(weight))
    y = y.contiguous(memory_format=LAST)
    if bias is not None:
        rows, channels, high, wide = _blocks(y, _ADDED)
        with torch.cuda.device_of(y):  # Triton launches on the current device
            _conv_bias_kernel[(triton.cdiv(rows, high), triton.cdiv(channels, wide))](
                y, bias.contiguous(), rows, channels, BLOCK_R=high, BLOCK_C=wide, num_warps=4
            )
    return y


@conv2d.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    height, width = ((side - 1) // stride + 1 for side in x.shape[2:])
    return _empty(x, weight.shape[0], height, width)


@operator("akorn::conv2d_input_gradient")
def input_gradient(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of x at stride 1, from that of y, in the faster of two ways."""
    grad, weight = grad.contiguous(memory_format=LAST), weight.contiguous(memory_format=LAST)
    cudnn = torch.backends.cudnn
    numerics = (cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)  # each changes cuDNN's choice
    # Batches of similar size share a choice: those of attacks shrink picture by picture.
    sizes = (grad.shape[0].bit_length(), *grad.shape[2:], *weight.shape)
    key = ("convolution's input gradient", sizes, str(grad.dtype), *numerics)

    def launch(way: str) -> None:
        WAYS[way](grad, weight)

    return WAYS[best(key, tuple(WAYS), launch, ahead=False)](grad, weight).contiguous(memory_format=LAST)


@input_gradient.register_fake
def _(grad: Tensor, weight: Tensor) -> Tensor:
    return _empty(grad, weight.shape[1], *grad.shape[2:])


@operator("akorn::channel_sums")
def channel_sums(grad: Tensor) -> Tensor:
    """[B, C, H, W] → the sum of each channel, [C], in float32 and always in the same order."""
    grad = grad.contiguous(memory_format=LAST)
    rows, channels, high, wide = _blocks(grad, _SUMMED)
    tiles = triton.cdiv(triton.cdiv(rows, high), _PARTS)
    programs = triton.cdiv(rows, high * tiles)
    parts = grad.new_empty(programs, channels, dtype=torch.float32)
    with torch.cuda.device_of(grad):  # Triton launches on the current device
        _conv_sums_kernel[(programs, triton.cdiv(channels, wide))](
            grad, parts, rows, channels, tiles, BLOCK_R=high, BLOCK_C=wide, num_warps=8
        )
    return parts.sum(0)


@channel_sums.register_fake
def _(grad: Tensor) -> Tensor:
    return grad.new_empty(grad.shape[1], dtype=torch.float32)


def by_library(grad: Tensor, weight: Tensor) -> Tensor:
    """cuDNN's own input gradient."""
    like = grad.new_empty(1).expand(grad.shape[0], weight.shape[1], *grad.shape[2:])  # only its shape is read
    return _library(grad, like, weight, 1, (True, False, False))[0]


def by_mirroring(grad: Tensor, weight: Tensor) -> Tensor:
    """The convolution of the gradient with the mirrored kernel."""
    return _plainly(grad, mirror(weight))


WAYS = {"library": by_library, "mirrored": by_mirroring}
"""The ways to the input gradient; the first if nothing can be timed."""


def mirror(weight: Tensor) -> Tensor:
    """W′: [C, C′, k, k] with channels last in memory, from W [C′, C, k, k] in the same layout."""
    out_channels, in_channels, height, width = weight.shape
    mirrored = _empty(weight, out_channels, height, width, batch=in_channels)
    grid = (height * width, triton.cdiv(out_channels, _SQUARE), triton.cdiv(in_channels, _SQUARE))
    with torch.cuda.device_of(weight):  # Triton launches on the current device
        _conv_mirror_kernel[grid](weight, mirrored, out_channels, in_channels, height * width, _SQUARE, num_warps=4)
    return mirrored


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, ctx.stride = inputs
    ctx.save_for_backward(x, weight)
    ctx.bias_dtype = bias.dtype if bias is not None else None


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    for_x, for_weight, for_bias, _ = ctx.needs_input_grad
    grad_x = input_gradient(grad, weight) if for_x and ctx.stride == 1 else None
    grad_weight = None
    asked = (for_x and grad_x is None, for_weight, False)
    if any(asked):
        left, grad_weight, _ = _library(grad, x, weight, ctx.stride, asked)
        grad_x = left if grad_x is None else grad_x
    return grad_x, grad_weight, channel_sums(grad).to(ctx.bias_dtype) if for_bias else None, None


conv2d.register_autograd(_differentiate, setup_context=_keep)


def _keep_both(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate_again(ctx: Any, grad_x: Tensor) -> tuple[Tensor, Tensor]:
    """The input gradient is linear in both: ⟨h, Wᵀg⟩ = ⟨W h, g⟩, so h takes the place of x."""
    grad, weight = ctx.saved_tensors
    of_weight = _library(grad, grad_x, weight, 1, (False, True, False))[1]
    return _plainly(grad_x, weight), of_weight


input_gradient.register_autograd(_differentiate_again, setup_context=_keep_both)


def _keep_shape(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.shape, ctx.dtype = inputs[0].shape, inputs[0].dtype


def _spread(ctx: Any, grad: Tensor) -> Tensor:
    return grad.to(ctx.dtype)[:, None, None].expand(ctx.shape)


channel_sums.register_autograd(_spread, setup_context=_keep_shape)


def _plainly(x: Tensor, weight: Tensor) -> Tensor:
    """torch's convolution at stride 1 in the given types, without autocast."""
    with torch.autocast(x.device.type, enabled=False):
        return F.conv2d(x, weight, padding=_margin(weight))


def _library(
    grad: Tensor, x: Tensor, weight: Tensor, stride: int, asked: tuple[bool, bool, bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """torch's own gradients of x, the weight and a bias, as far as they are requested."""
    pad, zero = [_margin(weight)] * 2, [0, 0]
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        grad, x, weight, None, [stride] * 2, pad, [1, 1], False, zero, 1, asked
    )
    return found


def _blocks(x: Tensor, elements: int) -> tuple[int, int, int, int]:
    """Pictures as [rows, channels]: their numbers, and those of a tile of this many elements."""
    channels = x.shape[1]
    wide = min(128, triton.next_power_of_2(channels))
    return x.numel() // channels, channels, elements // wide, wide


def _margin(weight: Tensor) -> int:
    return weight.shape[-1] // 2


def _last(x: Tensor) -> bool:
    return x.is_contiguous(memory_format=LAST) and not x.is_contiguous()


def _empty(like: Tensor, channels: int, height: int, width: int, batch: int | None = None) -> Tensor:
    """An empty array with channels last in memory."""
    shape = (like.shape[0] if batch is None else batch, height, width, channels)
    return like.new_empty(shape).permute(0, 3, 1, 2)
