"""The operations around a step, each fused if kernels can be used and plain otherwise, with the same results.

This module decides for each operation whether kernels can be used: they must be enabled and able to run on the arrays
(`akorn.kernels.usable`), support their shapes and types (`why_not` of the kernel's module) and be worth a launch
(`launches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn import kernels
from akorn import oscillators as osc
from akorn.execution.launches import NORM, convolution_pays, pays


def to_sphere(x: Tensor, n: int) -> Tensor:
    """Π: every oscillator at length 1. [B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
    dim = osc.channel_axis(x)
    if kernels.usable(x):
        from akorn.kernels.sphere import normalise
        from akorn.kernels.update import DTYPES, MAX_N

        if n <= MAX_N and x.dtype in DTYPES:
            osc.check_grouping(x.shape[dim], n)
            return normalise(x, n)
    return osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1) -> Tensor:
    """[B, C, H, W] → [B, C′, H/stride, W/stride] by a square kernel of odd size, with zeros beyond the border.

    For training on a CUDA device with Triton, if x or the weight has its channels last in memory, the gradients come
    from `akorn.kernels.convolution`, which does not support float64.
    """
    arrays = (x, weight) if bias is None else (x, weight, bias)
    wanted = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    if wanted and all(kernels.usable(array) for array in arrays) and convolution_pays(x, weight, stride):
        from akorn.kernels import convolution

        if convolution.why_not(x, weight, bias) is None:
            kind = x.device.type
            if torch.is_autocast_enabled(kind):
                narrow = torch.get_autocast_dtype(kind)
                x, weight = x.to(narrow), weight.to(narrow)
            if x.dtype == weight.dtype:  # otherwise torch reports what is wrong
                return convolution.conv2d(x, weight, bias, stride)
    return F.conv2d(x, weight, bias, stride, weight.shape[-1] // 2)


def group_norm(
    c: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, shift: Tensor | None = None
) -> Tensor:
    """GroupNorm of [B, tokens, C] or [B, C, H, W], plus `shift` [C]; statistics over a group and all positions."""
    fused = kernels.usable(c)
    if fused and (pays(c.numel(), NORM) or _last_only(c)):  # torch's norm would put channels first in memory
        from akorn.kernels import group_norm as fused_norm

        if weight is not None and bias is not None and fused_norm.why_not(c, weight, bias, groups) is None:
            bias = bias if shift is None else bias + shift
            return fused_norm.group_norm(c, weight, bias, groups, eps, norm_dtype(c))[0]
    if c.ndim == 4 and c.device.type == "cpu" and torch.is_grad_enabled() and not c.requires_grad:
        c = c.contiguous()  # with channels last, torch crashes if only weight and bias need gradients
    if c.ndim != 3:
        out = F.group_norm(c, groups, weight, bias, eps)
    else:
        out = F.group_norm(c.transpose(1, 2), groups, weight, bias, eps).transpose(1, 2)
        out = out.contiguous() if fused else out  # otherwise fused steps would reorder it every time
    return out if shift is None else out + per_channel(shift, out)


def _last_only(c: Tensor) -> bool:
    """Whether these are pictures with their channels last in memory."""
    return c.ndim == 4 and c.is_contiguous(memory_format=torch.channels_last) and not c.is_contiguous()


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, *, narrow: bool = False
) -> Tensor:
    """LayerNorm of [..., C]; narrow: under autocast the fused kernel returns autocast's type."""
    if kernels.usable(x) and pays(x.numel(), NORM):
        from akorn.kernels import layer_norm as fused

        if weight is not None and bias is not None and fused.why_not(x, weight, bias) is None:
            return fused.layer_norm(x, weight, bias, eps, narrowed(norm_dtype(x), x) if narrow else norm_dtype(x))[0]
    return F.layer_norm(x, list(shape), weight, bias, eps)


def lengths(
    x: Tensor,
    linear: Callable[[Tensor, Tensor | None], Tensor],
    inner_bias: Tensor,
    bias: Tensor,
    n: int,
    *,
    narrow: bool = False,
) -> Tensor:
    """The readout's ‖z_k‖ + b_k over the N′ = n consecutive channels of each k, z = Ux + a (Eq. 6).

    Args:
        x: the state.
        linear: (x, a) → Ux + a; a may be None.
        inner_bias: a.
        bias: b.
        n: N′.
        narrow: under autocast the result is in autocast's type.

    """
    if all(kernels.usable(array) for array in (x, inner_bias, bias)):
        from akorn.kernels import readout

        if readout.why_not(x, inner_bias, bias, n) is None:
            z = linear(x, None)
            dtype = torch.promote_types(norm_dtype(z), bias.dtype)
            return readout.group_lengths(z, inner_bias, bias, n, narrowed(dtype, z) if narrow else dtype)
    z, dim = linear(x, inner_bias), osc.channel_axis(x)
    m = torch.linalg.vector_norm(z.unflatten(dim, (-1, n)), dim=dim)
    m = m + per_channel(bias, m)
    return m.to(narrowed(m.dtype, m)) if narrow else m


def fused_attention(
    x: Tensor, heads: int, matrices: Callable[[], Sequence[Tensor] | None]
) -> Callable[[Tensor, Tensor | None], Tensor] | None:
    """Attention over tokens [B, tokens, C] between the products with W^QKV and W^O; None if it is not fused.

    Args:
        x: the state.
        heads: number of heads.
        matrices: gives 2×2 matrices for each token and pair of components, [tokens, D/2, 2, 2]: none, those of queries
            and keys, or those of queries, keys, values and outputs; None if more than that is done to them.

    Returns: (queries, keys and values [B, tokens, 3C], their bias) → [B, tokens, C]. The bias has already been added;
    if one is given, its gradient comes from here.

    """
    if not kernels.usable(x):
        return None
    from akorn.kernels import attention

    if not attention.supports(x.shape[1], x.shape[2] // heads, x.dtype) or (pairs := matrices()) is None:
        return None
    return lambda qkv, bias: attention.attend(qkv, pairs, heads, bias)


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """View one value for each channel so that it broadcasts over `like`, in either layout."""
    return values if osc.channel_axis(like) == -1 else values[:, None, None]


def norm_dtype(x: Tensor) -> torch.dtype:
    """The type of torch's norms of x: autocast makes them float32 on CUDA and does not change them on the CPU."""
    narrow = x.dtype in (torch.bfloat16, torch.float16)
    return torch.float32 if narrow and x.is_cuda and torch.is_autocast_enabled("cuda") else x.dtype


def narrowed(dtype: torch.dtype, x: Tensor) -> torch.dtype:
    """Autocast's type instead of this one, if it is on for x."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if dtype != torch.float64 and torch.is_autocast_enabled(kind) else dtype
