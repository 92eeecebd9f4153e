"""A model's steps in pieces, for code that looks at the answers in between: begin, advance, read, advance, …"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor

from akorn import nn as akn
from akorn.nn import EnergyFunction
from akorn.sudoku.baselines import Baseline
from akorn.sudoku.model import ENERGY_NAMES, SudokuModel, may_fuse
from akorn.sudoku.net import Runner

PIECE = {"cuda": 256}
"""Samples that take steps together: one size, since graphs and compiled steps have a fixed size, and so that no sample
depends on how many others run. CPUs take all at once."""

State = tuple[Tensor, ...]
"""The state of samples between two pieces; every tensor has the samples first, [S, ...]."""


class Stepper(Protocol):
    """A model whose steps can be taken in pieces."""

    def begin(self, puzzle: Tensor, x0: Tensor | None, steps: int) -> State:
        """The state of puzzles [S, 81] before the last block's steps; `steps`: T in total."""
        ...

    def advance(self, state: State, steps: int, energy: EnergyFunction | None) -> tuple[State, Tensor | None]:
        """The state after some more steps, and the energies before each of them, [steps, S]."""
        ...

    def read(self, state: State) -> Tensor:
        """The current logits, [S, 81, 9]."""
        ...


def stepper_of(model: Runner) -> Stepper | None:
    """The model in pieces; None if only all steps at once are possible, as in onnxruntime."""
    if isinstance(model, SudokuModel):
        return _Oscillators(model)
    return _Iterated(model) if isinstance(model, Baseline) else None


class _Oscillators:
    """AKOrN: the oscillators of the last block, and its stimulus."""

    def __init__(self, model: SudokuModel) -> None:
        self.model, self.block = model, cast(akn.KuramotoBlock, model.blocks[-1])

    def begin(self, puzzle: Tensor, x0: Tensor | None, steps: int) -> State:
        x, c, _ = self.model.begin(puzzle, steps, x0=x0)
        return x, c

    def advance(self, state: State, steps: int, energy: EnergyFunction | None) -> tuple[State, Tensor | None]:
        x, c = state
        states, values = [], []
        size = PIECE.get(x.device.type, len(x))
        for part, drive in zip(x.split(size), c.split(size), strict=True):
            if may_fuse(part):
                after, energies = akn.solve_steps(self.block.layer, part, drive, steps, ENERGY_NAMES[energy])
            else:
                after, energies, _ = self.block.layer.evolve(part, drive, steps, energy=energy)
            states.append(after)
            values.append(energies)
        return (torch.cat(states), c), torch.cat(cast("list[Tensor]", values), 1) if energy is not None else None

    def read(self, state: State) -> Tensor:
        return self.model.answer(self.block.readout(state[0]))


class _Iterated:
    """A baseline: the state of its last block."""

    def __init__(self, model: Baseline) -> None:
        self.model = model

    def begin(self, puzzle: Tensor, x0: Tensor | None, steps: int) -> State:
        return (self.model.begin(puzzle, steps, x0=x0),)

    def advance(self, state: State, steps: int, energy: EnergyFunction | None) -> tuple[State, Tensor | None]:
        (x,) = state
        states, values = [], []
        for part in x.split(PIECE.get(x.device.type, len(x))):
            energies = []
            for _ in range(steps):
                if energy is not None and self.model.has_energy:
                    energies.append(self.model.energy(part))
                part = self.model.iterate(part)
            states.append(part)
            values += [torch.stack(energies)] if energies else []
        return (torch.cat(states),), torch.cat(values, 1) if values else None

    def read(self, state: State) -> Tensor:
        return self.model.answer(self.model.finish(state[0]))
