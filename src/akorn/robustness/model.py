"""AKOrN for CIFAR-10, and `build`, which makes any of the CIFAR models from its config."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.nn.convolution import Conv2d
from akorn.robustness.baselines import ItrConvNet, ResNetNet, ViTNet
from akorn.robustness.config import ARCHITECTURES, AkornConfig, ModelConfig, check
from akorn.robustness.net import CifarNet

__all__ = ["AkornNet", "CifarNet", "ItrConvNet", "ModelConfig", "ResNetNet", "ViTNet", "WithoutNormalisation", "build"]


class AkornNet(CifarNet):
    """AKOrN-conv and AKOrN-mix: blocks of a Kuramoto layer and a readout, each at half the resolution of the one
    before.

    C⁰ is a 3×3 convolution of the picture. The oscillators X⁰ start at a random place on the sphere, one draw per
    picture, unless the config says otherwise. C of the last block is averaged over all positions and mapped to the
    classes.
    """

    architecture = AkornConfig.architecture

    def __init__(self, config: AkornConfig | None = None) -> None:
        config = config if config is not None else AkornConfig()
        check(config)
        super().__init__(config, config.channels[-1])
        self.stem = Conv2d(3, config.channels[0], 3)
        self.start = _start(config)
        self.body = _body(config)
        self._steps = config.steps

    @property
    def random_start(self) -> bool:
        """Whether the oscillators start at random, and no seed was fixed."""
        return isinstance(self.start, akn.RandomStart) and self.fixed_start is None

    def _look(self, pixels: Tensor, generator: torch.Generator | None, seed: int | None) -> Tensor:
        """[B, 3, H, W] → C of the last block, [B, C, H/4, W/4]."""
        c = self.stem(pixels)  # [B, C, H, W]
        if self.start is None:  # one stream: the picture is the state
            x = c
        elif seed is not None and isinstance(self.start, akn.RandomStart):
            x = self._one_start(c, seed, self.start)
        else:
            x = self.start(c, generator)
        return self.body(x, c, self._steps)[1]

    def compile_step(self, **options: object) -> None:
        """Compile one Kuramoto step of each block."""
        for module in self.modules():
            if isinstance(module, akn.KuramotoLayer):
                module.compile_step(**options)


def build(config: ModelConfig) -> CifarNet:
    """The model that a config describes, freshly initialised."""
    model: CifarNet = ARCHITECTURES.build(config)
    return model


class WithoutNormalisation(akn.UpdateRule):
    """x′ = x + γ (Ωx + Proj(Jx + c)), Proj on the tangent space at x/‖x‖: the paper's ablation of Π alone."""

    def start(self, x: Tensor, dim: int) -> Tensor:
        """The state as it is: this rule does not keep it on the sphere."""
        return x

    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state, of any length."""
        delta = osc.project(force, osc.normalize(x, dim), dim)
        return x + gamma * (delta if rotation is None else delta + rotation)


_RULES: dict[str, Callable[[], akn.UpdateRule]] = {
    "kuramoto": akn.Kuramoto,
    "without-projection": akn.WithoutProjection,
    "without-normalisation": WithoutNormalisation,
    "residual": akn.Residual,
}


class OneStream(nn.Module):
    """Blocks without C: every layer runs undriven, and its readout, downsampled, is the next layer's first state."""

    def __init__(self, blocks: Sequence[akn.KuramotoBlock], transitions: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.transitions = nn.ModuleList(transitions)

    def forward(self, x: Tensor, c: Tensor, steps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """X⁰ (c is not looked at) → the last state and its readout."""
        for index, (block, count) in enumerate(zip(self.blocks, steps, strict=True)):
            if index:
                x = self.transitions[index - 1](c)
            x, c = block(x, torch.zeros_like(x), count)
        return x, c


class StackedLayers(nn.Module):
    """Kuramoto layers alone, without C, and one readout after the last (Figure 17)."""

    def __init__(
        self, layers: Sequence[akn.KuramotoLayer], transitions: Sequence[nn.Module], readout: nn.Module
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.transitions = nn.ModuleList(transitions)
        self.readout = readout

    def forward(self, x: Tensor, c: Tensor, steps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """X⁰ (c is not looked at) → the last state and its readout."""
        for index, (layer, count) in enumerate(zip(self.layers, steps, strict=True)):
            if index:
                x = self.transitions[index - 1](x)
            x = layer(x, torch.zeros_like(x), count)
        return x, self.readout(x)


class _NormReluConv(nn.Sequential):
    """BatchNorm, ReLU, 3×3 convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__(nn.BatchNorm2d(channels), nn.ReLU(), Conv2d(channels, channels, 3))


class _Residual(nn.Module):
    """m plus the result of applying BatchNorm, ReLU and a 3×3 convolution to m twice."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(_NormReluConv(channels), _NormReluConv(channels))

    def forward(self, m: Tensor) -> Tensor:
        return m + self.inside(m)


def _start(config: AkornConfig) -> akn.Start | None:
    if config.wiring != "two-streams":
        return None
    if config.start == "random":
        return akn.RandomStart(config.n)
    if config.start == "stimulus":
        return akn.FromStimulus(config.n)
    return akn.LearnedStart(config.n, config.channels[0])


def _body(config: AkornConfig) -> nn.Module:
    count = len(config.channels)
    layers = [_layer(config, index) for index in range(count)]
    pairs = list(pairwise(config.channels))
    if config.wiring == "two-streams":
        blocks = [akn.KuramotoBlock(layer, _readout(config, layer.channels)) for layer in layers]
        return akn.KuramotoStack(blocks, transitions=[akn.Transition(a, b) for a, b in pairs])
    down = [Conv2d(a, b, 3, 2) for a, b in pairs]
    if config.wiring == "without-c":
        blocks = [akn.KuramotoBlock(layer, _readout(config, layer.channels)) for layer in layers]
        return OneStream(blocks, down)
    return StackedLayers(layers, down, _readout(config, config.channels[-1]))


def _layer(config: AkornConfig, index: int) -> akn.KuramotoLayer:
    channels, n = config.channels[index], config.n
    coupling: nn.Module
    if config.attention and index == len(config.channels) - 1:
        side = config.size // 2**index
        coupling = akn.AttentionCoupling(channels, config.heads, grid=(side, side))
    else:
        coupling = akn.ConvCoupling(channels, config.kernels[index])
    omega: nn.Module | None = None
    if config.omega:  # for an odd N, which has no pairs, any antisymmetric matrix, also shared
        omega = akn.NaturalFrequency(n) if n % 2 else akn.PairwiseFrequency(n, init=1.0)
    driven = config.wiring == "two-streams"
    through = akn.Recompute() if config.recompute else akn.Store()
    return akn.KuramotoLayer(
        channels,
        n,
        coupling,
        omega=omega,
        gamma=config.gamma,
        learn_gamma=config.learn_gamma,
        rule=_RULES[config.rule](),
        stimulus=akn.GroupNorm(channels // n, channels) if driven else None,
        bias=True,
        gradients=through if config.gradient_steps is None else akn.LastSteps(config.gradient_steps, through),
    )


def _readout(config: AkornConfig, channels: int) -> nn.Module:
    g: nn.Module
    if config.g == "residual":
        g = nn.Sequential(_Residual(channels), _NormReluConv(channels))
    else:
        g = _NormReluConv(channels)
    if config.readout == "linear":
        return akn.LinearReadout(channels, g=g, kernel_size=3, narrow=True)
    return akn.Readout(channels, n_out=config.n_out, g=g, kernel_size=3, narrow=True)
