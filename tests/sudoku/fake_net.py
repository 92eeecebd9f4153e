"""A model whose answers and energies are known beforehand, for tests of voting."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.nn import EnergyFunction
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.net import Result, SudokuNet


class FakeNet(SudokuNet):
    """Right where the start's first number q is above `limit`, else one blank is wrong.

    Energies are −3q, then q: their sum −2q favours right answers, the last one wrong answers. Where q is above
    `broken`, they are NaN.
    """

    architecture = SudokuConfig.architecture
    random_start = True
    has_energy = True

    def __init__(self, puzzles: Tensor, solutions: Tensor, limit: float = 0.0, broken: float = torch.inf) -> None:
        super().__init__(SudokuConfig(channels=8, heads=1, n=2, steps=2))
        self.puzzles, self.solutions, self.limit, self.broken = puzzles.long(), solutions.long(), limit, broken

    def evolve(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        *,
        generator: torch.Generator | None = None,
        x0: Tensor | None = None,
        energy: EnergyFunction | None = osc.energy,
        each_step: bool = False,
    ) -> Result:
        assert x0 is not None
        q = x0[:, 0, 0]
        same = (puzzle[:, None].long() == self.puzzles).all(2)  # [B, boards]; the padding is none of them
        truth = torch.where(same.any(1)[:, None], self.solutions[same.int().argmax(1)], 1)
        blank = (puzzle == 0).int().argmax(1)
        answer = torch.where(puzzle > 0, truth % 9 + 1, truth)  # wrong on the givens, which must not matter
        rows = torch.arange(len(answer))
        wrong = truth[rows, blank] % 9 + 1
        answer[rows, blank] = torch.where(q > self.limit, truth[rows, blank], wrong)
        logits = 4.0 * torch.nn.functional.one_hot(answer - 1, 9).float()
        logits[rows, blank] *= torch.where(q > self.limit, 3.0, 1.0)[:, None]  # surer where right
        energies = torch.stack((-3 * q, q))
        return Result(logits, torch.where(q > self.broken, torch.nan, energies), None)

    def compile_step(self, **options: object) -> None:
        """Nothing to compile."""
