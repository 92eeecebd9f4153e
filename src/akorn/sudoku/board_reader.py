"""The one reader of people's puzzles, from the command line, a file or standard input, as they come.

It understands, also mixed: a puzzle per line; lines of `puzzle,solution`; tables with a header, such as
Sudoku-Extreme's `source,question,answer,rating`; and boards drawn on nine lines (`grids.py`), with blank lines or
titles such as `Grid 01` between them or not. Lines that begin with '#' are comments. What cannot be read becomes an
item with its error, and the reading goes on.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from akorn.errors import AkornError
from akorn.sudoku.board import Board, changed_givens, conflicts, parse_board, square_name
from akorn.sudoku.grids import BARS, has_empty_places, is_ruler, looks_like_a_row

LONGEST = 10_000  # characters of a line; what is longer is not read as a board
ENDLESS = 10_000_000  # characters after which a line is taken to have no end, and the reading stops
_SHOWN = 200  # characters of an unreadable board that its item keeps

_PUZZLE = {"puzzle", "puzzles", "quiz", "quizzes", "board", "boards", "sudoku", "question", "questions", "givens"}
_SOLUTION = {"solution", "solutions", "answer", "answers"}
_TITLE = re.compile(r"(grid|puzzle|board|sudoku)\s*(no\.?|#|nr\.?)?\s*\d+\s*:?", re.IGNORECASE)


@dataclass(frozen=True)
class BoardLine:
    """One board that was read: the puzzle, with its solution where the file has it, or what is wrong with it."""

    number: int  # of its first line, from 1
    text: str  # the puzzle as it was written
    puzzle: Board | None = None
    solution: Board | None = None
    error: str | None = None


def read_boards(source: str | Path | Iterable[str]) -> Iterator[BoardLine]:
    """Go through a file of boards ('-' is standard input), or through lines of text, as they come."""
    lines: Iterable[str]
    if isinstance(source, str | Path):
        name = "standard input" if str(source) == "-" else str(source)
        lines = _standard_input() if str(source) == "-" else file_lines(Path(source))
    else:
        name, lines = "the input", source
    empty = True
    for board in _Reader().read(lines):
        empty = False
        yield board
    if empty:
        raise AkornError(f"{name} has no board in it: expected puzzles of 81 characters, or boards of nine lines")


def read_text(text: str) -> Iterator[BoardLine]:
    """Go through the boards of a text, such as an argument."""
    return read_boards(_bounded(io.StringIO(text, newline=None)))


class _Reader:
    """Collects the rows of a drawn board until it has nine, and reads everything else line by line."""

    def __init__(self) -> None:
        self.table = Table()
        self.rows: list[tuple[int, str]] = []  # number and text of the lines of a drawn board
        self.bands = 0  # how many times an empty line stood after three rows of it
        self.spaces: list[tuple[int, str]] = []  # lines of spaces, which may be the empty rows that a board begins with

    def read(self, lines: Iterable[str]) -> Iterator[BoardLine]:
        for number, line in enumerate(lines, 1):
            yield from self._take(number, line.rstrip("\r\n").lstrip("\ufeff"))  # some editors put that mark first
        yield from self._end()

    def _take(self, number: int, line: str) -> Iterator[BoardLine]:
        if len(line) > LONGEST:
            yield from self._end()
            yield BoardLine(number, _shortened(line), error=f"a board has 81 squares, this line over {LONGEST:,}")
        elif not line.strip():
            yield from self._take_empty(number, line)
        elif line.lstrip().startswith("#") or is_ruler(line):
            return
        elif self.table.is_header(line) or _TITLE.fullmatch(line.strip()):
            self.spaces = []
            yield from self._end()
        elif len(line) != 81 and looks_like_a_row(line):
            yield from self._take_row(number, line)
        else:
            self.spaces = []
            yield from self._end()
            yield parse_line(number, self.table.two_fields(line))

    def _take_empty(self, number: int, line: str) -> Iterator[BoardLine]:
        """An empty line ends a board, or stands between its bands of three rows; nine spaces may be an empty row."""
        count = len(self.rows)
        if len(line) >= 9 and any(has_empty_places(row) for _, row in self.rows):
            yield from self._take_row(number, line)
        elif count and count == 3 * (self.bands + 1):
            self.bands += 1
        else:
            yield from self._end()
            self.spaces = [*self.spaces[-7:], (number, line)] if len(line) >= 9 else []  # one row is not empty

    def _take_row(self, number: int, line: str) -> Iterator[BoardLine]:
        if not self.rows and has_empty_places(line) and not set(line) & BARS:
            self.rows = self.spaces
        self.spaces = []
        if len(self.rows) == 6 and self.bands == 1:  # what seemed a band was a board cut short
            rest = self.rows[3:]
            self.rows = self.rows[:3]
            yield from self._end()
            self.rows = rest
        self.rows.append((number, line))
        if len(self.rows) == 9:
            yield from self._end()

    def _end(self) -> Iterator[BoardLine]:
        rows, self.rows, self.bands = self.rows, [], 0
        if not rows:
            return
        first, last = rows[0][0], rows[-1][0]
        text = "\n".join(row for _, row in rows)
        try:
            if 1 < len(rows) < 9:
                raise AkornError(f"a board has nine rows, this one has {len(rows)}: lines {first} to {last}")
            yield BoardLine(first, text, parse_board(text))
        except AkornError as error:
            yield BoardLine(first, _shortened(text), error=str(error))


class Table:
    """Which fields of a line hold the puzzle and its solution: the first two, unless a header says otherwise."""

    def __init__(self) -> None:
        self.width: int | None = None  # of the header, where there was one
        self.puzzle, self.solution = 0, 1

    def is_header(self, line: str) -> bool:
        """Whether the line names columns; if so, the lines after it are read by them."""
        if len(line) >= 81:
            return False
        names = [field.lower() for field in _fields(line)]
        if not set(names) & _PUZZLE:
            return False
        self.width = len(names)
        self.puzzle = next(place for place, name in enumerate(names) if name in _PUZZLE)
        self.solution = next((place for place, name in enumerate(names) if name in _SOLUTION), -1)
        return True

    def two_fields(self, line: str) -> str:
        """The line as `puzzle,solution`, where it has other fields besides; as it is where these cannot be told."""
        if self.width is None and line.count(",") < 3:
            return line
        fields = _fields(line)
        if self.width is not None:
            if len(fields) > self.width or len(fields) <= self.puzzle:
                return line
            solution = fields[self.solution] if 0 <= self.solution < len(fields) else ""
            return f"{fields[self.puzzle]},{solution}"
        if len(fields) == 4 and len(fields[1]) == len(fields[2]) == 81:  # Sudoku-Extreme's without its header
            return f"{fields[1]},{fields[2]}"
        return line


def _fields(line: str) -> list[str]:
    fields = line.split(",")
    if '"' in line:
        with suppress(csv.Error):  # a quoted field may have commas of its own
            fields = next(csv.reader([line], skipinitialspace=True), fields)
    return [field.strip().strip('"') for field in fields]


def parse_line(number: int, line: str) -> BoardLine:
    """Read `puzzle` or `puzzle,solution`; mistakes are in the item's `error`."""
    fields = _fields(line) if "," in line or '"' in line else [line]  # the spaces of a puzzle alone may be its blanks
    text = fields[0]
    try:
        if len(fields) > 2:
            raise AkornError(f"expected puzzle or puzzle,solution, this line has {len(fields)} fields")
        puzzle = parse_board(text)
        solution = _parse_solution(fields[1], puzzle) if len(fields) == 2 and fields[1] else None
    except AkornError as error:
        return BoardLine(number, _shortened(text.strip()), error=str(error))
    return BoardLine(number, text, puzzle, solution)


