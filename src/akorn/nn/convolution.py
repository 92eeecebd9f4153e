"""The convolution of pictures that layers use: torch's, or on a GPU one whose backward pass is quicker."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import kernels


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1) -> Tensor:
    """[B, C, H, W] → [B, C′, H/stride, W/stride] by a square kernel of odd size, with zeros beyond the border.

    For training on a CUDA device with Triton, where x or the weight has its channels last in memory, the gradients
    come from `akorn.kernels.convolution`. That knows no float64.
    """
    arrays = (x, weight) if bias is None else (x, weight, bias)
    wanted = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    if wanted and all(kernels.usable(array) for array in arrays):
        from akorn.kernels import convolution

        if convolution.why_not(x, weight, bias) is None:
            kind = x.device.type
            if torch.is_autocast_enabled(kind):
                narrow = torch.get_autocast_dtype(kind)
                x, weight = x.to(narrow), weight.to(narrow)
            if x.dtype == weight.dtype:  # else torch says what is wrong
                return convolution.conv2d(x, weight, bias, stride)
    return F.conv2d(x, weight, bias, stride, weight.shape[-1] // 2)


class Conv2d(nn.Conv2d):
    """nn.Conv2d with a square kernel of odd size, padded by its half, computed by `conv2d`."""

    def __init__(self, channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> None:
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"the kernel must have an odd size, got {kernel_size}")
        super().__init__(channels, out_channels, kernel_size, stride, padding=kernel_size // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] → [B, C′, H/stride, W/stride]."""
        return conv2d(x, self.weight, self.bias, self.stride[0])
