"""Boards as text and as arrays: parsing, formatting, and messages that say what is wrong with a board.

A board is a uint8 array of 81 digits, row by row, 0 for a blank. Rows, columns and boxes are counted from 1 in every
message, boxes row by row like the squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.errors import AkornError
from akorn.sudoku.grids import BLANKS, RULERS, is_ruler, join_rows

Board = NDArray[np.uint8]

_DIGITS = {**dict.fromkeys(BLANKS, 0), **{str(digit): digit for digit in range(1, 10)}}

_GRID = np.arange(81).reshape(9, 9)
# [27, 9] squares of each unit: 9 rows, 9 columns, 9 boxes
UNITS = np.concatenate([_GRID, _GRID.T, _GRID.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)])
_KINDS = ("row", "column", "box")
_TIMES = {2: "twice", 3: "three times", 4: "four times"}


@dataclass(frozen=True)
class Conflict:
    """A digit that occurs more than once in a row, column or box."""

    digit: int
    kind: str  # "row", "column" or "box"
    number: int  # of the row, column or box, from 1
    squares: tuple[int, ...]  # 0 to 80, in order

    def __str__(self) -> str:
        times = _TIMES.get(len(self.squares), f"{len(self.squares)} times")
        return f"digit {self.digit} occurs {times} in {self.kind} {self.number}: {self._places()}"

    def _places(self) -> str:
        if self.kind == "row":
            return "columns " + _list([str(square % 9 + 1) for square in self.squares])
        if self.kind == "column":
            return "rows " + _list([str(square // 9 + 1) for square in self.squares])
        return _list([square_name(square) for square in self.squares])


def _list(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1]


def square_name(square: int) -> str:
    """Square 0 to 80 as `row 1, column 1`."""
    return f"row {square // 9 + 1}, column {square % 9 + 1}"


def as_board(board: ArrayLike) -> Board:
    """81 digits, flat or 9×9, as a uint8 array of 81."""
    array = np.asarray(board)
    if array.shape not in ((81,), (9, 9)):
        raise ValueError(f"a board must have shape [81] or [9, 9], got {list(array.shape)}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"a board must hold integers, got {array.dtype}")
    if array.min() < 0 or array.max() > 9:
        wrong = array[(array < 0) | (array > 9)][0]
        raise ValueError(f"a board must hold digits from 0 (blank) to 9, got {wrong}")
    return array.reshape(81).astype(np.uint8)


def parse_board(text: str, *, check: bool = True) -> Board:
    """Read a puzzle: 81 characters, digits 1-9, and 0, '.', '_' or a space for a blank.

    A text of several lines may have spaces and ruling lines ('|', '-', '+') between the squares. With `check`, givens
    that contradict each other raise an error.
    """
    text = _one_line(text)
    foreign = next((place for place, character in enumerate(text) if character not in _DIGITS), None)
    if len(text) != 81:
        message = f"a board has 81 squares, this text has {len(text)} character{'s' * (len(text) != 1)}"
        if foreign is not None:
            message += f", {text[foreign]!r} at place {foreign + 1} among them"
        raise AkornError(message)
    if foreign is not None:
        raise AkornError(
            f"unexpected character {text[foreign]!r} at place {foreign + 1} ({square_name(foreign)}): "
            "expected a digit 1-9, or 0, '.' or '_' for a blank"
        )
    board = np.array([_DIGITS[character] for character in text], dtype=np.uint8)
    if check and (found := conflicts(board)):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise AkornError(f"the givens contradict each other: {found[0]}{more}")
    return board


def _one_line(text: str) -> str:
    """The squares of a board written on one line or on several, without spaces and borders."""
    if "\n" not in text.strip():
        empty = len(text) == 81 and set(text) <= set("123456789 ")
        return text.replace(" ", "0") if empty else text.strip()
    rows = [line for line in text.strip("\r\n").splitlines() if line and not is_ruler(line)]
    if len(rows) == 9:
        return join_rows(rows)
    return "".join(character for character in text if not character.isspace() and character not in RULERS)


def format_board(board: ArrayLike, *, blank: str = "0") -> str:
    """The board as 81 characters."""
    if blank not in BLANKS or len(blank) != 1:
        raise ValueError(f"a blank is written as one of {', '.join(BLANKS)}, got {blank!r}")
    return "".join(str(digit) if digit else blank for digit in as_board(board).tolist())


def conflicts(board: ArrayLike) -> list[Conflict]:
    """Every digit that occurs more than once in a row, column or box; blanks never conflict."""
    digits = as_board(board)[UNITS]  # [27, 9]
    found = []
    counts = (digits[:, :, None] == np.arange(1, 10)).sum(1)  # [27, 9]: how often unit u holds digit d
    for unit, digit in np.argwhere(counts > 1).tolist():
        squares = UNITS[unit][digits[unit] == digit + 1]
        found.append(Conflict(digit + 1, _KINDS[unit // 9], unit % 9 + 1, tuple(sorted(squares.tolist()))))
    return found


def conflict_squares(board: ArrayLike) -> NDArray[np.bool_]:
    """[81]: the squares that are part of a conflict."""
    mask = np.zeros(81, dtype=np.bool_)
    for conflict in conflicts(board):
        mask[list(conflict.squares)] = True
    return mask


def changed_givens(board: ArrayLike, puzzle: ArrayLike) -> list[int]:
    """The squares where the board differs from a given of the puzzle."""
    given = as_board(puzzle)
    return np.flatnonzero((given != 0) & (given != as_board(board))).tolist()


def is_valid_solution(board: ArrayLike, puzzle: ArrayLike | None = None) -> bool:
    """Whether the board is a complete, correct Sudoku that keeps the puzzle's givens."""
    filled = as_board(board)
    if not filled.all() or conflicts(filled):
        return False
    return puzzle is None or not changed_givens(filled, puzzle)


def valid_solutions(boards: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """[B]: which of the boards [B, 81] are complete and correct."""
    bits = np.left_shift(np.uint16(1), boards.astype(np.uint16))  # digit d is bit d
    seen = np.bitwise_or.reduce(bits[:, UNITS], axis=2)  # [B, 27]
    valid: NDArray[np.bool_] = (seen == 0b1111111110).all(1)
    return valid
