"""Norms and per-channel maps: what may be done to C before it drives the oscillators, and the baselines' LayerNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import kernels
from akorn import oscillators as osc


class GroupNorm(nn.GroupNorm):
    """nn.GroupNorm that also takes tokens [B, tokens, C], with statistics over a group and all tokens.

    With as many groups as oscillators it is the published models' normalisation of C. On a CUDA device with Triton it
    is one fused kernel, forward and backward, which reads tokens and channels-last pictures where they lie.
    """

    def forward(self, c: Tensor, shift: Tensor | None = None) -> Tensor:
        """[B, tokens, C] or [B, C, H, W] → the same shape; shift: [C], added to the result on the way."""
        fused = kernels.usable(c)
        if fused:
            from akorn.kernels import norm

            if norm.why_not(c, self.weight, self.bias, self.num_groups) is None:
                bias = self.bias if shift is None else self.bias + shift
                return norm.group_norm(c, self.weight, bias, self.num_groups, self.eps, autocast_dtype(c))[0]
        if c.ndim == 4 and c.device.type == "cpu" and torch.is_grad_enabled() and not c.requires_grad:
            c = c.contiguous()  # with channels last, torch's gradients of weight and bias alone end the process
        if c.ndim != 3:
            out = super().forward(c)
        else:
            out = super().forward(c.transpose(1, 2)).transpose(1, 2)
            out = out.contiguous() if fused else out  # fused steps would otherwise bring it in order every time
        return out if shift is None else out + per_channel(shift, out)


class LayerNorm(nn.LayerNorm):
    """nn.LayerNorm of the last axis. On a CUDA device with Triton it is one fused kernel, forward and backward.

    Args:
        channels: number of channels C.
        narrow: what follows are products alone. Autocast would round the result for them; the fused kernel then gives
            it rounded already, which saves a pass over memory and changes nothing. (Where something is added before
            the products, such as absolute positions, it is added to the rounded result.)

    """

    def __init__(self, channels: int, *, narrow: bool = False) -> None:
        super().__init__(channels)
        self.narrow = narrow

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] → the same shape."""
        if kernels.usable(x):
            from akorn.kernels import layer_norm

            if layer_norm.why_not(x, self.weight, self.bias) is None:
                kind, dtype = x.device.type, autocast_dtype(x)
                if self.narrow and dtype != torch.float64 and torch.is_autocast_enabled(kind):
                    dtype = torch.get_autocast_dtype(kind)
                return layer_norm.layer_norm(x, self.weight, self.bias, self.eps, dtype)[0]
        return super().forward(x)


class ChannelAffine(nn.Module):
    """c → scale · c + bias with a scale and a bias for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, c: Tensor) -> Tensor:
        """[B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
        return per_channel(self.scale, c) * c + per_channel(self.bias, c)


def per_channel(values: Tensor, like: Tensor) -> Tensor:
    """View one value a channel so that it broadcasts over `like`, in either layout."""
    return values if osc.channel_axis(like) == -1 else values[:, None, None]


def pointwise(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same linear map of the channels at every position; weight: [out, in]."""
    if osc.channel_axis(x) == -1:
        return F.linear(x, weight, bias)
    return F.conv2d(x, weight[:, :, None, None], bias)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The type of torch's norms of x: autocast on CUDA makes them float32, on the CPU it leaves them alone."""
    narrow = x.dtype in (torch.bfloat16, torch.float16)
    return torch.float32 if narrow and x.is_cuda and torch.is_autocast_enabled("cuda") else x.dtype
