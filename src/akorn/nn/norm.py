"""Norms and per-channel maps: for C before it drives the oscillators, and the baselines' LayerNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.execution import ops
from akorn.execution.ops import per_channel

__all__ = ["ChannelAffine", "GroupNorm", "LayerNorm", "per_channel", "pointwise"]


class GroupNorm(nn.GroupNorm):
    """nn.GroupNorm that also takes tokens [B, tokens, C], with statistics over a group and all tokens.

    With as many groups as oscillators it is the published models' normalisation of C. On a CUDA device with Triton it
    is one fused kernel, forward and backward, which reads tokens and channels-last pictures in place.
    """

    def forward(self, c: Tensor, shift: Tensor | None = None) -> Tensor:
        """[B, tokens, C] or [B, C, H, W] → the same shape; shift: [C], added to the result."""
        return ops.group_norm(c, self.num_groups, self.weight, self.bias, self.eps, shift)


class LayerNorm(nn.LayerNorm):
    """nn.LayerNorm of the last axis. On a CUDA device with Triton it is one fused kernel, forward and backward.

    Args:
        channels: number of channels C.
        narrow: only products follow. Autocast would round the result for them; the fused kernel then returns it
            already rounded, which saves a pass over memory and changes nothing. (Anything added before the products,
            such as absolute positions, is added to the rounded result.)

    """

    def __init__(self, channels: int, *, narrow: bool = False) -> None:
        super().__init__(channels)
        self.narrow = narrow

    def forward(self, x: Tensor) -> Tensor:
        """[..., C] → the same shape."""
        return ops.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps, narrow=self.narrow)


class ChannelAffine(nn.Module):
    """c → scale · c + bias with a scale and a bias for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, c: Tensor) -> Tensor:
        """[B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
        return per_channel(self.scale, c) * c + per_channel(self.bias, c)

    def extra_repr(self) -> str:
        """What print() shows of the module."""
        return str(len(self.scale))


def pointwise(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same linear map of the channels at every position; weight: [out, in]."""
    if osc.channel_axis(x) == -1:
        return F.linear(x, weight, bias)
    return F.conv2d(x, weight[:, :, None, None], bias)
