"""The readout: from the oscillators' directions to new conditional stimuli (Eq. 6)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from akorn.execution import ops
from akorn.nn.checks import check_tensor, whole_number
from akorn.nn.norm import per_channel, pointwise
from akorn.oscillators import channel_axis


class Readout(nn.Module):
    """C = g(m) with m_k = ‖z_k‖ + b_k and z_k = Σᵢ U_ki xᵢ + a_k ∈ R^N′ (Eq. 6, with biases).

    The norm does not change when all oscillators rotate together, so m sees only relative directions. On a CUDA device
    with Triton, norm and biases are one fused kernel, forward and backward, which stores only z (`akorn.kernels`).

    Args:
        channels: channels C of the state.
        out_channels: K, the number of values m_k; by default `channels`.
        n_out: N′, the size of z_k; by default 4.
        g: any module applied to m; None for the identity.
        kernel_size: 1, or the odd size of a convolution for U (pictures only).
        narrow: under autocast m has autocast's type instead of float32, and so has everything in g: half the bytes,
            as in residual networks trained under autocast.

    """

    def __init__(
        self,
        channels: int,
        out_channels: int | None = None,
        *,
        n_out: int = 4,
        g: nn.Module | None = None,
        kernel_size: int = 1,
        narrow: bool = False,
    ) -> None:
        super().__init__()
        channels, n_out = whole_number("channels", channels), whole_number("n_out", n_out)
        kernel_size = whole_number("kernel_size", kernel_size)
        if kernel_size % 2 == 0:
            raise ValueError(f"the kernel must have an odd size, got {kernel_size}")
        self.channels = channels
        self.out_channels = channels if out_channels is None else whole_number("out_channels", out_channels)
        self.n_out = n_out
        self.kernel_size = kernel_size
        self.narrow = narrow
        fan_in = channels * kernel_size**2
        rows = self.out_channels * n_out
        bound = 1 / math.sqrt(fan_in)
        self.weight = nn.Parameter(torch.empty(rows, channels, kernel_size, kernel_size).uniform_(-bound, bound))
        self.inner_bias = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(self.out_channels))
        self.g = g if g is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[B, C], [B, tokens, C] or [B, C, H, W] → g of the same with K channels."""
        check_tensor("x", x)
        width = x.shape[channel_axis(x)]
        if width != self.channels:
            raise ValueError(f"the readout has {self.channels} channels, but x of shape {list(x.shape)} has {width}")
        return self.g(self.measure(x))

    def measure(self, x: Tensor) -> Tensor:
        """‖z_k‖ + b_k over the N′ consecutive channels of each k."""
        return ops.lengths(x, self._map, self.inner_bias, self.bias, self.n_out, narrow=self.narrow)

    def _map(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Ux, with a if it is given as the bias: K·N′ channels."""
        if self.kernel_size == 1:
            return pointwise(x, self.weight[:, :, 0, 0], bias)
        if x.ndim != 4:
            raise ValueError(f"a readout with a {self.kernel_size}×{self.kernel_size} kernel takes pictures"
                             f" [B, C, H, W], got shape {list(x.shape)}")  # fmt: skip
        return ops.conv2d(x, self.weight, bias)

    def extra_repr(self) -> str:
        """What print() shows for the readout itself."""
        return f"{self.channels} → {self.out_channels}, n_out={self.n_out}, kernel_size={self.kernel_size}"


class LinearReadout(Readout):
    """C = g(z), without the norm: the paper's ablation of m (Figure 17). Every z_k is one number."""

    def __init__(
        self,
        channels: int,
        out_channels: int | None = None,
        *,
        g: nn.Module | None = None,
        kernel_size: int = 1,
        narrow: bool = False,
    ) -> None:
        super().__init__(channels, out_channels, n_out=1, g=g, kernel_size=kernel_size, narrow=narrow)

    def measure(self, x: Tensor) -> Tensor:
        """z + b."""
        z = self._map(x, self.inner_bias)
        z = z + per_channel(self.bias, z)
        return z.to(ops.narrowed(z.dtype, z)) if self.narrow else z