def _parse_solution(text: str, puzzle: Board) -> Board:
    try:
        solution = parse_board(text, check=False)
    except AkornError as error:
        raise AkornError(f"in the solution: {error}") from None
    check_solution(solution, puzzle)
    return solution


def check_solution(solution: Board, puzzle: Board) -> None:
    """AkornError unless the solution is a complete and correct Sudoku that keeps the puzzle's givens."""
    if not solution.all():
        raise AkornError(f"the solution has a blank at {square_name(int(np.argmin(solution)))}")
    if clashes := conflicts(solution):
        raise AkornError(f"the solution is no Sudoku: {clashes[0]}")
    if changed := changed_givens(solution, puzzle):
        square = changed[0]
        raise AkornError(
            f"the solution has {solution[square]} at {square_name(square)}, the puzzle gives {puzzle[square]}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def file_lines(path: Path) -> Iterator[str]:
    """The lines of a file, of which one that is too long comes cut."""
    try:
        # What is no UTF-8 becomes a character that no board has, so that its line alone is refused.
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from _bounded(file)
    except OSError as error:
        raise AkornError(f"cannot read {path}: {error.strerror or error}") from None


def _standard_input() -> Iterator[str]:
    if sys.stdin is None or sys.stdin.closed:
        raise AkornError("standard input is closed: expected puzzles there")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    try:
        yield from _bounded(sys.stdin)
    except OSError as error:
        raise AkornError(f"cannot read standard input: {error.strerror or error}") from None


def _bounded(file: TextIO) -> Iterator[str]:
    """The lines of a file, each cut after LONGEST + 1 characters, so that a line without an end fills no memory.

    Nothing is read after a line of more than ENDLESS characters: it may have no end at all.
    """
    while line := file.readline(LONGEST + 1):
        yield line
        skipped, part = len(line), line
        while not part.endswith("\n") and (part := file.readline(LONGEST + 1)):
            skipped += len(part)
            if skipped > ENDLESS:
                return
