"""Adaptive effort: boards whose answers are not yet sure get more steps and more starts, up to a limit.

The effort comes in rounds. The first gives every board one start and 64 steps; each later round gives the boards that
are still open eight times as many starts of twice as many steps, and the last round gives the limit. All starts of
a board run side by side and are read every 32 steps. A board leaves as soon as one of its answers is sure:

    confidence = mean over the blanks of the highest probability ≥ threshold.

A board that leaves makes room for the next one, so the device always works on open boards. The answer is the most
confident one of all readings. The solution is never looked at, and the rules of Sudoku only with stop="valid". All
starts but the first see the board under a random symmetry, unless symmetries=False (`turned.py`).

No answer depends on the other boards: any number of processes or boards gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.nn import EnergyFunction
from akorn.runtime import processes
from akorn.sudoku.effort import CHECK, Effort, Stop
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import Runner
from akorn.sudoku.stepping import PIECE, State, Stepper, stepper_of
from akorn.sudoku.turned import Turned, turned
from akorn.sudoku.voting import Precision, default_chunk, is_valid, mean_confidence, numerics


@dataclass
class Found:
    """For each board, the most confident answer and the effort it took; tensors [B], the same in every process."""

    answer: Tensor  # [B, 81] uint8
    confidence: Tensor  # float32
    valid: Tensor  # bool: whether the answer follows the rules
    start: Tensor  # int64: the number of the start it is from
    steps: Tensor  # int64: how many steps that start had taken
    total: Tensor  # int64: T of the round that it is from
    energy: Tensor  # float32: summed over these steps; NaN where no energies were wanted
    used: Tensor  # int64: steps of all starts in all rounds together
    round: Tensor  # int64: the last round that the board was in, from 0

    @classmethod
    def empty(cls, boards: int, device: torch.device) -> Found:
        """Nothing found yet."""

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(boards, *shape, dtype=dtype, device=device)

        confidence = zeros(dtype=torch.float32) - 1  # below every answer's
        return cls(
            zeros(81, dtype=torch.uint8), confidence, zeros(dtype=torch.bool), zeros(), zeros(),
            zeros(), zeros(dtype=torch.float32), zeros(), zeros(),
        )  # fmt: skip

    def score(self, stop: Stop) -> Tensor:
        """What an answer must surpass, [B]."""
        return _score(self.confidence, self.valid, stop)

    def sure(self, effort: Effort) -> Tensor:
        """[B] bool: the boards whose answers are good enough."""
        return self.valid if effort.stop == "valid" else self.confidence >= effort.sure

    def share(self, mine: Tensor) -> None:
        """Take the rows of the other processes; `mine`: [B] bool, the rows that were computed here."""
        for field in fields(self):
            values: Tensor = getattr(self, field.name)
            kept = torch.where(mine.view(-1, *[1] * (values.ndim - 1)), values, torch.zeros_like(values))
            setattr(self, field.name, _add_up(kept))


def _score(confidence: Tensor, valid: Tensor, stop: Stop) -> Tensor:
    """What the best answer maximises: the confidence; with stop="valid" every valid answer is above all others."""
    return confidence + valid if stop == "valid" else confidence


def _add_up(values: Tensor) -> Tensor:
    return processes.add_up(values.int()).to(values.dtype) if values.dtype == torch.bool else processes.add_up(values)


@torch.no_grad()
def run(
    model: Runner,
    puzzles: Tensor,
    effort: Effort,
    *,
    seed: int = 0,
    precision: Precision = "auto",
    chunk: int | None = None,
    energy: EnergyFunction | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Solve boards [B, 81], each with as much effort as it needs.

    Args:
        model: any Sudoku model; without random starts, starts differ by their symmetries alone.
        puzzles: [B, 81].
        effort: the limit, and when it is enough.
        seed: the seed of the starts.
        precision: that of products; auto is bf16 where that is faster, else float32.
        chunk: samples that run at once; by default what suits the device.
        energy: add up this energy, for models that have one; None for none.
        progress: called with the number of boards that left and of all boards.

    """
    if len(puzzles) == 0:
        raise ValueError("there is no board to solve")
    device = model.device
    puzzles = puzzles.to(device)
    found = Found.empty(len(puzzles), device)
    rank, world = processes.place(device)
    chunk = chunk or default_chunk(device, model.channels)
    energy = energy if model.has_energy else None
    todo = torch.arange(len(puzzles), device=device)
    with numerics(precision, model):
        for number, (starts, steps) in enumerate(effort.rounds):
            found.round[todo] = number
            here = todo[rank::world]
            starts = starts if model.random_start or effort.symmetries else 1
            pool = _Pool(model, puzzles, found, effort, starts, steps, seed, energy)
            left = len(puzzles) - len(todo)
            for gone in pool.run(here, chunk):
                if progress is not None:
                    progress(min(left + gone * world, len(puzzles)), len(puzzles))
            mine = torch.zeros(len(puzzles), dtype=torch.bool, device=device)
            mine[here] = True
            if world > 1:
                if rank == 0:
                    mine |= ~torch.zeros_like(mine).index_fill(0, todo, True)  # boards that left before count once
                found.share(mine)
            todo = todo[~found.sure(effort)[todo]]
            if not len(todo):
                break
    if progress is not None:
        progress(len(puzzles), len(puzzles))
    return found


