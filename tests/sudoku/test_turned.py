"""Starts under symmetries: images of boards are Sudokus, answers come back, and nothing depends on the batch."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from akorn import oscillators as osc
from akorn.nn import EnergyFunction
from akorn.sudoku import adaptive
from akorn.sudoku.board import valid_solutions
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.effort import Effort
from akorn.sudoku.exact import solve_exact
from akorn.sudoku.generate import make
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import Result, SudokuNet
from akorn.sudoku.turned import turned

STARTS = 6


@pytest.fixture(scope="module")
def boards() -> tuple[Tensor, Tensor]:
    puzzles, solutions = make(4, (30, 40), 5)
    return torch.from_numpy(np.asarray(puzzles)), torch.from_numpy(np.asarray(solutions))


def samples(boards: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Puzzles, solutions, keys and starts, one row per sample."""
    board = torch.arange(len(boards[0])).repeat_interleave(STARTS)
    puzzle = boards[0][board]
    return puzzle, boards[1][board], board_keys(puzzle), torch.arange(STARTS).repeat(len(boards[0]))


def test_images_are_sudokus_and_start_0_sees_the_board(boards: tuple[Tensor, Tensor]) -> None:
    puzzle, solution, keys, starts = samples(boards)
    seen = turned(keys, starts, 3)
    image, full = seen.image(puzzle), seen.image(solution)
    assert image.dtype == puzzle.dtype
    assert valid_solutions(full.numpy()).all()
    assert torch.equal(torch.where(image > 0, image, full), full)  # the givens agree with the image of the solution
    assert torch.equal((image > 0).sum(1), (puzzle > 0).sum(1))
    first = starts == 0
    assert torch.equal(image[first], puzzle[first])
    assert not bool((full == solution)[~first].all(1).any())


def test_logits_come_back_to_the_squares_and_digits_of_the_board(boards: tuple[Tensor, Tensor]) -> None:
    _, solution, keys, starts = samples(boards)
    seen = turned(keys, starts, 3)
    logits = one_hot(seen.image(solution).long() - 1, 9).float()
    assert torch.equal(seen.back(logits).argmax(-1) + 1, solution.long())
    each_step = torch.stack((logits, -logits))
    assert torch.equal(seen.back(each_step)[1], -seen.back(logits))


def test_a_symmetry_depends_on_seed_puzzle_and_start_alone(boards: tuple[Tensor, Tensor]) -> None:
    _, _, keys, starts = samples(boards)
    whole = turned(keys, starts, 3)
    order = torch.randperm(len(keys), generator=torch.Generator().manual_seed(0))
    for part, other in zip(whole, turned(keys[order], starts[order], 3), strict=True):
        assert torch.equal(part[order], other)
    later = starts > 0
    for part in whole:
        assert len(part[later].unique(dim=0)) == int(later.sum())
    assert not torch.equal(whole.squares, turned(keys, starts, 4).squares)


def test_all_orders_are_about_as_frequent() -> None:
    keys = torch.zeros(6000, dtype=torch.int64)
    seen = turned(keys, torch.arange(1, 6001), 0)
    for values, kinds in ((seen.squares[:, 0], 81), (seen.squares[:, 40], 81), (seen.names[:, 1] - 1, 9)):
        expected = len(keys) / kinds
        assert values.bincount(minlength=kinds).sub(expected).abs().max() < 6 * expected**0.5
    transposed = seen.squares[:, 1] // 9 != seen.squares[:, 0] // 9
    assert abs(float(transposed.float().mean()) - 0.5) < 0.05


def test_symmetries_and_noise_are_independent() -> None:
    starts = torch.arange(1, 4001)
    keys = torch.zeros_like(starts)
    noise = start_noise(keys, starts, 0, (34,))
    names = turned(keys, starts, 0).names[:, 1:].float()
    both = torch.corrcoef(torch.cat((noise, names), 1).T)[:34, 34:]
    assert float(both.abs().max()) < 0.08  # five standard errors


class Fussy(SudokuNet):
    """Knows the solution of every board but the ones it cannot stand, from whatever start."""

    architecture = SudokuConfig.architecture
    random_start = True

    def __init__(self, hated: Tensor) -> None:
        super().__init__(SudokuConfig(channels=8, heads=1, n=2, steps=2))
        self.hated = hated.long()

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
        answers = torch.from_numpy(np.stack([solve_exact(board) for board in puzzle.numpy()]))
        right = 10.0 * one_hot(answers.long() - 1, 9)
        hated = (puzzle[:, None].long() == self.hated).all(2).any(1)
        return Result(torch.where(hated[:, None, None], 0.1 * right.roll(1, -1), right), None, None)

    def compile_step(self, **options: object) -> None:
        """Nothing to compile."""


def test_a_board_that_fails_from_every_start_is_solved_through_an_image(boards: tuple[Tensor, Tensor]) -> None:
    puzzles, solutions = boards
    model = Fussy(puzzles[:2])
    turning = adaptive.run(model, puzzles, Effort(4, 64))
    assert torch.equal(turning.answer, solutions)
    assert turning.start[:2].min() > 0
    assert turning.used.tolist() == [64 + 4 * 64] * 2 + [64] * 2  # the others are solved in the first round, as before
    straight = adaptive.run(model, puzzles, Effort(4, 64, symmetries=False))
    assert (straight.answer == solutions).all(1).tolist() == [False] * 2 + [True] * 2
