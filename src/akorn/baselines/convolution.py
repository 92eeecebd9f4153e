"""Iterative convolution (ItrConv): AKOrN with convolutions, without the Kuramoto update."""

from __future__ import annotations

from torch import Tensor, nn

from akorn.baselines.iterated import IteratedBlock
from akorn.nn import GroupNorm
from akorn.nn.convolution import Conv2d

_GROUPS = 32  # the usual number for GroupNorm; the paper does not give one


class ItrConvBlock(IteratedBlock):
    """T times x ← x + conv(GroupNorm(x)), then once x ← x + MLP(GroupNorm(x)).

    The convolution of all T steps has the same weights; the MLP acts on every position separately and has one hidden
    layer of `expansion` · C with GELU.

    Args:
        channels: number of channels C.
        kernel_size: odd size of the convolution.
        groups: groups of both norms; by default 32, or as many of them as divide the channels.
        expansion: the MLP's hidden channels divided by C.

    """

    def __init__(self, channels: int, kernel_size: int, *, groups: int | None = None, expansion: int = 2) -> None:
        super().__init__()
        groups = next(g for g in range(_GROUPS, 0, -1) if channels % g == 0) if groups is None else groups
        # Our own norm, since torch's converts pictures from channels last to channels first on a GPU, every time.
        self.norm = GroupNorm(groups, channels)
        self.conv = Conv2d(channels, channels, kernel_size)
        self.mlp_norm = GroupNorm(groups, channels)
        self.mlp = nn.Sequential(
            Conv2d(channels, expansion * channels, 1), nn.GELU(), Conv2d(expansion * channels, channels, 1)
        )

    def _iterate(self, x: Tensor) -> Tensor:
        return x + self.conv(self.norm(x))


class ItrConv(nn.Module):
    """Blocks of iterative convolution with the same number of channels.

    Args:
        channels: number of channels C.
        kernel_size: odd size of the convolutions.
        blocks: number of blocks L, each with its own weights.

    """

    def __init__(self, channels: int, kernel_size: int, *, blocks: int = 1) -> None:
        super().__init__()
        if blocks < 1:
            raise ValueError(f"at least one block is needed, got blocks={blocks}")
        self.blocks = nn.ModuleList(ItrConvBlock(channels, kernel_size) for _ in range(blocks))

    def forward(self, x: Tensor, steps: int) -> Tensor:
        """[B, C, H, W] → the same shape, with `steps` steps of convolution in each block."""
        for block in self.blocks:
            x = block(x, steps)
        return x
