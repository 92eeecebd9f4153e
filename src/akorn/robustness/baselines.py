"""What the paper compares AKOrN with on CIFAR-10: ItrConv, ResNet-18 and a ViT, with the models' interface."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from akorn.baselines.convolution import ItrConvBlock
from akorn.baselines.resnet import ResNet
from akorn.baselines.vit import ViT
from akorn.nn.convolution import Conv2d
from akorn.robustness.config import ItrConvConfig, ResNetConfig, ViTConfig, check
from akorn.robustness.net import CifarNet


class ItrConvNet(CifarNet):
    """AKOrN-conv with each block replaced by an ItrConv block: the same channels, kernels, steps and strides."""

    architecture = ItrConvConfig.architecture

    def __init__(self, config: ItrConvConfig | None = None) -> None:
        config = config if config is not None else ItrConvConfig()
        check(config)
        super().__init__(config, config.channels[-1])
        channels = config.channels
        self.stem = Conv2d(3, channels[0], 3)
        self.blocks = nn.ModuleList(ItrConvBlock(c, k) for c, k in zip(channels, config.kernels, strict=True))
        self.transitions = nn.ModuleList(Conv2d(a, b, 3, 2) for a, b in pairwise(channels))
        self._steps = config.steps

    def _look(self, pixels: Tensor, generator: torch.Generator | None, seed: int | None) -> Tensor:
        """[B, 3, H, W] → [B, C, H/4, W/4]; there is nothing to draw."""
        x = self.stem(pixels)
        for index, (block, steps) in enumerate(zip(self.blocks, self._steps, strict=True)):
            if index:
                x = self.transitions[index - 1](x)
            x = block(x, steps)
        return x


class ResNetNet(CifarNet):
    """ResNet-18; if its config says so, it adds noise to its pictures, which makes it a random model like AKOrN."""

    architecture = ResNetConfig.architecture

    def __init__(self, config: ResNetConfig | None = None) -> None:
        config = config if config is not None else ResNetConfig()
        check(config)
        super().__init__(config, config.width * 2 ** (len(config.blocks) - 1))
        self.body = ResNet(config.width, config.blocks)
        self._scale = 2 * (config.noise or 0.0)  # pixels are from −1 to 1 by then

    @property
    def random_start(self) -> bool:
        """Whether it adds noise, and no seed was fixed."""
        return self._scale > 0 and self.fixed_start is None

    def _look(self, pixels: Tensor, generator: torch.Generator | None, seed: int | None) -> Tensor:
        """[B, 3, H, W] → [B, C, H/8, W/8]."""
        if self._scale:
            noise = _normal(pixels, generator) if seed is None else self._one_start(pixels, seed, _normal)
            pixels = pixels + self._scale * noise
        return self.body(pixels)


def _normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)


class ViTNet(CifarNet):
    """A ViT as in the paper: patches, positions, blocks of attention and MLP."""

    architecture = ViTConfig.architecture

    def __init__(self, config: ViTConfig | None = None) -> None:
        config = config if config is not None else ViTConfig()
        check(config)
        super().__init__(config, config.channels)
        self.body = ViT(
            config.size, config.patch, config.channels, config.heads, blocks=config.blocks, norm=config.final_norm
        )

    def _look(self, pixels: Tensor, generator: torch.Generator | None, seed: int | None) -> Tensor:
        """[B, 3, H, W] → [B, C, H/patch, W/patch]; there is nothing to draw."""
        return self.body(pixels)
