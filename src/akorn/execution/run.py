"""T steps of an update: with which memory order, how many of them with gradients, and how these come back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from akorn import kernels
from akorn.execution import step as steps_of
from akorn.execution.gradients import Gradients, Recompute, planned
from akorn.execution.recompute import Chain, Reversal, recomputed
from akorn.execution.step import Advanced, EnergyFunction, Step

Stimulus = Tensor | Callable[[int], Tensor]
"""C: constant in time (the shape of x), one for each step ([steps, *x.shape]), or a function of the step."""


class Drive(NamedTuple):
    """C as it acts on the oscillators: as a function of the step and, where it is an array, as that."""

    at: Callable[[int], Tensor]
    values: Tensor | None
    constant: bool

    def __call__(self, t: int, shape: torch.Size | None = None) -> Tensor:
        """C at step t; ValueError unless it has this shape."""
        c = self.at(t)
        if shape is not None and c.shape != shape:
            raise ValueError(f"c at step {t} has the shape {list(c.shape)}, x has {list(shape)}")
        return c

    def after(self, steps: int) -> Drive:
        """What acts on the steps that follow so many."""
        if self.constant or not steps:
            return self
        return Drive(lambda t: self.at(steps + t), None if self.values is None else self.values[steps:], False)


def constant(c: Tensor) -> Drive:
    """The same C at every step."""
    return Drive(lambda t: c, c, True)


def changing(each: Tensor) -> Drive:
    """One C for each step: [steps, B, ...]."""
    return Drive(lambda t: each[t], each, False)


class Ran(NamedTuple):
    """What came of T steps."""

    x: Tensor
    """The last state."""
    energies: Tensor | None
    """[T, B]: the energy before each step."""
    trajectory: Tensor | None
    """[T + 1, *x.shape]: all states, the first one included."""


def run(
    step: Step,
    x: Tensor,
    drive: Drive,
    steps: int,
    gradients: Gradients,
    *,
    module: nn.Module,
    energy: EnergyFunction | None = None,
    trajectory: bool = False,
) -> Ran:
    """`steps` steps from a state that is where the rule expects it.

    Args:
        step: the update.
        x: the first state.
        drive: C.
        steps: T.
        gradients: how gradients come back.
        module: holds the parameters and buffers that the step reads; its training mode counts.
        energy: which energies to return; None for none.
        trajectory: whether to return all states.

    """
    graph = torch.is_grad_enabled()
    given, way = planned(gradients, steps, training=module.training and graph)
    if given:
        x = x.detach()
    again = isinstance(way, Recompute) and graph and not trajectory
    energies: list[Tensor] = []
    states = [x]
    copy: Tensor | None = None
    narrow = _narrow(step, x)
    for t in range(given if again else steps):
        with torch.no_grad() if t < given else nullcontext():
            c, hand_on = drive(t, x.shape), narrow if t + 1 < steps else None
            x, value, copy = steps_of.advance(step, x, c, energy, copy, hand_on)
        if value is not None:
            energies.append(value)
        if trajectory:
            states.append(x)
    if again:
        assert isinstance(way, Recompute)
        x, values = _run_again(step, x, drive.after(given), steps - given, energy, module, way)
        energies += values
    return Ran(x, torch.stack(energies) if energy is not None else None, torch.stack(states) if trajectory else None)


def _narrow(step: Step, x: Tensor) -> torch.dtype | None:
    """In which type steps hand their state on; what steps do by themselves need not be asked for."""
    return steps_of.product_dtype(step, x) if step.compiled is None and kernels.usable(x) else None


def _run_again(
    step: Step,
    x: Tensor,
    drive: Drive,
    steps: int,
    energy: EnergyFunction | None,
    module: nn.Module,
    way: Recompute,
) -> tuple[Tensor, list[Tensor]]:
    """The steps with a backward pass that stores next to nothing."""
    if drive.values is None:
        raise ValueError("gradients=Recompute() needs c as an array: gradients cannot reach what a function c(t) uses")
    chain = chain_of(step, drive.constant, steps, energy, module)
    return recomputed(chain, x, drive.values, steps, way.snapshots)


def chain_of(step: Step, constant: bool, steps: int, energy: EnergyFunction | None, module: nn.Module) -> Chain:
    """Steps that can be repeated, under a C that is constant or else one array for each step."""

    def forward(x: Tensor, c: Tensor, t: int, copy: Tensor | None = None) -> Advanced:
        narrow = _narrow(step, x) if t + 1 < steps else None
        return steps_of.advance(step, x, c if constant else c[t], energy, copy, narrow)

    def reverse(reversal: Reversal, x: Tensor, t: int) -> bool:
        if not constant or step.compiled is not None or not kernels.usable(x):
            return False
        from akorn.execution.fused_step import reverse_step

        return reverse_step(step, reversal, x, t, energy)

    return Chain(
        forward,
        reverse,
        lambda: [p for p in module.parameters() if p.requires_grad],
        lambda: dict(module.named_buffers()),
    )


def in_one_order(x: Tensor, c: Stimulus, *, tokens: bool) -> tuple[Tensor, Stimulus, bool]:
    """Pictures as fused steps want them, and whether the last state is to be brought back.

    Both with channels last in memory if one has them so, else steps would bring c to x every time. Also where the
    coupling takes pixels for tokens, else each step would bring x to the tokens' order, and Jx back from it.
    """
    if x.ndim != 4 or not kernels.usable(x):
        return x, c, False
    pictures = [x, c] if isinstance(c, Tensor) and c.ndim == 4 else [x]
    last = [a.is_contiguous(memory_format=torch.channels_last) and not a.is_contiguous() for a in pictures]
    if all(last) or not (tokens or any(last)):
        return x, c, False
    there = [a.contiguous(memory_format=torch.channels_last) for a in pictures]
    return there[0], there[1] if len(there) == 2 else c, not any(last)
