"""The convolution of pictures in layers: torch's, or on a GPU one with a faster backward pass."""

from __future__ import annotations

from torch import Tensor, nn

from akorn.execution.ops import conv2d

__all__ = ["Conv2d", "conv2d"]


class Conv2d(nn.Conv2d):
    """nn.Conv2d with a square kernel of odd size, padded by half its size, computed by `conv2d`."""

    def __init__(self, channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> None:
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"the kernel must have an odd size, got {kernel_size}")
        super().__init__(channels, out_channels, kernel_size, stride, padding=kernel_size // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] → [B, C′, H/stride, W/stride]."""
        return conv2d(x, self.weight, self.bias, self.stride[0])
