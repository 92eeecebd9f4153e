"""Symmetries keep a Sudoku valid; batches are what was asked for."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.errors import AkornError
from akorn.sudoku.board import valid_solutions
from akorn.sudoku.board_files import write_csv
from akorn.sudoku.data import SudokuData, load
from akorn.sudoku.exact import count_solutions
from akorn.sudoku.generate import make
from akorn.sudoku.symmetry import Symmetries

PUZZLES, SOLUTIONS = make(64, (28, 42), seed=2)
NONE = {"digits": False, "rows": False, "columns": False, "transpose": False}


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(PUZZLES), torch.from_numpy(SOLUTIONS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [{}, *({**NONE, name: True} for name in NONE)], ids=["all", *NONE])
def test_symmetries_keep_validity_and_givens(kind: dict[str, bool], seed: int) -> None:
    puzzle, solution = Symmetries(**kind)(*tensors(), torch.Generator().manual_seed(seed))
    assert puzzle.dtype == solution.dtype == torch.uint8
    assert valid_solutions(solution.numpy()).all()
    assert ((puzzle == 0) | (puzzle == solution)).all()
    assert torch.equal((puzzle > 0).sum(1), torch.from_numpy(PUZZLES > 0).sum(1))
    assert (solution != torch.from_numpy(SOLUTIONS)).any()
    assert all(count_solutions(board) == 1 for board in puzzle[:4].numpy())


def test_each_symmetry_changes_only_what_it_says() -> None:
    puzzle, solution = tensors()
    generator = torch.Generator().manual_seed(0)
    same, also = Symmetries(**NONE)(puzzle, solution, generator)
    assert torch.equal(same, puzzle)
    assert torch.equal(also, solution)

    renamed, _ = Symmetries(**{**NONE, "digits": True})(puzzle, solution, generator)
    assert torch.equal(renamed == 0, puzzle == 0)  # the blanks stay where they are

    _, moved = Symmetries(**{**NONE, "rows": True})(puzzle, solution, generator)
    for old, new in zip(SOLUTIONS.reshape(-1, 9, 9), moved.numpy().reshape(-1, 9, 9), strict=True):
        place = [old.tolist().index(row) for row in new.tolist()]  # whole rows, with their bands
        assert sorted(place) == list(range(9))
        assert all(len({row // 3 for row in place[i : i + 3]}) == 1 for i in (0, 3, 6))

    _, moved = Symmetries(**{**NONE, "columns": True})(puzzle, solution, generator)
    for old, new in zip(SOLUTIONS.reshape(-1, 9, 9), moved.numpy().reshape(-1, 9, 9), strict=True):
        place = [old.T.tolist().index(column) for column in new.T.tolist()]
        assert sorted(place) == list(range(9))
        assert all(len({column // 3 for column in place[i : i + 3]}) == 1 for i in (0, 3, 6))

    _, turned = Symmetries(**{**NONE, "transpose": True})(puzzle, solution, generator)
    flipped = turned.view(-1, 9, 9).mT.flatten(1)
    is_turned = (flipped == solution).all(1)
    assert (is_turned | (turned == solution).all(1)).all()
    assert 15 < int(is_turned.sum()) < 49  # half of 64 boards, standard deviation 4


def test_boards_of_a_batch_get_symmetries_of_their_own_evenly() -> None:
    puzzle, solution = (board[:1].expand(6000, 81) for board in tensors())
    _, moved = Symmetries()(puzzle, solution, torch.Generator().manual_seed(1))
    assert len(torch.unique(moved, dim=0)) > 5900
    first = Counter(moved[:, 0].tolist())  # every digit comes to every square equally often
    assert min(first.values()) > 540  # 667 expected, standard deviation 24
    assert max(first.values()) < 790
    many = solution[:1].expand(30_000, 81)  # enough that each of the 6⁴ orders comes up
    _, rows = Symmetries(**{**NONE, "rows": True})(many, many, torch.Generator().manual_seed(1))
    assert len(torch.unique(rows, dim=0)) == 6**4


def test_symmetries_repeat_with_the_generator() -> None:
    draws = [Symmetries()(*tensors(), torch.Generator().manual_seed(seed))[1] for seed in (3, 3, 4)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_symmetries_refuse_other_shapes() -> None:
    puzzle, solution = tensors()
    for left, right in ((puzzle[0], solution[0]), (puzzle, solution[:3]), (puzzle[:, :80], solution[:, :80])):
        with pytest.raises(ValueError, match=r"\[B, 81\]"):
            Symmetries()(left, right)


def test_batches_are_the_boards_asked_for() -> None:
    data = SudokuData(PUZZLES, SOLUTIONS)
    assert len(data) == 64
    puzzle, solution = data.batch(torch.tensor([5, 0, 5]))
    assert puzzle.dtype == solution.dtype == torch.int64
    assert np.array_equal(puzzle.numpy(), PUZZLES[[5, 0, 5]])
    assert np.array_equal(solution.numpy(), SOLUTIONS[[5, 0, 5]])
    assert data.puzzles.dtype == torch.uint8


def test_batches_with_symmetries_repeat_and_leave_the_data_alone() -> None:
    data = SudokuData(PUZZLES, SOLUTIONS, symmetries=Symmetries())
    before = data.fingerprint()
    one, two = (data.batch(torch.arange(64), torch.Generator().manual_seed(9)) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert valid_solutions(one[1].numpy().astype(np.uint8)).all()
    assert not np.array_equal(one[1].numpy(), SOLUTIONS)
    assert data.fingerprint() == before
    with pytest.raises(ValueError, match="generator"):
        data.batch(torch.arange(4))


def test_fingerprint_tells_data_apart() -> None:
    prints = {
        SudokuData(PUZZLES, SOLUTIONS).fingerprint(),
        SudokuData(PUZZLES[::-1], SOLUTIONS[::-1]).fingerprint(),
        SudokuData(SOLUTIONS, SOLUTIONS).fingerprint(),
        SudokuData(PUZZLES[:63], SOLUTIONS[:63]).fingerprint(),
    }
    assert len(prints) == 4
    assert SudokuData(PUZZLES.astype(np.int64), SOLUTIONS.copy()).fingerprint() in prints


@pytest.mark.parametrize(
    ("puzzles", "solutions"),
    [
        (PUZZLES, SOLUTIONS[:5]),
        (PUZZLES[0], SOLUTIONS[0]),
        (PUZZLES[:0], SOLUTIONS[:0]),
        (PUZZLES, PUZZLES),
        (PUZZLES.astype(int) - 1, SOLUTIONS),
        (PUZZLES, SOLUTIONS.astype(int) + 256),
    ],
)
def test_bad_arrays_are_refused(puzzles: np.ndarray, solutions: np.ndarray) -> None:
    with pytest.raises(ValueError, match="puzzles"):
        SudokuData(puzzles, solutions)


def test_load_takes_a_file_a_folder_or_nothing(tmp_path: Path) -> None:
    write_csv(tmp_path / "boards.csv", PUZZLES, SOLUTIONS)
    satnet = tmp_path / "satnet"
    satnet.mkdir()
    for name, boards in (("features", PUZZLES), ("labels", SOLUTIONS)):
        torch.save(torch.from_numpy(np.eye(10)[boards][:, :, 1:].reshape(-1, 9, 9, 9)), satnet / f"{name}.pt")
    for path in (tmp_path / "boards.csv", str(satnet)):
        puzzles, solutions = load(path)
        assert np.array_equal(puzzles, PUZZLES)
        assert np.array_equal(solutions, SOLUTIONS)
    made = load(None, count=5, givens=40, seed=3)
    assert np.array_equal(made[0], make(5, 40, 3)[0])
    with pytest.raises(AkornError, match=r"without features.pt and labels.pt"):
        load(tmp_path)
    with pytest.raises(AkornError, match="cannot read"):
        load(tmp_path / "none.csv")
