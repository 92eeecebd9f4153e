"""An exact Sudoku solver on one big integer: the 729 candidates are bits, and each rule is a few shifts.

Bit `81·d + 9·row + column` means that digit `d + 1` is still possible on that square. Python's integers work on all 729
bits at once, so a pass that finds every naked and hidden single of the board costs about as much as checking two or
three squares one by one: the solver needs neither a compiler nor a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.sudoku.board import as_board


def _bits(positions: Iterator[int] | range) -> int:
    return sum(1 << position for position in positions)


ALL = (1 << 729) - 1  # every digit on every square
SQUARES = (1 << 81) - 1
# The first member of each group stands for the group; times SPREAD it covers all members.
_ROW_BASE = _bits(range(0, 729, 9))
_COLUMN_BASE = _bits(81 * d + c for d in range(9) for c in range(9))
_BOX_BASE = _bits(81 * d + 27 * r + 3 * c for d in range(9) for r in range(3) for c in range(3))
_ROW_SPREAD = (1 << 9) - 1
_COLUMN_SPREAD = _bits(range(0, 81, 9))
_BOX_SPREAD = _bits(9 * r + c for r in range(3) for c in range(3))
_SQUARE_SPREAD = _bits(range(0, 729, 81))
# Three squares of a row in one box, and three of a column in one box, for locked candidates.
_TRIPLE_BASE = _bits(range(0, 729, 3))
_PILE_BASE = _bits(81 * d + 27 * r + c for d in range(9) for r in range(3) for c in range(9))

SQUARE_MASKS = [_SQUARE_SPREAD << square for square in range(81)]
CANDIDATES = [[1 << (81 * digit + square) for digit in range(9)] for square in range(81)]


def _singles(x: int) -> int:
    """The candidates that are alone in their square, row, column or box; -1 if one of these has none left."""
    # Two levels of three: `any` has a bit where a group of three has one at all, `two` where it has at least two.
    b, c = x >> 1, x >> 2
    any3 = x | b | c
    two3 = x & b | c & (x | b)  # mini-rows, shared by rows and boxes

    b, c = any3 >> 3, any3 >> 6
    row = (any3 | b | c) & _ROW_BASE
    if row != _ROW_BASE:
        return -1
    row &= ~(two3 | two3 >> 3 | two3 >> 6 | any3 & b | c & (any3 | b))

    b, c = any3 >> 9, any3 >> 18
    box = (any3 | b | c) & _BOX_BASE
    if box != _BOX_BASE:
        return -1
    box &= ~(two3 | two3 >> 9 | two3 >> 18 | any3 & b | c & (any3 | b))

    b, c = x >> 9, x >> 18
    any3 = x | b | c
    two3 = x & b | c & (x | b)
    b, c = any3 >> 27, any3 >> 54
    column = (any3 | b | c) & _COLUMN_BASE
    if column != _COLUMN_BASE:
        return -1
    column &= ~(two3 | two3 >> 27 | two3 >> 54 | any3 & b | c & (any3 | b))

    b, c = x >> 81, x >> 162
    any3 = x | b | c
    two3 = x & b | c & (x | b)
    b, c = any3 >> 243, any3 >> 486
    square = (any3 | b | c) & SQUARES
    if square != SQUARES:
        return -1
    square &= ~(two3 | two3 >> 243 | two3 >> 486 | any3 & b | c & (any3 | b))

    spread = row * _ROW_SPREAD | column * _COLUMN_SPREAD | box * _BOX_SPREAD | square * _SQUARE_SPREAD
    return x & spread


def _seen(x: int) -> int:
    """Every candidate that shares its square, or its digit and a row, column or box, with one of the singles x.

    -1 if two of the singles share one themselves: then fewer groups are hit than there are singles.
    """
    any3 = x | x >> 1 | x >> 2
    row = (any3 | any3 >> 3 | any3 >> 6) & _ROW_BASE
    box = (any3 | any3 >> 9 | any3 >> 18) & _BOX_BASE
    any3 = x | x >> 9 | x >> 18
    column = (any3 | any3 >> 27 | any3 >> 54) & _COLUMN_BASE
    any3 = x | x >> 81 | x >> 162
    square = (any3 | any3 >> 243 | any3 >> 486) & SQUARES
    count = x.bit_count()
    if not count == row.bit_count() == column.bit_count() == box.bit_count() == square.bit_count():
        return -1
    return row * _ROW_SPREAD | column * _COLUMN_SPREAD | box * _BOX_SPREAD | square * _SQUARE_SPREAD


def _alone(x: int, stride: int, base: int) -> int:
    """Of each three bits of x a stride apart, starting at a bit of base, the one that is set alone."""
    b, c = x >> stride, x >> 2 * stride
    alone = (x | b | c) & ~(x & b | c & (x | b)) & base
    return x & (alone | alone << stride | alone << 2 * stride)


def _others(x: int, stride: int, base: int) -> int:
    """Of each three bits a stride apart in which x has one, the other two."""
    hit = (x | x >> stride | x >> 2 * stride) & base
    return (hit | hit << stride | hit << 2 * stride) & ~x


def _locked(x: int) -> int:
    """The candidates ruled out because a digit's last places in a box lie in one line, or vice versa."""
    mini = (x | x >> 1 | x >> 2) & _TRIPLE_BASE
    out = _others(_alone(mini, 3, _ROW_BASE), 9, _BOX_BASE) | _others(_alone(mini, 9, _BOX_BASE), 3, _ROW_BASE)
    ruled = out * 0b111
    mini = (x | x >> 9 | x >> 18) & _PILE_BASE
    out = _others(_alone(mini, 27, _COLUMN_BASE), 1, _BOX_BASE)
    out |= _others(_alone(mini, 1, _BOX_BASE), 27, _COLUMN_BASE)
    return ruled | out * (1 | 1 << 9 | 1 << 18)


