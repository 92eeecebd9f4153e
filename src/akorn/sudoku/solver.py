"""The solver: puzzles in, boards out, with their energies and their conflicts, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.runtime.devices import pick_device
from akorn.sudoku import voting
from akorn.sudoku.board import Board, Conflict, as_board, conflicts, format_board, is_valid_solution, parse_board
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import SudokuNet
from akorn.sudoku.voting import Precision, VoteConfig

Puzzle = str | NDArray[np.uint8]
"""81 characters, or an array of 81 digits with 0 for a blank."""


@dataclass(frozen=True)
class Answer:
    """The answer to one puzzle. The givens are always kept."""

    puzzle: str
    board: str
    """81 digits."""
    valid: bool
    """Whether the board is a correct Sudoku that keeps the givens."""
    energy: float | None
    """The value that the vote compared: the energy summed over the steps; None for a model without energy."""
    conflicts: tuple[Conflict, ...]
    """Digits that occur more than once in a row, column or box."""
    steps: int
    votes: int
    start: int
    """The number of the winning start, from 0."""
    seed: int
    mean_steps: float
    """The mean number of steps of the starts; it is below `steps` only with early exit."""


@dataclass(frozen=True)
class Frame:
    """The board after a step."""

    step: int  # from 1
    digits: Board  # [81], with the givens
    confidence: NDArray[np.float32]  # [81]: the probability of each digit; 1 on the givens
    energy: float | None  # before the step


class Solver:
    """A trained model that solves puzzles.

    Args:
        model: any of the Sudoku models.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".
        precision: "auto" is bf16 on CUDA and float32 elsewhere.

    """

    def __init__(self, model: SudokuNet, device: str = "auto", precision: Precision = "auto") -> None:
        self.device = pick_device(device)
        self.model = model.to(self.device).eval()
        self.precision = precision

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path = "sudoku", device: str = "auto", precision: Precision = "auto"
    ) -> Solver:
        """A solver with shipped weights (by name), or with weights from a folder or the hub."""
        return cls(SudokuNet.from_pretrained(name_or_folder), device, precision)

    @overload
    def solve(  # type: ignore[overload-overlap]  # a str is also a sequence of str, and means one puzzle
        self,
        puzzles: Puzzle,
        steps: int = ...,
        votes: int = ...,
        seed: int = ...,
        *,
        prefer_valid: bool = ...,
        early_exit: float | None = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> Answer: ...

    @overload
    def solve(
        self,
        puzzles: Sequence[Puzzle],
        steps: int = ...,
        votes: int = ...,
        seed: int = ...,
        *,
        prefer_valid: bool = ...,
        early_exit: float | None = ...,
        progress: Callable[[int, int], None] | None = ...,
    ) -> list[Answer]: ...

    def solve(
        self,
        puzzles: Puzzle | Sequence[Puzzle],
        steps: int = 64,
        votes: int = 1,
        seed: int = 0,
        *,
        prefer_valid: bool = False,
        early_exit: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Answer | list[Answer]:
        """Solve one puzzle or several, each from `votes` random starts; the answer with the lowest energy wins.

        With `prefer_valid` a valid board wins over an invalid one with lower energy: the rules of Sudoku are then used
        to check answers, though not to find them. With `early_exit`, for example 0.01, a start stops before `steps`
        steps once its digits no longer change and its energy changes by a smaller fraction between blocks of 8 steps.
        A puzzle gets the same starts wherever it stands in a file or batch.
        """
        single = isinstance(puzzles, str) or not isinstance(puzzles, Iterable)
        single = single or (isinstance(puzzles, np.ndarray) and _is_one(puzzles))
        boards = [_parse(puzzles)] if single else [_parse(p, i) for i, p in enumerate(puzzles, 1)]
        if not boards:
            return []
        digits = np.stack(boards)
        config = VoteConfig(steps, votes, seed, precision=self.precision, squares=False, early_exit=early_exit)
        tally = voting.run(self.model, torch.from_numpy(digits), config, progress=progress)
        chosen = tally.best["sum" if self.model.has_energy else "first"]
        values, starts, answers = chosen.value.cpu(), chosen.start.cpu(), chosen.answer.cpu()
        used = (tally.used.cpu() / votes).tolist()
        if prefer_valid and "sum-valid" in tally.best:
            among = tally.best["sum-valid"]
            found = among.value.cpu().isfinite()
            values = torch.where(found, among.value.cpu(), values)
            starts = torch.where(found, among.start.cpu(), starts)
            answers = torch.where(found[:, None], among.answer.cpu(), answers)
        solved = [
            Answer(
                format_board(puzzle),
                format_board(answer),
                is_valid_solution(answer, puzzle),
                value if self.model.has_energy else None,
                tuple(conflicts(answer)),
                steps,
                votes,
                start,
                seed,
                mean_steps,
            )
            for puzzle, answer, value, start, mean_steps in zip(
                boards, answers.numpy(), values.tolist(), starts.tolist(), used, strict=True
            )
        ]
        return solved[0] if single else solved

    @torch.no_grad()
    def watch(self, puzzle: Puzzle, steps: int = 64, seed: int = 0, start: int = 0) -> Iterator[Frame]:
        """The board after each step, from the start with that number; an answer's `start` replays how it was found."""
        board = _parse(puzzle)
        digits = torch.from_numpy(board)[None].to(self.device)
        x0 = None
        if self.model.random_start:
            number = torch.tensor([start], device=self.device)
            x0 = start_noise(board_keys(digits), number, seed, (81, self.model.config.channels))
        with voting.numerics(self.precision, self.device):
            result = self.model.evolve(digits, steps, x0=x0, each_step=True)
        assert result.step_logits is not None  # requested above
        chance, digit = result.step_logits[:, 0].softmax(-1).cpu().max(-1)  # [T, 81] each
        energies = result.energies[:, 0].tolist() if result.energies is not None else [None] * steps
        for step, energy in enumerate(energies):
            filled = np.where(board > 0, board, digit[step].numpy().astype(np.uint8) + 1)
            sure = np.where(board > 0, 1.0, chance[step].numpy()).astype(np.float32)
            yield Frame(step + 1, filled.astype(np.uint8), sure, energy)


def _is_one(array: NDArray[np.uint8]) -> bool:
    return array.shape in ((81,), (9, 9))


def _parse(puzzle: object, number: int | None = None) -> Board:
    """A board of text or digits whose givens do not contradict each other."""
    try:
        return parse_board(puzzle if isinstance(puzzle, str) else format_board(as_board(puzzle)))  # type: ignore[arg-type]
    except ValueError as error:
        raise AkornError(str(error) if number is None else f"puzzle {number}: {error}") from None
