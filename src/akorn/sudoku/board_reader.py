"""Reads users' puzzles from the command line, a file or standard input, one after the other.

It understands these forms, also mixed: one puzzle per line; lines of `puzzle,solution`; tables with a header, such as
Sudoku-Extreme's `source,question,answer,rating`; and boards drawn on nine lines (`grids.py`), with or without
blank lines or titles such as `Grid 01` between them. Lines that begin with '#' are comments. A board that cannot be
read becomes an item with an error, and reading continues.
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

LONGEST = 10_000  # characters; a longer line is not read as a board
ENDLESS = 10_000_000  # characters; reading stops at a longer line, which may never end
_SHOWN = 200  # characters of an unreadable board that its item keeps

_PUZZLE = {"puzzle", "puzzles", "quiz", "quizzes", "board", "boards", "sudoku", "question", "questions", "givens"}
_SOLUTION = {"solution", "solutions", "answer", "answers"}
_TITLE = re.compile(r"(grid|puzzle|board|sudoku)\s*(no\.?|#|nr\.?)?\s*\d+\s*:?", re.IGNORECASE)


@dataclass(frozen=True)
class BoardLine:
    """One board: the puzzle, and its solution if the file has it, or an error."""

    number: int  # of its first line, from 1
    text: str  # the puzzle as it was written
    puzzle: Board | None = None
    solution: Board | None = None
    error: str | None = None


def read_boards(source: str | Path | Iterable[str]) -> Iterator[BoardLine]:
    """Yield the boards of a file ('-' is standard input) or of lines of text."""
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
        raise AkornError(f"{name} contains no boards: expected puzzles of 81 characters, or boards of nine lines")


def read_text(text: str) -> Iterator[BoardLine]:
    """Yield the boards of a text, such as a command-line argument."""
    return read_boards(_bounded(io.StringIO(text, newline=None)))


class _Reader:
    """Collects the rows of a drawn board until it has nine, and reads everything else line by line."""

    def __init__(self) -> None:
        self.table = Table()
        self.rows: list[tuple[int, str]] = []  # number and text of the lines of a drawn board
        self.bands = 0  # number of empty lines after three rows of it
        self.spaces: list[tuple[int, str]] = []  # lines of spaces, which may be the empty first rows of a board

    def read(self, lines: Iterable[str]) -> Iterator[BoardLine]:
        for number, line in enumerate(lines, 1):
            yield from self._take(number, line.rstrip("\r\n").lstrip("\ufeff"))  # a byte order mark
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
        """An empty line ends a board or separates its bands of three rows; nine spaces may be an empty row."""
        count = len(self.rows)
        if len(line) >= 9 and any(has_empty_places(row) for _, row in self.rows):
            yield from self._take_row(number, line)
        elif count and count == 3 * (self.bands + 1):
            self.bands += 1
        else:
            yield from self._end()
            self.spaces = [*self.spaces[-7:], (number, line)] if len(line) >= 9 else []  # at least one row is not empty

    def _take_row(self, number: int, line: str) -> Iterator[BoardLine]:
        if not self.rows and has_empty_places(line) and not set(line) & BARS:
            self.rows = self.spaces
        self.spaces = []
        if len(self.rows) == 6 and self.bands == 1:  # the supposed band was an incomplete board
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
                raise AkornError(f"a board has nine rows, but this one has {len(rows)}: lines {first} to {last}")
            yield BoardLine(first, text, parse_board(text))
        except AkornError as error:
            yield BoardLine(first, _shortened(text), error=str(error))


class Table:
    """Which fields of a line hold the puzzle and its solution: the first two, unless a header says otherwise."""

    def __init__(self) -> None:
        self.width: int | None = None  # of the header, if there is one
        self.puzzle, self.solution = 0, 1

    def is_header(self, line: str) -> bool:
        """Whether the line is a header; if so, its column names apply to the lines after it."""
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
        """The line reduced to `puzzle,solution`; unchanged if the fields cannot be told apart."""
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
        with suppress(csv.Error):  # a quoted field may contain commas
            fields = next(csv.reader([line], skipinitialspace=True), fields)
    return [field.strip().strip('"') for field in fields]


def parse_line(number: int, line: str) -> BoardLine:
    """Read `puzzle` or `puzzle,solution`; mistakes go to the item's `error`."""
    fields = _fields(line) if "," in line or '"' in line else [line]  # spaces in a lone puzzle may be blanks
    text = fields[0]
    try:
        if len(fields) > 2:
            raise AkornError(f"expected puzzle or puzzle,solution, but this line has {len(fields)} fields")
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
        raise AkornError(f"the solution is not a valid Sudoku: {clashes[0]}")
    if changed := changed_givens(solution, puzzle):
        square = changed[0]
        raise AkornError(
            f"the solution has {solution[square]} at {square_name(square)}, but the puzzle has {puzzle[square]}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def file_lines(path: Path) -> Iterator[str]:
    """The lines of a file; a line that is too long is cut."""
    try:
        # Invalid UTF-8 becomes a character that no board contains, so only its line is refused.
        with path.open(encoding="utf-8", errors="replace") as file:
            # Pictures and UTF-16 have a zero among their first bytes: they get one line instead of hundreds.
            if b"\0" in file.buffer.peek()[:16]:  # type: ignore[attr-defined]
                raise AkornError(f"{path}: not a text file in UTF-8, expected puzzles")
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
    """The lines of a file, each cut after LONGEST + 1 characters, so that an endless line does not fill the memory.

    Nothing is read after a line of more than ENDLESS characters: it may never end.
    """
    while line := file.readline(LONGEST + 1):
        yield line
        skipped, part = len(line), line
        while not part.endswith("\n") and (part := file.readline(LONGEST + 1)):
            skipped += len(part)
            if skipped > ENDLESS:
                return
