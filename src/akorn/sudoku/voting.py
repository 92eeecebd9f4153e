"""Solves many starts of many boards as one flat stream and keeps only the best answers so far.

Sample number `board · K + start` of the stream belongs to chunk `number // chunk`. Chunks have a fixed size (the last
one is padded), so nothing is compiled twice and no number depends on which process computes a chunk. The chunks are
dealt out to the processes in turn, and their results are combined by operations whose order does not matter. Any
number of processes therefore gives exactly the same votes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.runtime import precision, processes
from akorn.sudoku.board import UNITS
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import Runner

EnergyName = Literal["paper", "published"]
Precision = Literal["auto", "float32", "tf32", "bf16"]

ENERGIES = {"paper": osc.energy, "published": osc.published_energy}
_FIXED = 1 << 16  # probabilities are summed as whole numbers, because sums of floats depend on their order
_COMPLETE = sum(1 << digit for digit in range(1, 10))


@dataclass(frozen=True)
class VoteConfig:
    """How a stream is solved."""

    steps: int
    votes: int = 1
    """Starts K of each board."""
    seed: int = 0
    chunk: int | None = None
    """Samples that run at once; None to choose for the device."""
    precision: Precision = "auto"
    """auto: bf16 on CUDA and on CPUs that are faster with it, else float32."""
    energy: EnergyName = "paper"
    """Eq. 3 with its factor ½, or as in the published code."""
    samples: bool = False
    """Keep energies, confidence and correctness of every single sample."""
    squares: bool = True
    """Count digits and add up probabilities, for the majority vote and averaging."""

    def __post_init__(self) -> None:
        for name in ("steps", "votes", "chunk"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.precision not in ("auto", "float32", "tf32", "bf16"):
            raise ValueError(f"precision is {self.precision!r}, expected auto, float32, tf32 or bf16")
        if self.energy not in ENERGIES:
            raise ValueError(f"energy is {self.energy!r}, expected paper or published")


@dataclass(frozen=True)
class Sample:
    """Answers of a chunk of samples, and what a vote can go by."""

    answer: Tensor  # [S, 81] uint8
    confidence: Tensor  # [S]
    energy: Tensor  # [S], summed over the steps; NaN for a model without energy


@dataclass
class Best:
    """For each board, the answer with the lowest value; among equal values, that of the first start."""

    value: Tensor  # [B + 1] float32; the last row is for padding
    start: Tensor  # [B + 1] int64
    answer: Tensor  # [B + 1, 81] uint8
    confidence: Tensor  # [B + 1] float32, of that answer
    energy: Tensor  # [B + 1] float32, of that answer, summed over the steps; NaN for a model without energy

    @classmethod
    def empty(cls, boards: int, device: torch.device) -> Best:
        """Nothing seen yet: a start beyond all others."""
        return cls(
            torch.full((boards + 1,), torch.inf, device=device),
            torch.full((boards + 1,), torch.iinfo(torch.int64).max, device=device),
            torch.zeros(boards + 1, 81, dtype=torch.uint8, device=device),
            torch.zeros(boards + 1, device=device),
            torch.zeros(boards + 1, device=device),
        )

    def add(self, board: Tensor, start: Tensor, value: Tensor, sample: Sample) -> None:
        """Take in samples: boards, starts and values [S]. Waits for nothing."""
        value = torch.where(value.isfinite(), value, torch.inf)  # NaN never wins
        fresh = Best.empty(len(self.value) - 1, value.device)
        lowest = fresh.value.scatter_reduce(0, board, value, "amin")
        ties = torch.where(value == lowest[board], start, fresh.start[board])
        first = fresh.start.scatter_reduce(0, board, ties, "amin")
        fresh.value, fresh.start = lowest, first
        winner = first[board] == start
        row = torch.where(winner, board, len(self.value) - 1)  # the others write to the padding row
        fresh.answer.index_copy_(0, row, sample.answer)
        fresh.confidence.index_copy_(0, row, sample.confidence)
        fresh.energy.index_copy_(0, row, sample.energy)
        self.merge(fresh)

    def merge(self, other: Best) -> None:
        """Take the better answers of the other."""
        better = (other.value < self.value) | ((other.value == self.value) & (other.start < self.start))
        self.value = torch.where(better, other.value, self.value)
        self.start = torch.where(better, other.start, self.start)
        self.answer = torch.where(better[:, None], other.answer, self.answer)
        self.confidence = torch.where(better, other.confidence, self.confidence)
        self.energy = torch.where(better, other.energy, self.energy)

    def shared(self) -> Best:
        """The best over all processes."""
        tensors = (self.value, self.start, self.answer, self.confidence, self.energy)
        parts = zip(*(processes.gather(tensor) for tensor in tensors), strict=True)
        total, *others = (Best(*part) for part in parts)
        for other in others:
            total.merge(other)
        return Best(*(getattr(total, field.name)[:-1] for field in fields(Best)))


@dataclass
class Tally:
    """The results of a stream; tensors on the model's device, the same in every process."""

    best: dict[str, Best]
    """By "last" and "sum" energy and by "confidence" (its value is the negative confidence), and each of them among
    valid boards only: "last-valid" and so on; "first" is the answer of the first start, with value 0."""
    counts: Tensor | None  # [B, 81, 9] int32: how often each digit was answered
    chances: Tensor | None  # [B, 81, 9] int64: sums of probabilities, in units of 1/65536
    right: Tensor | None  # [B] int64: how many starts solved the board, if solutions are known
    last: Tensor | None = None  # [B, K] float32, if samples are kept
    total: Tensor | None = None  # [B, K] float32
    confidence: Tensor | None = None  # [B, K] float32
    correct: Tensor | None = None  # [B, K] bool
    answer: Tensor | None = None  # [B, K] int64, a hash of each answer


