"""Board accuracy for any T, by givens and by difficulty, with the energy vote and other votes to compare.

A board counts as solved when all its blanks are right. Scores are in percent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from akorn.runtime.devices import missing_for_compile
from akorn.runtime.progress import progress_bar
from akorn.sudoku import adaptive, voting
from akorn.sudoku.difficulty import DIFFICULTIES, difficulty_of
from akorn.sudoku.effort import CHECK, Effort
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import SudokuNet
from akorn.sudoku.samples import Floats, Samples, SampleVote, auroc, within_auroc
from akorn.sudoku.voting import ENERGIES, EnergyName, Precision, Tally, VoteConfig

__all__ = [
    "Evaluation", "SampleVote", "Samples", "Spent", "VoteName", "auroc", "energy_over_steps", "evaluate", "within_auroc"
]  # fmt: skip

VoteName = Literal["sum", "last", "confidence", "majority", "average", "first"]
"""Which start's answer counts: the one with the lowest energy, summed over the steps or before the last step; the most
confident one; the most frequent digit of each square; the digit of the highest mean probability; the first start's."""

_COMPILE_FROM = 2_000_000  # board-steps from which compiling on a GPU (about 20 s) pays off


@dataclass(frozen=True)
class Spent:
    """What adaptive effort was spent."""

    limit: Effort
    mean: float
    """Sample-steps per board: the steps of all starts of all rounds."""
    used: NDArray[np.int64]
    """[B]: sample-steps of each board."""
    round: NDArray[np.int64]
    """[B]: the round that it left in, from 0."""
    sure: NDArray[np.bool_]
    """[B]: whether its answer was good enough to stop before the limit."""
    solved: NDArray[np.bool_]

    def as_json(self) -> dict[str, Any]:
        """The limit, the rule and what was spent, as JSON values; accuracies in percent."""
        rounds = [
            {"starts": starts, "steps": steps, **_group(self.round == number, self.solved)}
            for number, (starts, steps) in enumerate(self.limit.rounds)
        ]
        return {
            "starts": self.limit.starts,
            "steps": self.limit.steps,
            "sure": self.limit.sure,
            "stop": self.limit.stop,
            "symmetries": self.limit.symmetries,
            "check": CHECK,
            "sample_steps_per_board": self.mean,
            "rounds": rounds,
            "sure_boards": _group(self.sure, self.solved),
            "unsure_boards": _group(~self.sure, self.solved),
        }


