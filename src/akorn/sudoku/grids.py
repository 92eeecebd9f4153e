"""Boards drawn on nine lines, as newspapers print them: with or without borders, with any symbol for a blank.

A blank is `0`, `.` or `_`, or a space. In the first case everything between the squares is ignored, so the rows may be
spaced in any way. In the second, the position of a digit in its line determines its square.
"""

from __future__ import annotations

import textwrap

from akorn.errors import AkornError

BLANKS = "0._"
CELLS = set("123456789" + BLANKS)
BARS = set("|│┃║╎╏┆┇┊┋")
RULERS = BARS | set("-+") | {chr(code) for code in range(0x2500, 0x2580)}  # lines of pretty-printed boards


def bare(line: str) -> str:
    """A row without spaces and border lines."""
    if line.count(",") == 8:  # nine fields, as in a spreadsheet
        fields = [field.strip().strip('"') for field in line.split(",")]
        if all(len(field) <= 1 for field in fields):
            return "".join(field or "0" for field in fields)
    return "".join(character for character in line if not character.isspace() and character not in RULERS)


def is_ruler(line: str) -> bool:
    """Whether the line is a border between rows, such as `+---+---+`; bars alone are a row of empty places."""
    signs = {character for character in line if not character.isspace()}
    return bool(signs) and signs <= RULERS and not signs <= BARS


def looks_like_a_row(line: str) -> bool:
    """Whether the line is meant as a row of a board, possibly with a mistake."""
    squares = bare(line)
    if not squares:
        return any(character in BARS for character in line) and not is_ruler(line)
    cells = sum(character in CELLS for character in squares)
    return len(squares) <= 18 and 2 * cells >= len(squares)


def has_empty_places(line: str) -> bool:
    """Whether the row uses spaces for blanks instead of 0, '.' or '_'."""
    squares = bare(line)
    return len(squares) < 9 and not set(squares) & set(BLANKS)


def join_rows(lines: list[str]) -> str:
    """The 81 squares of nine rows, as characters, 0 for an empty place; AkornError says which row is wrong."""
    rows = [bare(line) for line in lines]
    if all(len(row) == 9 for row in rows):
        return "".join(rows)
    if not set("".join(rows)) & set(BLANKS):
        for candidate in (lines, textwrap.dedent("\n".join(lines)).split("\n")):
            placed = _by_place(candidate)
            if placed is not None:
                return placed
    number, row = next((number, row) for number, row in enumerate(rows, 1) if len(row) != 9)
    raise AkornError(f"row {number} of the board has {len(row)} square{'s' * (len(row) != 1)}, expected 9: {row!r}")


def _by_place(lines: list[str]) -> str | None:
    """Squares by their position in the line; None if the lines are not spaced evenly."""
    if all(any(character in BARS for character in line) for line in lines):
        rows = [_between_bars(line) for line in lines]
    else:
        kept = [line.rstrip() for line in lines]
        width = max(map(len, kept))
        if width <= 9:
            rows = [line.ljust(9) for line in kept]
        elif width <= 17 and not any(line[1::2].strip() for line in kept):  # a space between squares
            rows = [line[::2].ljust(9) for line in kept]
        else:
            return None
    if any(row is None for row in rows):
        return None
    return "".join(row for row in rows if row is not None).replace(" ", "0")


def _between_bars(line: str) -> str | None:
    """Nine squares of `|53 | 7 |   |`, of `| 5 3   |   7   |       |`, or of a row with a bar after every square."""
    plain = "".join("|" if character in BARS else character for character in line.strip())
    closed = plain.startswith("|") and plain.endswith("|")
    parts = plain[1:-1].split("|") if closed else plain.split("|")
    if len(parts) == 9 and all(len(part.strip()) <= 1 for part in parts):
        return "".join(part.strip() or " " for part in parts)
    if len(parts) != 3:
        return None
    if not closed and len(parts[1]) == 7:  # without outer bars the outer parts lack their outer space
        parts[0] = parts[0].rjust(7)
    width = len(parts[1])
    parts[2] = parts[2].ljust(width)
    if width == 3 and all(len(part) == 3 for part in parts):
        return "".join(parts)
    if width == 7 and all(len(part) == 7 and not part[::2].strip() for part in parts):
        return "".join(part[1::2] for part in parts)
    return None
