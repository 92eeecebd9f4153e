"""The solver: puzzles in, boards out, with their energies and their conflicts, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.runtime.devices import pick_device
from akorn.sudoku import adaptive, voting
from akorn.sudoku.board import Board, Conflict, as_board, conflicts, format_board, is_valid_solution, parse_board
from akorn.sudoku.effort import Effort
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import Runner, SudokuNet
from akorn.sudoku.turned import turned
from akorn.sudoku.voting import Precision, VoteConfig

Backend = Literal["torch", "onnx"]
"""What runs the model."""
Puzzle = str | NDArray[np.uint8]
"""81 characters, or an array of 81 digits with 0 for a blank."""

Vote = Literal["confidence", "energy"]
"""The criterion by which one of several starts wins."""


@dataclass(frozen=True)
class Answer:
    """The answer to one puzzle. The givens are always kept."""

    puzzle: str
    board: str
    """81 digits."""
    valid: bool
    """Whether the board is a correct Sudoku that keeps the givens."""
    energy: float | None
    """The energy summed over the steps, which an energy vote compares; None for a model without energy."""
    confidence: float
    """The mean over the blanks of the highest probability, which a confidence vote compares."""
    conflicts: tuple[Conflict, ...]
    """Digits that occur more than once in a row, column or box."""
    steps: int
    """The steps that the winning start took."""
    votes: int
    """Starts of the board; with adaptive effort those of its last round."""
    start: int
    """The number of the winning start, from 0."""
    seed: int
    effort: int
    """Sample-steps that the board took: the steps of all its starts together."""
    at_limit: bool = False
    """Whether adaptive effort ended at its limit, without an answer that is good enough."""
    symmetries: bool = False
    """Whether all starts but the first saw the board under a symmetry, as with adaptive effort; for `Solver.watch`."""
    round_steps: int | None = None
    """With adaptive effort the steps T of the round that the answer is from, of which the winning start may have taken
    only the first; all blocks but the last took T. None without; for `Solver.watch`."""


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
        model: any of the Sudoku models, or an `OnnxRunner`.
        device: "auto", "cpu", "cuda", "cuda:1", "mps"; onnxruntime has only the CPU.
        precision: "auto" is bf16 on CUDA and on CPUs that are faster with it, otherwise float32.

    """

    def __init__(self, model: Runner, device: str = "auto", precision: Precision = "auto") -> None:
        self.model: Runner
        if isinstance(model, SudokuNet):
            self.device = pick_device(device)
            self.model = model.to(self.device).eval()
        else:
            if device not in ("auto", "cpu") or precision not in ("auto", "float32"):
                raise AkornError(f"onnxruntime runs in float32 on the CPU here, got {precision} on {device}")
            self.device, self.model = model.device, model
        self.precision = precision

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path = "sudoku",
        device: str = "auto",
        precision: Precision = "auto",
        backend: Backend | None = None,
    ) -> Solver:
        """A solver with shipped weights (by name), or with those of a folder, the hub or an exported .onnx file.

        backend: "torch", or "onnx" for onnxruntime; by default that of the file.
        """
        from akorn.sudoku.onnx_runner import ENDING, OnnxRunner

        if str(name_or_folder).endswith(ENDING):
            if backend == "torch":
                raise AkornError(f"{name_or_folder}: torch cannot run an ONNX file")
            return cls(OnnxRunner.from_file(Path(name_or_folder)), device, precision)
        net = SudokuNet.from_pretrained(name_or_folder)
        return cls(OnnxRunner.from_model(net) if backend == "onnx" else net, device, precision)

    @property
    def can_watch(self) -> bool:
        """Whether `watch` can show every step: an exported file may run several in one call."""
        return getattr(self.model, "block", None) in (None, 1)

    @overload
    def solve(  # type: ignore[overload-overlap]  # a str is also a sequence of str, and means one puzzle
        self,
        puzzles: Puzzle,
        steps: int = ...,
        votes: int = ...,
        seed: int = ...,
        *,
        prefer_valid: bool = ...,
        effort: Effort | None = ...,
        vote: Vote | None = ...,
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
        effort: Effort | None = ...,
        vote: Vote | None = ...,
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
        effort: Effort | None = None,
        vote: Vote | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Answer | list[Answer]:
        """Solve one puzzle or several, each from `votes` random starts, of which one answer wins.

        By default it is the most confident one, as with vote="confidence"; with vote="energy" it is the one whose
        energy, summed over the steps, is lowest. With `prefer_valid` a valid board wins over a better one that is
        not: the rules of Sudoku are then used to check answers, though not to find them. With an `effort`, such as
        `Effort(64, 2048)`, a board gets more steps and more starts while its confidence is low, up to that limit,
        instead of `steps` and `votes`; with `prefer_valid` until an answer is valid. The same puzzle gets the same
        starts wherever it is in the list.
        """
        single = isinstance(puzzles, str) or not isinstance(puzzles, Iterable)
        single = single or (isinstance(puzzles, np.ndarray) and _is_one(puzzles))
        boards = [_parse(puzzles)] if single else [_parse(p, i) for i, p in enumerate(puzzles, 1)]
        if not boards:
            return []
        name = _vote_name(vote, self.model)
        if effort is not None:
            if not isinstance(effort, Effort):
                raise AkornError(f"effort is {effort!r}, expected an Effort such as akorn.sudoku.Effort(64, 2048)")
            if name != "confidence":
                raise AkornError("adaptive effort goes by confidence: an energy vote needs --steps or --votes")
            solved = self._adaptively(boards, effort, seed, prefer_valid, progress)
            return solved[0] if single else solved
        config = VoteConfig(steps, votes, seed, precision=self.precision, squares=False)
        tally = voting.run(self.model, torch.from_numpy(np.stack(boards)), config, progress=progress)
        chosen = tally.best[name]
        if prefer_valid:
            among = tally.best[f"{name}-valid"]
            among.value = torch.where(among.value.isfinite(), -torch.inf, torch.inf)  # before all others
            chosen.merge(among)
        starts, answers = chosen.start.tolist(), chosen.answer.cpu().numpy()
        energies = chosen.energy.tolist() if self.model.has_energy else [None] * len(boards)
        solved = [
            _answer(puzzle, answer, energy, confidence, steps, votes, start, seed, steps * votes)
            for puzzle, answer, energy, confidence, start in zip(
                boards, answers, energies, chosen.confidence.tolist(), starts, strict=True
            )
        ]
        return solved[0] if single else solved

    def _adaptively(
        self,
        boards: list[Board],
        effort: Effort,
        seed: int,
        prefer_valid: bool,
        progress: Callable[[int, int], None] | None,
    ) -> list[Answer]:
        """`solve` with adaptive effort."""
        effort = replace(effort, stop="valid") if prefer_valid else effort
        found = adaptive.run(
            self.model, torch.from_numpy(np.stack(boards)), effort, seed=seed, precision=self.precision,
            energy=osc.energy, progress=progress,
        )  # fmt: skip
        rounds, several = effort.rounds, self.model.random_start or effort.symmetries
        columns = (
            found.answer.cpu().numpy(),
            found.energy.tolist() if self.model.has_energy else [None] * len(boards),
            found.confidence.tolist(),
            found.steps.tolist(),
            [rounds[number][0] if several else 1 for number in found.round.tolist()],
            found.start.tolist(),
            found.used.tolist(),
            (~found.sure(effort)).tolist(),
            found.total.tolist(),
        )
        return [
            _answer(puzzle, answer, energy, confidence, steps, votes, start, seed, used, open, effort.symmetries, total)
            for puzzle, answer, energy, confidence, steps, votes, start, used, open, total in zip(
                boards, *columns, strict=True
            )
        ]

    @torch.no_grad()
    def watch(
        self,
        puzzle: Puzzle,
        steps: int = 64,
        seed: int = 0,
        start: int = 0,
        *,
        symmetries: bool = False,
        round_steps: int | None = None,
    ) -> Iterator[Frame]:
        """The board after each step, from the start with that number.

        An answer's `steps`, `start`, `symmetries` and `round_steps` replay how it was found. Of a model with several
        blocks, all but the last take `round_steps`, by default `steps`.
        """
        board = _parse(puzzle)
        digits = torch.from_numpy(board)[None].to(self.device)
        keys, number, x0 = board_keys(digits), torch.tensor([start], device=self.device), None
        if self.model.random_start:
            x0 = start_noise(keys, number, seed, (81, self.model.channels))
        seen = turned(keys, number, seed) if symmetries else None
        several = getattr(getattr(self.model, "config", None), "blocks", 1) > 1  # a single block does not know T
        total = max(steps, round_steps or 0) if several else steps
        with voting.numerics(self.precision, self.model):
            result = self.model.evolve(digits if seen is None else seen.image(digits), total, x0=x0, each_step=True)
        assert result.step_logits is not None  # requested above
        logits = result.step_logits[:steps]  # [T, 1, 81, 9]
        logits = logits if seen is None else seen.back(logits)
        chance, digit = logits[:, 0].softmax(-1).cpu().max(-1)  # [T, 81] each
        energies = result.energies[:steps, 0].tolist() if result.energies is not None else [None] * steps
        for step, energy in enumerate(energies):
            filled = np.where(board > 0, board, digit[step].numpy().astype(np.uint8) + 1)
            sure = np.where(board > 0, 1.0, chance[step].numpy()).astype(np.float32)
            yield Frame(step + 1, filled.astype(np.uint8), sure, energy)


def _answer(
    puzzle: Board,
    answer: Board,
    energy: float | None,
    confidence: float,
    steps: int,
    votes: int,
    start: int,
    seed: int,
    effort: int,
    at_limit: bool = False,
    symmetries: bool = False,
    round_steps: int | None = None,
) -> Answer:
    return Answer(
        format_board(puzzle), format_board(answer), is_valid_solution(answer, puzzle), energy, confidence,
        tuple(conflicts(answer)), steps, votes, start, seed, effort, at_limit, symmetries, round_steps,
    )  # fmt: skip


def _vote_name(vote: Vote | None, model: Runner) -> str:
    """What `voting` calls the vote."""
    if vote not in (None, "confidence", "energy"):
        raise AkornError(f"vote is {vote!r}, expected confidence or energy")
    if vote == "energy" and not model.has_energy:
        raise AkornError(f"{type(model).__name__} has no energy to vote by: use the confidence")
    return "sum" if vote == "energy" else "confidence"


def _is_one(array: NDArray[np.uint8]) -> bool:
    return array.shape in ((81,), (9, 9))


def _parse(puzzle: object, number: int | None = None) -> Board:
    """A board of text or digits whose givens do not contradict each other."""
    try:
        return parse_board(puzzle if isinstance(puzzle, str) else format_board(as_board(puzzle)))  # type: ignore[arg-type]
    except ValueError as error:
        raise AkornError(str(error) if number is None else f"puzzle {number}: {error}") from None