def default_chunk(device: torch.device, channels: int) -> int:
    """Samples at once: enough to fill the device, few enough for its memory."""
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        fitting = int(memory / (16e3 * channels))  # about 8 MB per sample with 512 channels
        return max(64, min(4096, 1 << (fitting.bit_length() - 1)))
    return 256 if device.type == "mps" else 64


@torch.no_grad()
def run(
    model: Runner,
    puzzles: Tensor,
    config: VoteConfig,
    solutions: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """Solve every board from K starts; puzzles and solutions: [B, 81]. `progress(done, all)` counts chunks."""
    device = model.device
    puzzles = puzzles.to(device)
    solutions = solutions.to(device) if solutions is not None else None
    boards, votes = len(puzzles), config.votes
    if boards == 0:
        raise ValueError("there is no board to solve")
    stream = boards * votes
    chunk = min(config.chunk or default_chunk(device, model.channels), stream)
    chunks = -(-stream // chunk)
    if config.chunk is None:
        chunk = -(-stream // chunks)  # as even as possible, so that there is little padding
    rank, world = processes.place(device)

    padded = torch.cat([puzzles, puzzles.new_zeros(1, 81)])
    keys = board_keys(padded)
    tally = _empty(boards, config, model.has_energy, solutions is not None, device)
    with numerics(config.precision, model):
        for number in range(rank, chunks, world):
            index = torch.arange(number * chunk, (number + 1) * chunk, device=device)
            inside = index < stream
            board = torch.where(inside, index // votes, boards)  # row `boards` is for padding
            start = torch.where(inside, index % votes, 0)
            x0 = None
            if model.random_start:
                x0 = start_noise(keys[board], start, config.seed, (81, model.channels))
            result = model.evolve(padded[board], config.steps, x0=x0, energy=ENERGIES[config.energy])
            _take(tally, padded, solutions, board, start, result.logits, result.energies)
            if progress is not None:
                progress(min(number + world, chunks), chunks)
    return _shared(tally)


def _empty(boards: int, config: VoteConfig, energy: bool, known: bool, device: torch.device) -> Tally:
    votes = ("last", "sum", "confidence") if energy else ("confidence",)
    names = ["first", *votes, *(f"{vote}-valid" for vote in votes)]

    def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(boards + 1, *shape, dtype=dtype, device=device)

    keep = config.samples
    return Tally(
        {name: Best.empty(boards, device) for name in names},
        zeros(81, 9, dtype=torch.int32) if config.squares else None,
        zeros(81, 9, dtype=torch.int64) if config.squares else None,
        zeros(dtype=torch.int64) if known else None,
        zeros(config.votes, dtype=torch.float32) if keep and energy else None,
        zeros(config.votes, dtype=torch.float32) if keep and energy else None,
        zeros(config.votes, dtype=torch.float32) if keep else None,
        zeros(config.votes, dtype=torch.bool) if keep and known else None,
        zeros(config.votes, dtype=torch.int64) if keep else None,
    )


def _take(
    tally: Tally,
    puzzles: Tensor,
    solutions: Tensor | None,
    board: Tensor,
    start: Tensor,
    logits: Tensor,
    energies: Tensor | None,
) -> None:
    """Add a chunk: boards and starts [S], logits [S, 81, 9], energies [T, S]."""
    chances = logits.float().softmax(-1)  # [S, 81, 9]
    digits = logits.argmax(-1) + 1  # [S, 81]
    puzzle = puzzles[board]
    answer = torch.where(puzzle > 0, puzzle, digits).to(torch.uint8)  # the givens are kept
    total = energies.sum(0) if energies is not None else torch.full_like(chances[:, 0, 0], torch.nan)
    sample = Sample(answer, mean_confidence(chances, puzzle), total)
    tally.best["first"].add(board, start, torch.where(start == 0, 0.0, torch.inf), sample)
    values = {"confidence": -sample.confidence}
    if energies is not None:
        values |= {"last": energies[-1], "sum": total}
    valid = is_valid(answer)
    for name, value in values.items():
        tally.best[name].add(board, start, value, sample)
        tally.best[f"{name}-valid"].add(board, start, torch.where(valid, value, torch.inf), sample)
    for name, kept in (("last", tally.last), ("sum", tally.total)):
        if kept is not None:
            kept[board, start] = values[name]
    if tally.confidence is not None and tally.answer is not None:
        tally.confidence[board, start] = sample.confidence
        tally.answer[board, start] = board_keys(answer)
    if tally.counts is not None and tally.chances is not None:
        hot = torch.nn.functional.one_hot(digits - 1, 9).int()
        tally.counts.index_add_(0, board, hot)
        tally.chances.index_add_(0, board, (chances * _FIXED).round().long())
    if solutions is not None and tally.right is not None:
        truth = torch.cat([solutions, solutions.new_zeros(1, 81)])[board]
        correct = (answer == truth).all(1)  # [S]; givens are always right
        tally.right.index_add_(0, board, correct.long())
        if tally.correct is not None:
            tally.correct[board, start] = correct


def mean_confidence(chances: Tensor, puzzle: Tensor) -> Tensor:
    """[S]: the mean over the blanks of the highest probability; chances [S, 81, 9], puzzles [S, 81]. 1 without blanks.

    Of several starts, the most confident one is right more often than the one with the lowest energy (“C-voting”, arXiv
    2604.13521), and a model without an energy has a confidence too.
    """
    blank = puzzle == 0
    count = blank.sum(-1)
    mean = (chances.amax(-1) * blank).sum(-1) / count.clamp(min=1)
    return torch.where(count > 0, mean, 1.0)


def _shared(tally: Tally) -> Tally:
    """The tally over all processes, without the row for padding."""

    def total(values: Tensor | None) -> Tensor | None:
        return None if values is None else processes.add_up(values[:-1])

    return Tally(
        {name: best.shared() for name, best in tally.best.items()},
        total(tally.counts),
        total(tally.chances),
        total(tally.right),
        total(tally.last),  # each sample belongs to one process and is zero in the others
        total(tally.total),
        total(tally.confidence),
        total(tally.correct.int()).bool() if tally.correct is not None else None,  # type: ignore[union-attr]
        total(tally.answer),
    )


def is_valid(boards: Tensor) -> Tensor:
    """[S]: which filled boards [S, 81] are correct. Only distinct powers of two add up to these nine bits."""
    bits = torch.ones((), dtype=torch.int32, device=boards.device) << boards.int()
    return (bits[:, _units(boards.device)].sum(-1) == _COMPLETE).all(1)


@cache
def _units(device: torch.device) -> Tensor:
    """Kept on the device: a copy for every chunk would make the host wait for all pending work."""
    return torch.from_numpy(UNITS).to(device)


def numerics(name: Precision, model: Runner) -> AbstractContextManager[None]:
    """The precision of products while a model runs; auto is bf16 where that is faster."""
    if name == "auto":
        name = "bf16" if model.device.type == "cuda" or model.narrow_on_cpu else "float32"
    return precision.numerics(name, autocast=model.device)
