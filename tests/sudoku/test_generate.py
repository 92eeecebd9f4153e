"""The exact solver and the generator: one solution, the requested givens, and only the seed decides."""

import random

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.sudoku import generate
from akorn.sudoku.board import conflicts, is_valid_solution, parse_board, valid_solutions
from akorn.sudoku.digging import Digger, random_solution
from akorn.sudoku.exact import count_solutions, solve_exact, to_board, to_candidates
from akorn.sudoku.examples import EASY


def plain_count(board: list[int], limit: int) -> int:
    """Solutions by trying digits square by square: slow, and obviously right."""
    best: tuple[int, list[int]] | None = None
    for square in range(81):
        if board[square] == 0:
            row, column = divmod(square, 9)
            seen = {board[9 * row + i] for i in range(9)} | {board[9 * i + column] for i in range(9)}
            corner = 27 * (row // 3) + 3 * (column // 3)
            seen |= {board[corner + 9 * i + j] for i in range(3) for j in range(3)}
            options = [digit for digit in range(1, 10) if digit not in seen]
            if best is None or len(options) < len(best[1]):
                best = square, options
    if best is None:
        return 1
    found = 0
    for digit in best[1]:
        board[best[0]] = digit
        found += plain_count(board, limit - found)
        if found >= limit:
            break
    board[best[0]] = 0
    return found


@pytest.mark.parametrize("seed", range(6))
def test_exact_solver_counts_as_a_plain_search_does(seed: int) -> None:
    rng = random.Random(seed)
    puzzle = generate.make(1, 30, seed)[0][0]
    for _ in range(8):  # fewer givens: more than one solution; a changed one: often none
        board = puzzle.copy()
        givens = np.flatnonzero(board).tolist()
        for square in rng.sample(givens, 3):
            board[square] = 0
        if rng.random() < 0.5:
            board[rng.choice(np.flatnonzero(board).tolist())] = rng.randint(1, 9)
        if not conflicts(board):
            assert count_solutions(board, limit=20) == plain_count(board.tolist(), 20)


def test_exact_solver_at_its_limits() -> None:
    empty = np.zeros(81, dtype=np.uint8)
    assert count_solutions(empty, limit=5) == 5
    assert is_valid_solution(solve_exact(empty))
    solved = solve_exact(parse_board(EASY))
    assert is_valid_solution(solved, parse_board(EASY))
    assert count_solutions(solved) == 1
    assert np.array_equal(to_board(to_candidates(solved)), solved)
    impossible = empty.copy()
    impossible[:8] = range(1, 9)
    impossible[17] = 9  # the ninth square of row 1 has no digit left
    assert count_solutions(impossible) == 0
    assert solve_exact(impossible) is None
    clash = empty.copy()
    clash[:2] = 4
    assert count_solutions(clash) == 0
    with pytest.raises(ValueError, match="got 0"):
        count_solutions(empty, limit=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("givens", [80, 50, (31, 42), (26, 30), 24])
def test_boards_have_one_solution_and_the_asked_givens(givens: int | tuple[int, int], seed: int) -> None:
    puzzles, solutions = generate.make(8, givens, seed)
    low, high = (givens, givens) if isinstance(givens, int) else givens
    assert puzzles.shape == solutions.shape == (8, 81)
    assert puzzles.dtype == solutions.dtype == np.uint8
    counts = (puzzles > 0).sum(1)
    assert ((counts >= low) & (counts <= high)).all()
    assert valid_solutions(solutions).all()
    for puzzle, solution in zip(puzzles, solutions, strict=True):
        assert count_solutions(puzzle) == 1
        assert np.array_equal(solve_exact(puzzle), solution)


def test_the_sparsest_board_that_is_promised() -> None:
    puzzles, _ = generate.make(1, generate.FEWEST, seed=1)
    assert (puzzles > 0).sum() == 22
    assert count_solutions(puzzles[0]) == 1


def test_digging_with_a_pool_is_digging_square_by_square() -> None:
    rng = random.Random(5)
    digger = Digger(random_solution(rng))
    solution = to_board(digger.solution)
    order = list(range(81))
    for _ in range(4):  # the pool is shared by the orders
        rng.shuffle(order)
        puzzle = solution.copy()
        for square in order:
            if (puzzle > 0).sum() == 27:
                break
            kept, puzzle[square] = puzzle[square], 0
            if count_solutions(puzzle) > 1:
                puzzle[square] = kept
        kept_mask = digger.dig(order, 27)
        if (puzzle > 0).sum() > 27:
            assert kept_mask is None
        else:
            assert [kept_mask >> square & 1 for square in range(81)] == (puzzle > 0).astype(int).tolist()


def test_the_range_is_drawn_evenly() -> None:
    puzzles, _ = generate.make(1200, (36, 47), seed=2)
    counts = np.bincount((puzzles > 0).sum(1), minlength=48)[36:]
    assert counts.sum() == 1200
    assert counts.min() > 60  # 100 expected, standard deviation 9.6
    assert counts.max() < 140


def test_seed_alone_decides() -> None:
    one = generate.make(130, (40, 50), seed=7)
    two = generate.make(130, (40, 50), seed=7, workers=2)
    short = generate.make(70, (40, 50), seed=7)
    other = generate.make(70, (40, 50), seed=8)
    for part in (0, 1):
        assert np.array_equal(one[part], two[part])
        assert np.array_equal(one[part][:70], short[part])
        assert not (other[part] == short[part]).all(1).any()
    assert len(np.unique(one[1], axis=0)) == 130


def test_progress_counts_up_to_the_end() -> None:
    calls: list[tuple[int, int]] = []
    generate.make(10, (28, 30), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"givens": 21}, "21 givens cannot be generated, the minimum is 22: digging random solutions"),
        ({"givens": (17, 34)}, "17 givens"),
        ({"givens": 81}, "81 givens cannot be generated, the maximum is 80"),
        ({"givens": (40, 30)}, "from 40 down to 30"),
        ({"count": 0}, "at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(options: dict[str, object], said: str) -> None:
    with pytest.raises(AkornError, match=said):
        generate.make(**{"count": 1, **options})


def test_givens_as_text() -> None:
    assert generate.parse_givens("30") == (30, 30)
    assert generate.parse_givens("31-42") == (31, 42)
    for bad in ("", "a", "31-", "31-b", "-30", "3.5"):
        with pytest.raises(AkornError, match="expected a number of givens"):
            generate.parse_givens(bad)
    with pytest.raises(AkornError, match="minimum is 22"):
        generate.parse_givens("17-34")
