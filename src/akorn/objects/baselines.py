"""The paper's baselines for object discovery: ItrSA, ItrConv and ViT, with the models' interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from akorn.baselines import ItrConv, ItrConvBlock, ItrSA, ItrSABlock, Transformer
from akorn.objects.config import ItrConvConfig, ItrSAConfig, ViTConfig
from akorn.objects.net import ObjectsNet, States, as_tokens


class _Baseline(ObjectsNet):
    """Patches, and a body of iterated blocks. The start is not random: `generator` has no effect."""

    config: ItrSAConfig | ItrConvConfig | ViTConfig
    body: ItrSA | ItrConv

    def compile_step(self, **options: object) -> None:
        """Compile one step of each block."""
        self.compiled = True
        for block in self._blocks:
            block.compile_step(**options)

    def _iterate(self, x: Tensor, steps: int, states: States | None) -> Tensor:
        """All blocks; x: [B, tokens, C] or [B, C, h, w]."""
        for block in self._blocks:
            iterate: Callable[[Tensor], Tensor] = block.iterate
            seen = [x]
            for _ in range(steps):
                if self.config.recompute and self.training and torch.is_grad_enabled():
                    # A step draws no random numbers, so no generator state has to be saved and restored.
                    x = checkpoint(iterate, x, use_reentrant=False, preserve_rng_state=False)
                else:
                    x = iterate(x)
                if states is not None:
                    seen.append(x)
            if states is not None:
                states.append(seen)
            x = block.finish(x)
        return x

    @property
    def _blocks(self) -> Sequence[ItrSABlock | ItrConvBlock]:
        return cast("Sequence[ItrSABlock | ItrConvBlock]", list(self.body.blocks))


class _Attentive(_Baseline):
    """Patches as tokens."""

    body: ItrSA

    def _run(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        return self.body.norm(self._iterate(self.body.prepare(as_tokens(c)), steps, states))


class ItrSAObjects(_Attentive):
    """ItrSA: patches as tokens with absolute positions, blocks of T attentions and an MLP."""

    architecture = ItrSAConfig.architecture

    def __init__(self, config: ItrSAConfig | None = None) -> None:
        config = config if config is not None else ItrSAConfig()
        super().__init__(config)
        self.body = ItrSA(
            config.channels,
            config.heads,
            grid=self.grid,
            blocks=config.blocks,
            position=config.position,
            norm=config.final_norm,
        )


class ViTObjects(_Attentive):
    """A ViT, which is an ItrSA of one step per block."""

    architecture = ViTConfig.architecture

    def __init__(self, config: ViTConfig | None = None) -> None:
        config = config if config is not None else ViTConfig()
        super().__init__(config)
        self.body = Transformer(
            config.channels,
            config.heads,
            grid=self.grid,
            blocks=config.blocks,
            position=config.position,
            norm=config.final_norm,
        )


class ItrConvObjects(_Baseline):
    """ItrConv: blocks of T convolutions of the patches and an MLP."""

    architecture = ItrConvConfig.architecture

    def __init__(self, config: ItrConvConfig | None = None) -> None:
        config = config if config is not None else ItrConvConfig()
        super().__init__(config)
        self.body = ItrConv(config.channels, config.kernel, blocks=config.blocks)

    def _run(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        return self._iterate(c, steps, states)