def _group(chosen: NDArray[np.bool_], solved: NDArray[np.bool_]) -> dict[str, Any]:
    """How many boards are chosen, and their accuracy."""
    count = int(chosen.sum())
    return {"boards": count, "accuracy": 100.0 * float(solved[chosen].mean()) if count else None}


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found; accuracies in percent."""

    board_accuracy: float
    """With the chosen vote."""
    vote: VoteName
    accuracies: dict[str, float]
    """By vote; "single" is the mean over all starts, without any vote."""
    by_givens: dict[int, tuple[float, int]]
    """Number of givens → accuracy with the chosen vote, and the number of such boards."""
    by_difficulty: dict[str, tuple[float, int]]
    """The same by class of difficulty, "easy" to "extreme" (`akorn.sudoku.difficulty`)."""
    answers: NDArray[np.uint8]
    """[B, 81], with the chosen vote."""
    solved: NDArray[np.bool_]
    """[B]"""
    energy: Floats | None
    """[B]: the value that an energy vote compared."""
    confidence: Floats | None
    """[B]: the confidence of the answer, if it comes from one start."""
    samples: Samples | None
    steps: int
    votes: int
    seconds: float
    spent: Spent | None = None
    """With adaptive effort: `steps` and `votes` are then its limit."""

    def as_json(self) -> dict[str, Any]:
        """The scores as JSON values."""
        return {
            "board_accuracy": self.board_accuracy,
            "vote": self.vote,
            "accuracies": self.accuracies,
            "by_givens": {str(k): {"accuracy": a, "boards": n} for k, (a, n) in self.by_givens.items()},
            "by_difficulty": {k: {"accuracy": a, "boards": n} for k, (a, n) in self.by_difficulty.items()},
            "boards": len(self.answers),
            "steps": self.steps,
            "votes": self.votes,
            "seconds": self.seconds,
        } | ({"effort": self.spent.as_json()} if self.spent is not None else {})


def evaluate(
    model: SudokuNet,
    puzzles: ArrayLike,
    solutions: ArrayLike,
    *,
    steps: int | None = None,
    votes: int = 1,
    vote: VoteName | None = None,
    seed: int = 0,
    chunk: int | None = None,
    precision: Precision = "auto",
    energy: EnergyName = "paper",
    samples: bool = False,
    effort: Effort | None = None,
    compile: bool | None = None,
    progress: bool = False,
) -> Evaluation:
    """Score a model on boards, puzzles and solutions [B, 81] with 0 for a blank.

    effort: adaptive effort up to a limit, with the confidence vote, instead of `steps` and `votes`. vote: by default
    "sum", or "average" for a model without energies. compile: by default on CUDA if it pays off. Several processes
    (accelerate launch) share the work and all return the same.
    """
    puzzle, truth = _boards(puzzles), _boards(solutions)
    if puzzle.shape != truth.shape:
        raise ValueError(f"puzzles and solutions must have the same shape, got {puzzle.shape} and {truth.shape}")
    if effort is not None:
        if steps is not None or votes != 1 or samples or vote not in (None, "confidence"):
            raise ValueError("with an effort, steps, votes and the vote are given by it, and samples are not kept")
        _compile(model, compile, len(puzzle) * effort.steps)
        return _with_effort(model, puzzle, truth, effort, seed, chunk, precision, progress)
    steps = model.config.steps if steps is None else steps
    vote = vote if vote is not None else "sum" if model.has_energy else "average"
    if vote not in get_args(VoteName):
        raise ValueError(f"vote is {vote!r}, expected one of {', '.join(get_args(VoteName))}")
    if vote in ("sum", "last") and not model.has_energy:
        others = "confidence, majority or average"
        raise ValueError(f"vote is {vote!r}, but {type(model).__name__} has no energy; use {others}")
    config = VoteConfig(steps, votes, seed, chunk, precision, energy, samples)
    _compile(model, compile, len(puzzle) * votes * steps)

    began = time.monotonic()
    was_training = model.training
    model.eval()
    try:
        with progress_bar(f"{len(puzzle)} boards × {votes}, T = {steps}", wanted=progress) as report:
            tally = voting.run(model, torch.from_numpy(puzzle), config, torch.from_numpy(truth), report)
    finally:
        model.train(was_training)
    answers = _answers(tally, puzzle)
    solved = {name: (answer == truth).all(1) for name, answer in answers.items()}
    assert tally.right is not None  # the solutions are known
    accuracies = {"single": 100.0 * float(tally.right.sum()) / (len(puzzle) * votes)}
    accuracies |= {name: 100.0 * float(right.mean()) for name, right in solved.items()}
    best = tally.best.get(vote)
    return Evaluation(
        accuracies[vote],
        vote,
        accuracies,
        _by_givens(puzzle, solved[vote]),
        _by_difficulty(puzzle, solved[vote]),
        answers[vote],
        solved[vote],
        best.value.cpu().numpy() if best is not None and vote in ("sum", "last") else None,
        best.confidence.cpu().numpy() if best is not None else None,
        _samples(tally) if samples else None,
        steps,
        votes,
        time.monotonic() - began,
    )


def _compile(model: SudokuNet, wanted: bool | None, work: int) -> None:
    """Compile a step if wanted; by default on CUDA, from a certain number of board-steps."""
    if wanted is None:
        wanted = model.device.type == "cuda" and work >= _COMPILE_FROM and missing_for_compile("cuda") is None
    if wanted and not model.compiled:
        model.compile_step(dynamic=False)  # chunks have one shape


def _with_effort(
    model: SudokuNet,
    puzzle: NDArray[np.uint8],
    truth: NDArray[np.uint8],
    effort: Effort,
    seed: int,
    chunk: int | None,
    precision: Precision,
    progress: bool,
) -> Evaluation:
    """`evaluate` with adaptive effort."""
    began = time.monotonic()
    was_training = model.training
    model.eval()
    try:
        with progress_bar(f"{len(puzzle)} boards, effort up to {effort}", wanted=progress) as report:
            found = adaptive.run(
                model, torch.from_numpy(puzzle), effort, seed=seed, precision=precision, chunk=chunk, progress=report
            )
    finally:
        model.train(was_training)
    answers = found.answer.cpu().numpy()
    solved: NDArray[np.bool_] = (answers == truth).all(1)
    used, sure = found.used.cpu().numpy(), found.sure(effort).cpu().numpy()
    accuracy = 100.0 * float(solved.mean())
    spent = Spent(effort, float(used.mean()), used, found.round.cpu().numpy(), sure, solved)
    return Evaluation(
        accuracy, "confidence", {"confidence": accuracy}, _by_givens(puzzle, solved), _by_difficulty(puzzle, solved),
        answers, solved, None, found.confidence.cpu().numpy(), None, effort.steps, effort.starts,
        time.monotonic() - began, spent,
    )  # fmt: skip


@torch.no_grad()
def energy_over_steps(
    model: SudokuNet, puzzles: ArrayLike, steps: int, *, seed: int = 0, energy: EnergyName = "paper"
) -> Floats:
    """[T, B]: the energy before each step, one start per board, all boards at once."""
    puzzle = torch.from_numpy(_boards(puzzles)).to(model.embedding.weight.device)
    x0 = None
    if model.random_start:
        first = torch.zeros(len(puzzle), dtype=torch.int64, device=puzzle.device)
        x0 = start_noise(board_keys(puzzle), first, seed, (81, model.config.channels))
    energies = model.evolve(puzzle, steps, x0=x0, energy=ENERGIES[energy]).energies
    if energies is None:
        raise ValueError(f"{type(model).__name__} has no energy")
    return energies.cpu().numpy()


def _boards(boards: ArrayLike) -> NDArray[np.uint8]:
    array = np.asarray(boards)
    if array.ndim != 2 or array.shape[1] != 81 or array.dtype.kind not in "iu" or not len(array):
        raise ValueError(f"boards must be whole numbers [B, 81], got {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array, dtype=np.uint8)


def _answers(tally: Tally, puzzle: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    """[B, 81] by vote, with the givens kept."""
    answers = {name: best.answer.cpu().numpy() for name, best in tally.best.items() if "-" not in name}
    for name, squares in (("majority", tally.counts), ("average", tally.chances)):
        if squares is not None:
            digits = (squares.argmax(-1) + 1).cpu().numpy().astype(np.uint8)
            answers[name] = np.where(puzzle > 0, puzzle, digits)
    return answers


def _by_givens(puzzle: NDArray[np.uint8], solved: NDArray[np.bool_]) -> dict[int, tuple[float, int]]:
    givens = (puzzle > 0).sum(1)
    groups = ((int(k), solved[givens == k]) for k in np.unique(givens))
    return {k: (100.0 * float(group.mean()), len(group)) for k, group in groups}


def _by_difficulty(puzzle: NDArray[np.uint8], solved: NDArray[np.bool_]) -> dict[str, tuple[float, int]]:
    found = np.array([difficulty_of(board) for board in puzzle])
    groups = ((name, solved[found == name]) for name in DIFFICULTIES)
    return {name: (100.0 * float(group.mean()), len(group)) for name, group in groups if len(group)}


def _samples(tally: Tally) -> Samples:
    def array(values: Tensor | None) -> Floats | None:
        return None if values is None else values.cpu().numpy()

    assert tally.correct is not None  # samples were requested
    assert tally.confidence is not None
    assert tally.answer is not None
    confidence, answer = tally.confidence.cpu().numpy(), tally.answer.cpu().numpy()
    return Samples(array(tally.last), array(tally.total), confidence, tally.correct.cpu().numpy(), answer)
