"""Run a chunk of samples for T steps, where samples that have settled may stop early.

A sample has settled when the digits on its blanks are the same as one block of steps ago, and the mean energy of the
block differs from that of the previous block by at most a relative tolerance. (Means, because the energy of a trained
model keeps oscillating from step to step.) The remaining samples are packed together, which saves work. The missing
energies of a sample are filled with its last mean, so that sums over the steps remain comparable.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from akorn import nn as akn
from akorn.errors import AkornError
from akorn.nn import EnergyFunction
from akorn.sudoku.model import ENERGY_NAMES, SudokuModel, may_fuse
from akorn.sudoku.net import Result, Runner

BLOCK = 8
"""Steps between two checks: as many as a CUDA graph has, and more than two periods of the energy."""

_PACK = {"cuda": 256}  # samples are packed to multiples of this, since graphs and compiled steps have a fixed size


def check_tolerance(tolerance: float | None) -> None:
    """ValueError unless it is a positive number or None."""
    if tolerance is not None and not 0 < tolerance < 1:  # NaN fails too
        raise ValueError(
            f"early_exit is a relative change of the energy between 0 and 1, such as 0.01, got {tolerance}"
        )


@torch.no_grad()
def evolve(
    model: Runner,
    puzzle: Tensor,
    steps: int,
    *,
    x0: Tensor | None,
    energy: EnergyFunction,
    tolerance: float | None = None,
    wanted: Tensor | None = None,
) -> tuple[Result, Tensor]:
    """Run `model.evolve` for solving; also returns how many steps each sample took, [B] int64.

    Args:
        model: any Sudoku model without a tolerance, AKOrN in torch with one.
        puzzle: [B, 81].
        steps: T, at most.
        x0: the starts of the blanks, [B, 81, C].
        energy: which energy.
        tolerance: samples whose energy changes by a smaller fraction may stop; None for no early exit.
        wanted: [B] bool; the others are padding and may stop immediately.

    """
    check_tolerance(tolerance)
    if tolerance is None:
        result = model.evolve(puzzle, steps, x0=x0, energy=energy)
        return result, torch.full((len(puzzle),), steps, device=puzzle.device)
    if not isinstance(model, SudokuModel):
        raise AkornError(f"early exit needs AKOrN's energy in torch, which {type(model).__name__} does not have")
    x, c, steps = model.begin(puzzle, steps, x0=x0)
    last = cast(akn.KuramotoBlock, model.blocks[-1])
    return _Stream(model, last, puzzle, x, c, steps, wanted).run(energy, tolerance)


class _Stream:
    """The samples that are still running, packed, and the results of all."""

    def __init__(
        self,
        model: SudokuModel,
        block: akn.KuramotoBlock,
        puzzle: Tensor,
        x: Tensor,
        c: Tensor,
        steps: int,
        wanted: Tensor | None,
    ) -> None:
        samples, device = len(puzzle), puzzle.device
        self.model, self.block, self.steps = model, block, steps
        self.logits = torch.zeros(samples, 81, 9, device=device)
        self.energies = torch.zeros(steps, samples, device=device)
        self.used = torch.full((samples,), steps, device=device)
        # For the packed samples [S]: their indices, whether they are still running, and their state one block ago.
        self.x, self.c, self.puzzle = x, c, puzzle
        self.row = torch.arange(samples, device=device)
        self.running = torch.ones_like(self.row, dtype=torch.bool) if wanted is None else wanted.clone()
        self.mean = torch.full((samples,), torch.inf, device=device)
        self.digits = torch.zeros(samples, 81, dtype=torch.int64, device=device)  # 0: not checked yet

    def run(self, energy: EnergyFunction, tolerance: float) -> tuple[Result, Tensor]:
        """All steps, in blocks."""
        done = 0
        while done < self.steps and bool(self.running.any()):
            count = min(BLOCK, self.steps - done)
            self._pack()
            self.x, energies = _run(self.block.layer, self.x, self.c, count, energy)
            done += count
            assert energies is not None  # [count, S]
            here = self.running
            self.energies[done - count : done, self.row[here]] = energies[:, here].float()
            if done < self.steps:
                self._leave(energies.float().mean(0), done, tolerance)
        rest = self.running.nonzero().squeeze(1)
        if len(rest):
            self.logits[self.row[rest]] = self._answer(self.x[rest])
        return Result(self.logits, self.energies, None), self.used

    def _leave(self, mean: Tensor, done: int, tolerance: float) -> None:
        """Stop the samples that have settled; digits are computed only where the energy has settled."""
        still = (mean - self.mean).abs() <= tolerance * mean.abs()
        look = (self.running & still).nonzero().squeeze(1)
        logits = self._answer(self.x[look])  # [look, 81, 9]
        digits = torch.where(self.puzzle[look] > 0, self.puzzle[look].long(), logits.argmax(-1) + 1)
        same = (digits == self.digits[look]).all(1)
        gone, row = look[same], self.row[look[same]]
        self.logits[row] = logits[same]
        self.used[row] = done
        self.energies[done:, row] = mean[gone]
        self.running[gone] = False
        self.mean = mean
        self.digits = torch.zeros_like(self.digits).index_copy(0, look, digits)

    def _pack(self) -> None:
        """Keep the running samples, padded to a size that suits the device."""
        grain = _PACK.get(self.x.device.type, 1)
        count = -(-int(self.running.sum()) // grain) * grain
        if count >= len(self.row):
            return
        kept = self.running.int().argsort(descending=True, stable=True)[:count].sort().values
        for name in ("x", "c", "puzzle", "row", "running", "mean", "digits"):
            setattr(self, name, getattr(self, name)[kept])

    def _answer(self, x: Tensor) -> Tensor:
        return self.model.answer(self.block.readout(x))


def _run(
    layer: akn.KuramotoLayer, x: Tensor, c: Tensor, steps: int, energy: EnergyFunction | None
) -> tuple[Tensor, Tensor | None]:
    """Take steps in the fastest way available, in pieces of one size."""
    states, values = [], []
    pieces = zip(*(part.split(_PACK.get(x.device.type, len(x))) for part in (x, c)), strict=True)
    for state, drive in pieces:
        if may_fuse(x):
            after, energies = akn.solve_steps(layer, state, drive, steps, ENERGY_NAMES[energy])
        else:
            after, energies, _ = layer.evolve(state, drive, steps, energy=energy)
        states.append(after)
        values.append(energies)
    return torch.cat(states), torch.cat(cast("list[Tensor]", values), 1) if energy is not None else None
