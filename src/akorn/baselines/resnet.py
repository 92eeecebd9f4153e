"""ResNet-18 for small pictures: a 3×3 stem of stride 1, without max-pooling."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class ResidualBlock(nn.Module):
    """ReLU(x + BN(conv(ReLU(BN(conv(x)))))), with 1×1 convolution and BN on x if its shape changes."""

    def __init__(self, channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] → [B, C′, H/stride, W/stride]."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network of stages: each but the first halves the resolution and doubles the channels.

    The defaults are ResNet-18, without a head.

    Args:
        width: channels of the stem and of the first stage.
        blocks: residual blocks of each stage.

    """

    def __init__(self, width: int = 64, blocks: Sequence[int] = (2, 2, 2, 2)) -> None:
        super().__init__()
        if width < 1 or not blocks or min(blocks) < 1:
            raise ValueError(f"width and every stage's blocks must be at least 1, got {width} and {tuple(blocks)}")
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        stages: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            out = width * 2**stage
            first = ResidualBlock(channels, out, stride=2 if stage else 1)
            stages.append(nn.Sequential(first, *(ResidualBlock(out, out) for _ in range(count - 1))))
            channels = out
        self.stages = nn.Sequential(*stages)
        self.out_channels = channels
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al.: preserves the variance of the signal through ReLU
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → features [B, out_channels, H/2^(stages − 1), W/2^(stages − 1)]."""
        return self.stages(self.stem(images))
