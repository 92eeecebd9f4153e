"""T steps of an update: their memory order, how many of them have gradients, and how these come back."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from akorn import kernels
from akorn.execution import operator
from akorn.execution.chain import chain_of, handed_on
from akorn.execution.drive import Drive, Stimulus
from akorn.execution.gradients import Gradients, Recompute, Store, planned
from akorn.execution.recompute import recomputed
from akorn.execution.step import EnergyFunction, Step, advance


class Ran(NamedTuple):
    """The result of T steps."""

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
    if step.handle is not None and operator.applies(module, x, drive, energy, trajectory):
        return _run_compiled(step.handle, x, drive, steps, given, way, module, energy)
    again = isinstance(way, Recompute) and graph and not trajectory
    energies: list[Tensor] = []
    states = [x]
    copy: Tensor | None = None
    narrow = handed_on(step, x)
    for t in range(given if again else steps):
        with torch.no_grad() if t < given else nullcontext():
            c, hand_on = drive(t, x.shape), narrow if t + 1 < steps else None
            x, value, copy = advance(step, x, c, energy, copy, hand_on)
        if value is not None:
            energies.append(value)
        if trajectory:
            states.append(x)
    if again:
        assert isinstance(way, Recompute)
        x, values = _run_again(step, x, drive.after(given), steps - given, energy, module, way)
        energies += values
    return Ran(x, torch.stack(energies) if energy is not None else None, torch.stack(states) if trajectory else None)


def _run_compiled(
    handle: int,
    x: Tensor,
    drive: Drive,
    steps: int,
    given: int,
    way: Store | Recompute,
    module: nn.Module,
    energy: EnergyFunction | None,
) -> Ran:
    """The steps as one operator for the compiler, or two if gradients go back only through the last of them."""
    drive(0, x.shape)  # refuses a wrong shape
    first = None
    if given:
        with torch.no_grad():
            x, first = operator.run(module, handle, x, drive.before(given), given, way, energy)
    x, energies = operator.run(module, handle, x, drive.after(given), steps - given, way, energy)
    if energy is None:
        return Ran(x, None, None)
    return Ran(x, energies if first is None else torch.cat((first, energies)), None)


def _run_again(
    step: Step,
    x: Tensor,
    drive: Drive,
    steps: int,
    energy: EnergyFunction | None,
    module: nn.Module,
    way: Recompute,
) -> tuple[Tensor, list[Tensor]]:
    """The steps with a backward pass that stores little."""
    if drive.values is None:
        raise ValueError("gradients=Recompute() needs c as an array: gradients cannot reach what a function c(t) uses")
    chain = chain_of(step, drive.constant, steps, energy, module)
    return recomputed(chain, x, drive.values, steps, way.snapshots)


def in_one_order(x: Tensor, c: Stimulus, *, tokens: bool) -> tuple[Tensor, Stimulus, bool]:
    """Pictures in the memory order for fused steps, and whether the last state must be converted back.

    x and c both have channels last in memory if one of them does: otherwise steps would convert c every time. The same
    holds if the coupling treats pixels as tokens: otherwise each step would convert x to tokens and Jx back.
    """
    if x.ndim != 4 or not kernels.usable(x):
        return x, c, False
    pictures = [x, c] if isinstance(c, Tensor) and c.ndim == 4 else [x]
    last = [a.is_contiguous(memory_format=torch.channels_last) and not a.is_contiguous() for a in pictures]
    if all(last) or not (tokens or any(last)):
        return x, c, False
    there = [a.contiguous(memory_format=torch.channels_last) for a in pictures]
    return there[0], there[1] if len(there) == 2 else c, not any(last)
