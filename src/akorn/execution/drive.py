"""C as it acts on the oscillators, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Stimulus = Tensor | Callable[[int], Tensor]
"""C: constant in time (the shape of x), one for each step ([steps, *x.shape]), or a function of the step."""


class Drive(NamedTuple):
    """C as it acts on the oscillators: as a function of the step and, if possible, as an array."""

    at: Callable[[int], Tensor]
    values: Tensor | None
    constant: bool

    def __call__(self, t: int, shape: torch.Size | None = None) -> Tensor:
        """C at step t; ValueError unless it has this shape."""
        c = self.at(t)
        if shape is not None and c.shape != shape:
            raise ValueError(f"c at step {t} has the shape {list(c.shape)}, but x has {list(shape)}")
        return c

    def before(self, steps: int) -> Drive:
        """C for the first `steps` steps only."""
        return self if self.constant or self.values is None else self._replace(values=self.values[:steps])

    def after(self, steps: int) -> Drive:
        """C for the steps after the first `steps`."""
        if self.constant or not steps:
            return self
        return Drive(lambda t: self.at(steps + t), None if self.values is None else self.values[steps:], False)


def constant(c: Tensor) -> Drive:
    """The same C at every step."""
    return Drive(lambda t: c, c, True)


def changing(each: Tensor) -> Drive:
    """One C for each step: [steps, B, ...]."""
    return Drive(lambda t: each[t], each, False)