def propagate(x: int) -> int:
    """Apply singles and locked candidates as far as they go; 0 if the board contradicts itself."""
    while True:
        singles = _singles(x)
        if singles < 0:
            return 0
        seen = _seen(singles)
        if seen < 0:
            return 0
        y = x & ~seen | singles
        if y == x:
            y = x & ~_locked(x)
            if y == x:
                return x
        x = y


def choose_square(x: int) -> int:
    """The first undecided square with the fewest candidates."""
    one = two = three = 0
    for digit in range(9):
        here = x >> 81 * digit & SQUARES
        three |= two & here
        two |= one & here
        one |= here
    pairs = two & ~three
    if pairs:
        return (pairs & -pairs).bit_length() - 1
    open_squares = [square for square in range(81) if three >> square & 1]
    return min(open_squares, key=lambda square: (x & SQUARE_MASKS[square]).bit_count())


def rounds_of_naked_singles(x: int) -> int | None:
    """In how many rounds naked singles alone solve a candidate set; None if they do not.

    A round fills in every square that has one candidate left, all at once.
    """
    rounds = 0
    while True:
        one = two = 0
        for digit in range(9):
            here = x >> 81 * digit & SQUARES
            two |= one & here
            one |= here
        if one != SQUARES:
            return None
        singles = x & (one & ~two) * _SQUARE_SPREAD
        seen = _seen(singles)
        if seen < 0:
            return None
        y = x & ~seen | singles
        if y == x:
            return rounds if x.bit_count() == 81 else None
        x = y
        rounds += 1


class Search:
    """The solutions of a candidate set, one after the other, as candidate sets of 81 bits.

    Args:
        x: the candidate set.
        last: solutions that differ from this one early come first.
        limit: number of nodes after which the search is given up; None for no limit.

    """

    def __init__(self, x: int, last: int = 0, limit: int | None = None) -> None:
        self.nodes = 0  # states so far in which singles and locked candidates were followed
        self.complete = False  # whether everything has been searched
        self._stack, self._last, self._limit = [x], last, limit

    def __iter__(self) -> Iterator[int]:
        stack, last = self._stack, self._last
        while stack:
            if self.nodes == self._limit:
                return
            self.nodes += 1
            x = propagate(stack.pop())
            if not x:
                continue
            if x.bit_count() == 81:  # no group is empty, so each has exactly one
                yield x
                continue
            square = choose_square(x)
            rest = x & ~SQUARE_MASKS[square]
            options = [bit for bit in CANDIDATES[square] if x & bit]
            options.sort(key=lambda bit: not last & bit)  # pushed first, taken last
            stack.extend(rest | bit for bit in options)
        self.complete = True


def solutions(x: int, last: int = 0) -> Iterator[int]:
    """Every solution of a candidate set, as candidate sets of 81 bits; those that differ from `last` early first."""
    return iter(Search(x, last))


def to_candidates(puzzle: ArrayLike) -> int:
    """A board as a candidate set: a given leaves one digit on its square, a blank all nine."""
    givens = kept = 0
    for square, digit in enumerate(as_board(puzzle).tolist()):
        if digit:
            givens |= SQUARE_MASKS[square]
            kept |= CANDIDATES[square][digit - 1]
    return ALL & ~givens | kept


def to_board(x: int) -> NDArray[np.uint8]:
    """A solution's candidate set as a board."""
    board = np.zeros(81, dtype=np.uint8)
    for digit in range(9):
        here = x >> 81 * digit & SQUARES
        while here:
            bit = here & -here
            board[bit.bit_length() - 1] = digit + 1
            here ^= bit
    return board


def count_solutions(puzzle: ArrayLike, limit: int = 2) -> int:
    """The number of solutions, counted up to limit."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    found = 0
    for _ in solutions(to_candidates(puzzle)):
        found += 1
        if found == limit:
            break
    return found


Solutions = Literal[0, 1, "several"] | None
"""How many solutions a board has; None if that is unknown."""


def has_solutions(puzzle: ArrayLike, limit: int = 10_000) -> Solutions:
    """Whether a board has no solution, one, or several; None if `limit` search nodes are not enough to tell."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    search = Search(to_candidates(puzzle), limit=limit)
    found = sum(1 for _ in islice(search, 2))
    if found == 2:
        return "several"
    if not search.complete:
        return None
    return 1 if found else 0


def solve_exact(puzzle: ArrayLike) -> NDArray[np.uint8] | None:
    """A solution of the puzzle, or None if it has none."""
    found = next(solutions(to_candidates(puzzle)), None)
    return None if found is None else to_board(found)
