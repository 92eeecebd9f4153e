"""Difficulty: search nodes against a plain count, the classes, and boards made to order."""

import numpy as np
import pytest

import akorn.sudoku
from akorn.errors import AkornError
from akorn.sudoku import exact
from akorn.sudoku.board import parse_board
from akorn.sudoku.difficulty import (
    DIFFICULTIES,
    EXTREME,
    count_difficulties,
    difficulty_of,
    rounds_of_singles,
    search_nodes,
)
from akorn.sudoku.difficulty import EASY as EASY_ROUNDS
from akorn.sudoku.exact import count_solutions, has_solutions, solve_exact
from akorn.sudoku.examples import EASY, HARD
from akorn.sudoku.generate import GIVENS_OF, make

EMPTY = np.zeros(81, dtype=np.uint8)
SOLVED = solve_exact(parse_board(EASY))


def tree(x: int) -> int:
    """The nodes of the search, by recursion."""
    x = exact.propagate(x)
    if not x or x.bit_count() == 81:
        return 1
    square = exact.choose_square(x)
    rest = x & ~exact.SQUARE_MASKS[square]
    return 1 + sum(tree(rest | bit) for bit in exact.CANDIDATES[square] if x & bit)


def rounds(board: list[int]) -> int | None:
    """How many rounds it takes to fill in, again and again, all squares with one candidate left."""
    looks = 0
    while 0 in board:
        found = {}
        for square in [square for square in range(81) if board[square] == 0]:
            row, column = divmod(square, 9)
            corner = 27 * (row // 3) + 3 * (column // 3)
            seen = {board[9 * row + i] for i in range(9)} | {board[9 * i + column] for i in range(9)}
            seen |= {board[corner + 9 * i + j] for i in range(3) for j in range(3)}
            left = set(range(1, 10)) - seen
            if len(left) == 1:
                found[square] = left.pop()
        if not found:
            return None
        for square, digit in found.items():
            board[square] = digit
        looks += 1
    return looks


def test_nodes_and_classes_against_plain_counts() -> None:
    puzzles = np.concatenate([make(25, givens, seed=3)[0] for givens in (25, 28, 31, 35)])
    found = set()
    for puzzle in puzzles:
        nodes = tree(exact.to_candidates(puzzle))
        assert search_nodes(puzzle) == nodes
        looks = rounds(puzzle.tolist())
        assert rounds_of_singles(puzzle) == looks
        easy = looks is not None and looks <= EASY_ROUNDS
        expected = "easy" if easy else "medium" if nodes == 1 else "hard" if nodes < EXTREME else "extreme"
        assert difficulty_of(puzzle) == expected
        found.add(expected)
        found.add("long" if looks is not None and not easy else "short")
    assert {"easy", "medium", "hard", "long"} <= found  # long: naked singles alone, and yet not easy
    assert sum(count_difficulties(puzzles).values()) == len(puzzles)
    assert list(count_difficulties(puzzles)) == [name for name in DIFFICULTIES if name in found]


def test_difficulty_is_not_the_number_of_givens() -> None:
    puzzles = make(200, 31, seed=0)[0]
    assert len(count_difficulties(puzzles)) >= 3
    assert akorn.sudoku.search_nodes(parse_board(HARD)) == 1  # 21 givens, and still no guess
    assert difficulty_of(parse_board(HARD)) == "medium"
    assert akorn.sudoku.difficulty_of(parse_board(EASY)) == "easy"
    assert difficulty_of(SOLVED) == "easy"
    assert rounds_of_singles(SOLVED) == 0
    assert rounds_of_singles(EMPTY) is None


def test_the_search_is_given_up_at_its_limit() -> None:
    assert search_nodes(EMPTY, limit=50) == 50
    assert difficulty_of(EMPTY) == "extreme"
    for limited in (search_nodes, has_solutions):
        with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
            limited(EMPTY, 0)
    with pytest.raises(ValueError, match=r"shape \[81\]"):
        difficulty_of([1, 2, 3])


def test_no_solution_one_or_several() -> None:
    assert has_solutions(parse_board(HARD)) == 1
    assert has_solutions(EMPTY) == "several"
    assert has_solutions(EMPTY, limit=1) is None  # one node does not tell
    none = parse_board("12345678" + "0" * 9 + "9" + "0" * 63, check=False)
    none[:9] = [1, 2, 3, 4, 5, 6, 7, 8, 0]
    none[9:] = 0
    none[17] = 9  # the corner's last digit stands in its box already
    assert has_solutions(none) == 0
    for puzzle in make(20, 28, seed=2)[0]:
        puzzle[np.flatnonzero(puzzle)[:3]] = 0
        assert has_solutions(puzzle) == {0: 0, 1: 1, 2: "several"}[count_solutions(puzzle)]


@pytest.mark.parametrize("wanted", DIFFICULTIES)
def test_boards_are_made_to_order(wanted: str) -> None:
    count = 2 if wanted == "extreme" else 6
    puzzles, solutions = make(count, seed=1, difficulty=wanted)  # type: ignore[arg-type]
    low, high = GIVENS_OF[wanted]  # type: ignore[index]
    for puzzle, solution in zip(puzzles, solutions, strict=True):
        assert difficulty_of(puzzle) == wanted
        assert low <= (puzzle > 0).sum() <= high
        assert count_solutions(puzzle) == 1
        assert np.array_equal(solve_exact(puzzle), solution)
    again, _ = make(1, seed=1, difficulty=wanted)  # type: ignore[arg-type]
    assert np.array_equal(again[0], puzzles[0])  # the first of a longer run are those of a shorter one
    other, _ = make(1, seed=2, difficulty=wanted)  # type: ignore[arg-type]
    assert not np.array_equal(other[0], puzzles[0])


def test_what_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AkornError, match=r"none of 20,000 boards with 78 to 80 givens was extreme; try 25-28 givens"):
        make(1, (78, 80), difficulty="extreme")
    with pytest.raises(AkornError, match="'simple', expected one of easy, medium, hard, extreme"):
        make(1, difficulty="simple")  # type: ignore[arg-type]
