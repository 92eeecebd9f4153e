"""The exponential moving average of a model's weights."""

import copy

import torch
from torch import Tensor, nn

from akorn.engine.config import EmaConfig


class Ema:
    """A second model whose weights follow the first: ema ← decay · ema + (1 − decay) · weights.

    The first copy is taken after step `after`, updates follow at the multiples of `every`. Buffers (the running
    statistics of BatchNorm) are averaged as the weights are; whole numbers are copied.
    """

    def __init__(self, model: nn.Module, config: EmaConfig) -> None:
        self.config = config
        self.started = False
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights that `step` finished steps have led to."""
        if step < self.config.after:
            return
        if step == self.config.after or not self.started:
            self.copy(model)
            self.started = True
        elif step % self.config.every == 0:
            ours, theirs = self._pairs(model, floating=True)
            torch._foreach_lerp_(ours, theirs, 1.0 - self.config.decay)
            self._copy(model, floating=False)

    @torch.no_grad()
    def copy(self, model: nn.Module) -> None:
        """Make the average equal to the model."""
        for floating in (True, False):
            self._copy(model, floating)

    def _copy(self, model: nn.Module, floating: bool) -> None:
        ours, theirs = self._pairs(model, floating)
        if ours:
            torch._foreach_copy_(ours, theirs)

    def _pairs(self, model: nn.Module, floating: bool) -> tuple[list[Tensor], list[Tensor]]:
        ours, theirs = [], []
        for a, b in zip(tensors(self.model), tensors(model), strict=True):
            if a.is_floating_point() == floating:
                ours.append(a)
                theirs.append(b.detach())
        return ours, theirs


def tensors(model: nn.Module) -> list[Tensor]:
    """Return every parameter and buffer once, in a fixed order."""
    return [*model.parameters(), *model.buffers()]
