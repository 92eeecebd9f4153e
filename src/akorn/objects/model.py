"""AKOrN for object discovery, and `build`, which creates any of the models from its config."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from akorn import nn as akn
from akorn.objects.baselines import ItrConvObjects, ItrSAObjects, ViTObjects
from akorn.objects.config import ARCHITECTURES, AkornConfig, AkornConvConfig, ModelConfig
from akorn.objects.net import ObjectsNet, States, as_tokens

__all__ = [
    "AkornConvObjects",
    "AkornObjects",
    "ItrConvObjects",
    "ItrSAObjects",
    "ModelConfig",
    "ObjectsNet",
    "ViTObjects",
    "build",
]


class _Kuramoto(ObjectsNet):
    """What both kinds of AKOrN share: C⁰ are the patches, X⁰ is random on the sphere, and C^(L) are the features.

    Every block runs T steps of its layer and reads out C = m: g is the identity. C is normalised in front of a block
    (one group per oscillator), in front of the first one only if the config says so; C^(L) never is.
    """

    random_start = True
    config: AkornConfig | AkornConvConfig

    def __init__(self, config: AkornConfig | AkornConvConfig, coupling: Callable[[], nn.Module]) -> None:
        super().__init__(config)
        self.start = akn.RandomStart(config.n)
        self.blocks = nn.ModuleList(
            _block(config, coupling(), norm=config.norm_c or index > 0) for index in range(config.blocks)
        )

    def compile_step(self, **options: object) -> None:
        """Compile one Kuramoto step of each block."""
        self.compiled = True
        for block in self.blocks:
            cast(akn.KuramotoBlock, block).layer.compile_step(**options)

    def _evolve(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        x = self.start(c, generator)
        on_sphere = True
        for block in cast("list[akn.KuramotoBlock]", list(self.blocks)):
            evolution, c = block.evolve(x, c, steps, trajectory=states is not None, on_sphere=on_sphere)
            x, on_sphere = evolution.x, block.layer.rule.on_sphere
            if states is not None and evolution.trajectory is not None:
                states.append(list(evolution.trajectory))
        return c


class AkornObjects(_Kuramoto):
    """AKOrN with attention over the patches."""

    architecture = AkornConfig.architecture

    def __init__(self, config: AkornConfig | None = None) -> None:
        settings = config if config is not None else AkornConfig()
        side = settings.image_size // settings.patch
        super().__init__(settings, lambda: _attention(settings, (side, side)))
        self.place = akn.AbsolutePosition(self.grid, settings.channels) if settings.position == "absolute" else None

    def _run(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        c = as_tokens(c)
        return self._evolve(c if self.place is None else self.place(c), steps, generator, states)


class AkornConvObjects(_Kuramoto):
    """AKOrN with convolutions over the patches."""

    architecture = AkornConvConfig.architecture

    def __init__(self, config: AkornConvConfig | None = None) -> None:
        settings = config if config is not None else AkornConvConfig()
        super().__init__(settings, lambda: akn.ConvCoupling(settings.channels, settings.kernel))

    def _run(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        return self._evolve(c, steps, generator, states)


def build(config: ModelConfig) -> ObjectsNet:
    """The model that a config describes, freshly initialised."""
    model: ObjectsNet = ARCHITECTURES.build(config)
    return model


def _attention(config: AkornConfig, grid: tuple[int, int]) -> akn.AttentionCoupling:
    position: akn.Position | None = None  # GTA, which comes with the grid
    if config.position in ("rotary", "learned-rotary"):
        learn = config.position == "learned-rotary"
        position = akn.RotaryPosition(grid, config.channels // config.heads, learn=learn)
    return akn.AttentionCoupling(
        config.channels, config.heads, grid=grid if config.position != "absolute" else None, position=position
    )


def _block(config: AkornConfig | AkornConvConfig, coupling: nn.Module, *, norm: bool) -> akn.KuramotoBlock:
    channels, n = config.channels, config.n
    rules: dict[str, Callable[[], akn.UpdateRule]] = {
        "kuramoto": akn.Kuramoto,
        "without-projection": akn.WithoutProjection,
        "residual": akn.Residual,
    }
    layer = akn.KuramotoLayer(
        channels,
        n,
        coupling,
        gamma=config.gamma,
        rule=rules[config.rule](),
        stimulus=akn.GroupNorm(channels // n, channels) if norm else None,
        bias=True,
        gradients=akn.Recompute() if config.recompute else akn.Store(),
    )
    return akn.KuramotoBlock(layer, akn.Readout(channels, n_out=n))  # the paper sets N′ to N
