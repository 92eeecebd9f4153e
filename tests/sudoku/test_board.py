"""Boards as text and arrays: round trips, and what is said about bad ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from akorn.errors import AkornError
from akorn.sudoku.board import (
    as_board,
    conflict_squares,
    conflicts,
    format_board,
    is_valid_solution,
    parse_board,
    valid_solutions,
)
from akorn.sudoku.exact import count_solutions, solve_exact
from akorn.sudoku.examples import EASY, EXAMPLES

BLANK = "0" * 81
SOLVED = solve_exact(parse_board(EASY))


def put(**squares: str) -> str:
    """An empty board with digits at `r1c4="5"`."""
    text = list(BLANK)
    for name, digit in squares.items():
        row, column = name[1:].split("c")
        text[9 * (int(row) - 1) + int(column) - 1] = digit
    return "".join(text)


@given(st.lists(st.integers(0, 9), min_size=81, max_size=81), st.sampled_from("0._"))
def test_parse_and_format_are_inverse(digits: list[int], blank: str) -> None:
    text = format_board(digits, blank=blank)
    assert len(text) == 81
    assert parse_board(text, check=False).tolist() == digits
    assert format_board(parse_board(text, check=False), blank=blank) == text


@pytest.mark.parametrize(("row_line", "band_line"), [("|", "------+-------+------"), ("┃", "━━━╋━━━"), ("", "")])
def test_pretty_printed_boards_are_read(row_line: str, band_line: str) -> None:
    lines = []
    for row in range(9):
        line = EASY[9 * row : 9 * row + 9].replace("0", ".")
        lines.append(f" {row_line} ".join(" ".join(line[i : i + 3]) for i in (0, 3, 6)))
        if row in (2, 5):
            lines.append(band_line)
    assert format_board(parse_board("\n".join(lines))) == EASY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "81 squares, this text has 0 characters"),
        ("1", "this text has 1 character$"),
        (BLANK[:-1], "this text has 80 characters"),
        (BLANK + "0", "this text has 82 characters"),
        (BLANK[:40] + " " + BLANK[40:], "82 characters, ' ' at place 41"),
        (put(r3c4="x"), r"character 'x' at place 22 \(row 3, column 4\)"),
        (put(r9c9="٣"), r"'٣' at place 81 \(row 9, column 9\)"),
        (put(r1c2="-"), r"'-' at place 2"),
        (put(r1c1="5", r1c4="5"), "digit 5 occurs twice in row 1: columns 1 and 4$"),
        (put(r2c9="7", r8c9="7"), "digit 7 occurs twice in column 9: rows 2 and 8$"),
        (put(r4c4="1", r6c5="1"), "digit 1 occurs twice in box 5: row 4, column 4 and row 6, column 5$"),
        (put(r1c1="5", r1c2="5"), r"twice in row 1: columns 1 and 2 \(and 1 more\)"),
        (put(r1c1="5", r1c4="5", r1c7="5"), "three times in row 1: columns 1, 4 and 7"),
    ],
)
def test_bad_text_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(AkornError, match=said):
        parse_board(text)


@pytest.mark.parametrize(
    ("board", "said"),
    [
        (np.zeros(80, int), r"\[80\]"),
        (np.zeros((81, 1), int), r"\[81, 1\]"),
        (np.full(81, 10), "got 10"),
        (np.full(81, -1), "got -1"),
        (np.zeros(81), "float64"),
    ],
)
def test_bad_arrays_are_refused(board: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        as_board(board)


def test_format_refuses_another_blank() -> None:
    with pytest.raises(ValueError, match="'x'"):
        format_board(np.zeros(81, int), blank="x")


def test_conflicts_name_every_clash_and_its_squares() -> None:
    board = SOLVED.copy()
    board[0] = board[1]  # same row and box; and somewhere below in column 1
    found = conflicts(board)
    assert {conflict.kind for conflict in found} == {"row", "column", "box"}
    assert all(conflict.digit == board[1] and 0 in conflict.squares for conflict in found)
    assert set(np.flatnonzero(conflict_squares(board))) == {s for c in found for s in c.squares}
    assert conflicts(SOLVED) == []
    assert len(conflicts(np.full(81, 3))) == 27


def test_validity_needs_rules_completeness_and_givens() -> None:
    puzzle = parse_board(EASY)
    assert is_valid_solution(SOLVED, puzzle)
    assert not is_valid_solution(puzzle, puzzle)
    other = SOLVED % 9 + 1  # a correct Sudoku with other digits
    assert is_valid_solution(other)
    assert not is_valid_solution(other, puzzle)
    wrong = SOLVED.copy()
    wrong[[0, 1]] = wrong[[1, 0]]
    assert not is_valid_solution(wrong)
    assert valid_solutions(np.stack([SOLVED, puzzle, other, wrong])).tolist() == [True, False, True, False]


def test_examples_have_one_solution_and_grow_harder() -> None:
    boards = [parse_board(text) for text in EXAMPLES.values()]
    assert list(EXAMPLES) == ["easy", "medium", "hard"]
    assert [count_solutions(board) for board in boards] == [1, 1, 1]
    assert [int((board > 0).sum()) for board in boards] == [38, 30, 21]