class _Pool:
    """One round: groups of samples, one group per open board, which take steps together."""

    def __init__(
        self,
        model: Runner,
        puzzles: Tensor,
        found: Found,
        effort: Effort,
        starts: int,
        steps: int,
        seed: int,
        energy: EnergyFunction | None,
    ) -> None:
        self.model, self.puzzles, self.found, self.effort = model, puzzles, found, effort
        self.starts, self.steps, self.seed, self.energy = starts, steps, seed, energy
        self.keys = board_keys(puzzles)
        stepper = stepper_of(model)
        self.stepper: Stepper = stepper if stepper is not None else _AllAtOnce(model)
        self.check = CHECK if stepper is not None else steps

    def run(self, queue: Tensor, chunk: int) -> Iterator[int]:
        """Give each board of the queue [b] this round's effort, or as much of it as it needs; yields how many left."""
        if not len(queue):
            return
        taken = min(self._groups(len(queue), chunk), len(queue))
        self._fill(queue[:taken])
        running = taken
        while running:
            self._advance()
            active = self.active.tolist()  # the only place where the host waits
            free = [group for group, is_active in enumerate(active) if not is_active]
            fresh = free[: len(queue) - taken]
            if fresh:
                self._replace(fresh, queue[taken : taken + len(fresh)])
                taken += len(fresh)
            running = len(active) - len(free) + len(fresh)
            if running and taken == len(queue):
                self._pack(running, chunk)
            yield taken - running

    def _groups(self, boards: int, chunk: int) -> int:
        """How many groups run at once: on a GPU pieces of one size, as many as a power of two."""
        grain = PIECE.get(self.puzzles.device.type, 1)
        most = max(1, chunk // self.starts)
        if grain == 1:
            return min(boards, most)
        fewest = -(-grain // self.starts)
        groups = fewest
        while groups < min(boards, most):
            groups *= 2
        return groups

    def _begin(self, boards: Tensor) -> tuple[State, Turned | None]:
        """The states of all starts of boards [b], [b · starts, ...], and under which symmetries they are."""
        board = boards.repeat_interleave(self.starts)
        start = torch.arange(self.starts, device=board.device).repeat(len(boards))
        puzzle, x0, seen = self.puzzles[board], None, None
        if self.model.random_start:
            x0 = start_noise(self.keys[board], start, self.seed, (81, self.model.channels))
        if self.effort.symmetries and self.starts > 1:
            seen = turned(self.keys[board], start, self.seed)
            puzzle = seen.image(puzzle)
        return self.stepper.begin(puzzle, x0, self.steps), seen

    def _fill(self, boards: Tensor) -> None:
        self.board = boards.clone()
        self.state, self.turned = self._begin(boards)
        self.age = torch.zeros_like(boards)
        self.active = torch.ones_like(boards, dtype=torch.bool)
        self.sum = torch.zeros(len(boards) * self.starts, device=boards.device)
        self._pad()

    def _pad(self) -> None:
        """Fill up to whole pieces with groups that are ignored."""
        groups = self._groups(len(self.board), 1 << 62)
        kept = torch.arange(groups, device=self.board.device) % len(self.board)
        padding = torch.arange(groups, device=self.board.device) >= len(self.board)
        if groups > len(self.board):
            self._keep(kept)
            self.active = self.active & ~padding

    def _keep(self, groups: Tensor) -> None:
        """Keep only these groups, in this order."""
        rows = (groups[:, None] * self.starts + torch.arange(self.starts, device=groups.device)).flatten()
        self.state = tuple(part[rows] for part in self.state)
        if self.turned is not None:
            self.turned = Turned(*(part[rows] for part in self.turned))
        self.sum = self.sum[rows]
        self.board, self.age, self.active = self.board[groups], self.age[groups], self.active[groups]

    def _replace(self, groups: list[int], boards: Tensor) -> None:
        """Put new boards in the place of groups that have left."""
        place = torch.tensor(groups, device=boards.device)
        rows = (place[:, None] * self.starts + torch.arange(self.starts, device=boards.device)).flatten()
        state, seen = self._begin(boards)
        for part, fresh in zip((*self.state, *(self.turned or ())), (*state, *(seen or ())), strict=True):
            part[rows] = fresh.to(part.dtype)
        self.sum[rows] = 0
        self.board[place], self.age[place], self.active[place] = boards, 0, True

    def _pack(self, running: int, chunk: int) -> None:
        """Drop groups that have left, if that makes the pool smaller."""
        if self._groups(running, chunk) < len(self.board):
            self._keep(self.active.nonzero().squeeze(1))
            self._pad()

    def _advance(self) -> None:
        """Some steps, and a reading. Waits for nothing."""
        self.state, energies = self.stepper.advance(self.state, self.check, self.energy)
        if energies is not None:
            self.sum += energies.float().sum(0)
        self.age += self.check
        puzzle = self.puzzles[self.board.repeat_interleave(self.starts)]
        logits = self.stepper.read(self.state).float()  # [S, 81, 9]
        logits = logits if self.turned is None else self.turned.back(logits)
        answer = torch.where(puzzle > 0, puzzle, logits.argmax(-1) + 1).to(torch.uint8)
        confidence = mean_confidence(logits.softmax(-1), puzzle)
        confidence = torch.where(confidence.isfinite(), confidence, 0.0)  # NaN never wins
        self._take(answer, confidence)
        self.found.used.index_add_(0, self.board, self.active * (self.check * self.starts))
        self.active = self.active & ~self.found.sure(self.effort)[self.board] & (self.age < self.steps)

    def _take(self, answer: Tensor, confidence: Tensor) -> None:
        """Keep the best answer of each group where it is better than what its board has."""
        found, stop = self.found, self.effort.stop
        valid = is_valid(answer)
        score = _score(confidence, valid, stop).view(-1, self.starts)
        best, start = score.max(1)  # the first of equal ones
        better = self.active & (best > found.score(stop)[self.board])
        row = torch.arange(len(start), device=start.device) * self.starts + start
        # Groups that found nothing better write what is already there; a padding group shares its board with another
        # one, so it writes into a separate row, which is dropped.
        spare = len(found.used)
        board = torch.where(better, self.board, spare)
        for field, new in (
            ("answer", answer[row]),
            ("confidence", confidence[row]),
            ("valid", valid[row]),
            ("start", start),
            ("steps", self.age),
            ("total", torch.full_like(self.age, self.steps)),
            ("energy", self.sum[row] if self.energy is not None else torch.full_like(confidence[row], torch.nan)),
        ):
            old: Tensor = getattr(found, field)
            wide = torch.cat([old, old[:1]])
            wide[board] = new
            setattr(found, field, wide[:-1])


class _AllAtOnce:
    """A model that only takes all steps of a round at once: its answers are read at the end."""

    def __init__(self, model: Runner) -> None:
        self.model = model

    def begin(self, puzzle: Tensor, x0: Tensor | None, steps: int) -> State:
        return (puzzle, x0) if x0 is not None else (puzzle,)

    def advance(self, state: State, steps: int, energy: EnergyFunction | None) -> tuple[State, Tensor | None]:
        result = self.model.evolve(
            state[0], steps, x0=state[1] if len(state) > 1 else None, energy=osc.energy if energy is None else energy
        )
        self.logits = result.logits
        return state, None if energy is None else result.energies

    def read(self, state: State) -> Tensor:
        return self.logits
