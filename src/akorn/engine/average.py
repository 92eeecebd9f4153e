"""The exponential moving average of a model's weights, on torch's `AveragedModel`."""

import math

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from akorn.engine.config import EmaConfig

_Tensors = tuple[Tensor, ...] | list[Tensor]


class Average:
    """A second model whose weights follow the first: average ← d · average + (1 − d) · weights.

    The first copy is taken after step `after`; updates follow at multiples of `every`. At training step s after the
    first copy d = min(decay, 1 − (1 + s)^(−2/3)), so that a short run soon forgets its first copy; without `warmup` it
    is `decay` from the beginning. With `final` the decay grows to it along half a cosine over the run's `steps`.
    Buffers (the running statistics of BatchNorm) are averaged like the weights; whole numbers are copied.
    """

    def __init__(self, model: nn.Module, config: EmaConfig, steps: int = 0) -> None:
        self.config, self.steps = config, steps
        self._decay = config.decay
        self._averaged = AveragedModel(model, multi_avg_fn=self._mix, use_buffers=True)
        self._averaged.eval().requires_grad_(False)
        self.started = config.after == 0  # the initial weights are the first copy

    @property
    def model(self) -> nn.Module:
        """The averaged model, in eval mode."""
        return self._averaged.module

    @property
    def started(self) -> bool:
        """Whether the first copy has been taken."""
        return bool(self._averaged.n_averaged > 0)

    @started.setter
    def started(self, value: bool) -> None:
        self._averaged.n_averaged.fill_(int(value))

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Update the average with the weights after `step` steps."""
        if step < self.config.after:
            return
        if step == self.config.after:
            self.started = False  # the first update is a copy
        if not self.started or step % self.config.every == 0:
            self._decay = decay_at(self.config, step, self.steps)
            self._averaged.update_parameters(model)

    def _mix(self, ours: _Tensors, theirs: _Tensors, _: Tensor | int) -> None:
        """One update of tensors of one type."""
        if ours[0].is_floating_point():
            torch._foreach_lerp_(ours, theirs, 1.0 - self._decay)
        else:
            torch._foreach_copy_(ours, theirs)


def decay_at(config: EmaConfig, step: int, steps: int = 0) -> float:
    """The share of the old average that is kept in the update after `step` of `steps` training steps."""
    decay = config.decay
    if config.final is not None:
        decay = config.final - (config.final - decay) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / max(1, steps))))
    if not config.warmup:
        return decay
    return min(decay, 1.0 - (1.0 + step - config.after) ** (-2 / 3))


def tensors(model: nn.Module) -> list[Tensor]:
    """Return every parameter and buffer once, in a fixed order."""
    return [*model.parameters(), *model.buffers()]
