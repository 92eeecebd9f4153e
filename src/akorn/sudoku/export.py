"""Sudoku models as programs that run a block of steps: a caller passes the state from one call to the next."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.export.program import BATCH, ENERGIES, ENERGY, OneStep, Part, Port, Program, driven, on_sphere
from akorn.hub import HubModel
from akorn.nn.checks import whole_steps
from akorn.sudoku.model import SudokuModel
from akorn.sudoku.voting import mean_confidence

STEPS = 16
"""Steps in one call, unless told otherwise."""
_OFF = 0.01
"""How much a squared length differs from 1 if a state is not on the sphere."""


def program(model: HubModel, steps: int | None = None) -> Program:
    """`steps` steps from the state that is given: puzzle, state → next_state, probabilities, energies, confidence."""
    if not isinstance(model, SudokuModel):
        raise AkornError(f"{model.architecture} has no state to pass on: only akorn models can be exported")
    if len(model.blocks) > 1:
        raise AkornError(f"a model of {len(model.blocks)} blocks has several states: only those of 1 can be exported")
    block = cast(akn.KuramotoBlock, model.blocks[-1])
    if not block.layer.rule.on_sphere:
        raise AkornError(f"the rule {model.config.rule} leaves the sphere: its states cannot be told from noise")
    count = STEPS if steps is None else whole_steps(steps)
    channels = model.config.channels
    state = (BATCH, 81, channels)
    return Program(
        [
            Port("puzzle", "int64", (BATCH, 81), "digits row by row, 0 for a blank"),
            Port(
                "state", "float32", state,
                "normal noise at first, then next_state of the previous call; on a given square, vectors that are"
                " not of length 1 are replaced by the start of its digit",
            ),
        ],
        [
            Port("next_state", "float32", state, "the state after the steps, oscillators of length 1"),
            Port("probabilities", "float32", (BATCH, 81, 9), "of the digits 1 to 9 on every square"),
            Port(ENERGIES, "float32", (BATCH, count), "Eq. 3 before each step; the energy vote takes the lowest sum"),
            Port("confidence", "float32", (BATCH,), "the mean of the highest probabilities over the blank squares"),
        ],
        [
            Part(_Begin(model), ("puzzle", "state"), ("x", "drive")),
            Part(OneStep(block.layer), ("x", "drive"), ("x", ENERGY), count),
            Part(_End(model), ("x", "puzzle"), ("next_state", "probabilities", "confidence")),
        ],
        count,
    )  # fmt: skip


class _Begin(nn.Module):
    """The start of a call: the state on the sphere, with the givens of a first call at their digits; and the drive."""

    def __init__(self, model: SudokuModel) -> None:
        super().__init__()
        self.embedding, self.place, self.n = model.embedding, model.place, model.config.n
        self.layer = cast(akn.KuramotoBlock, model.blocks[-1]).layer

    def forward(self, puzzle: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 81], [B, 81, C] → x and the drive, [B, 81, C] both."""
        c = self.embedding(puzzle)
        c = c if self.place is None else self.place(c)
        squared = osc.group(state, self.n).square().sum(-1)  # [B, 81, C/N]
        first = (squared - 1).abs().amax(-1, keepdim=True) > _OFF  # [B, 81, 1]
        given = (puzzle > 0)[..., None]
        x = torch.where(given & first, on_sphere(c, self.n), on_sphere(state, self.n))
        return x, driven(self.layer, c)


class _End(nn.Module):
    """The answer of the last state."""

    def __init__(self, model: SudokuModel) -> None:
        super().__init__()
        self.readout, self.head = cast(akn.KuramotoBlock, model.blocks[-1]).readout, model.head

    def forward(self, x: Tensor, puzzle: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, 81, C], [B, 81] → the state, probabilities [B, 81, 9] and confidence [B]."""
        chance = self.head(self.readout(x).relu()).softmax(-1)
        return x.clone(), chance, mean_confidence(chance, puzzle)
