"""The convolution of a coupling in five ways, so that the best can be chosen from measurement.

All compute y_{c,h,w} = Σ J_{c,d,h′,w′} x_{d,h+h′,w+w′} with zeros beyond the border, as `ConvCoupling` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.bench.parts import MODES, PICTURES
from akorn.bench.work import Form, Inputs, Piece
from akorn.nn import ConvCoupling
from akorn.nn.convolution import conv2d


def by_library(x: Tensor, weight: Tensor) -> Tensor:
    """cuDNN's (or oneDNN's) convolution, channels first in memory."""
    return F.conv2d(x.contiguous(), weight.contiguous(), padding=weight.shape[-1] // 2)


def by_library_channels_last(x: Tensor, weight: Tensor) -> Tensor:
    """The same with channels last in memory."""
    last = torch.channels_last
    return F.conv2d(
        x.contiguous(memory_format=last), weight.contiguous(memory_format=last), padding=weight.shape[-1] // 2
    )


def by_layer(x: Tensor, weight: Tensor) -> Tensor:
    """As layers do it, channels last in memory: on a GPU with the faster of two input gradients."""
    return conv2d(x.contiguous(memory_format=torch.channels_last), weight.contiguous(memory_format=torch.channels_last))


def by_fft(x: Tensor, weight: Tensor) -> Tensor:
    """Products of Fourier transforms: [frequencies, B, C] · [frequencies, C, C′]; float32 at least."""
    height, width = x.shape[-2:]
    margin = weight.shape[-1] // 2
    wide = x.dtype if x.dtype == torch.float64 else torch.float32
    sizes = [_fast(length + 2 * margin) for length in (height, width)]
    with torch.autocast(x.device.type, enabled=False):
        signal = torch.fft.rfft2(x.to(wide), s=sizes)  # [B, C, H′, W′]
        filters = torch.fft.rfft2(weight.to(wide), s=sizes).conj()  # a correlation: the kernel is not flipped
        shape = signal.shape[-2:]
        left = signal.flatten(2).permute(2, 0, 1)  # [frequencies, B, C]
        right = filters.flatten(2).permute(2, 1, 0)  # [frequencies, C, C′]
        out = (left @ right).permute(1, 2, 0).unflatten(2, shape)
        full = torch.fft.irfft2(out, s=sizes)  # place h holds Σ x_{h+h′}, h′ from 0: shifted by the margin
    return full.roll((margin, margin), (-2, -1))[..., :height, :width].to(x.dtype)


def by_unfolding(x: Tensor, weight: Tensor) -> Tensor:
    """One product of all patches, [B, C k², H W], with the kernel."""
    patches = F.unfold(x, weight.shape[-2:], padding=weight.shape[-1] // 2)
    return (weight.flatten(1) @ patches).unflatten(-1, x.shape[-2:])


WAYS = {
    "nchw": by_library,
    "channels-last": by_library_channels_last,
    "layer": by_layer,
    "fft": by_fft,
    "unfold": by_unfolding,
}


def convolutions(size: str, device: torch.device, itemsize: int, compiled: bool) -> Iterator[Piece]:
    """Kernels 9, 7 and 5 at the sizes of the CIFAR-10 model's blocks."""

    def form(way: str) -> Form:
        def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
            assert isinstance(net, ConvCoupling)
            return WAYS[way](inputs[0], net.weight)

        return Form(forward, kernels=way == "layer" and device.type == "cuda")

    for (batch, channels, side, kernel, n), mode in product(PICTURES[size], MODES):
        net = ConvCoupling(channels, kernel).to(device)
        inputs = (torch.randn(batch, channels, side, side, device=device, requires_grad=mode == "training"),)
        traffic = (2.0 * inputs[0].numel() + net.weight.numel()) * itemsize * (3 if mode == "training" else 1)
        shape = f"{batch}×{channels}×{side}×{side}"
        forms = {way: form(way) for way in WAYS}
        yield Piece("convolution", f"kernel {kernel}", shape, n, 1, mode, net, inputs, forms, traffic)


def _fast(length: int) -> int:
    """The next length without prime factors above 5, and even: for these the transform is fast."""
    while True:
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1 and length % 2 == 0:
            return length
        length += 1
