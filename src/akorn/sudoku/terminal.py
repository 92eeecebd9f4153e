"""A board in the terminal: box lines, givens set apart from answers, conflicts in red, and a caption.

Without colour (a file, a pipe, NO_COLOR), givens are in brackets, and a conflicting digit is followed by an exclamation
mark. Pictures and animations are in `board_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numpy.typing import ArrayLike
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from akorn.sudoku.board import as_board, changed_givens, conflict_squares, conflicts
from akorn.sudoku.board_pictures import animate, board_figure

__all__ = ["BoardView", "animate", "board_figure", "describe", "print_board"]

# left, between digits of a box, between boxes, right: top, between bands, bottom
_LINES = (("┏", "━", "┳", "┓"), ("┣", "━", "╋", "┫"), ("┗", "━", "┻", "┛"), "┃")
_ASCII = (("+", "-", "+", "+"), ("+", "-", "+", "+"), ("+", "-", "+", "+"), "|")


def describe(board: ArrayLike, puzzle: ArrayLike) -> str:
    """`valid`, or why the board is not: `2 blanks, 3 clashes, 1 given changed`."""
    digits = as_board(board)
    wrong = [
        _count(int((digits == 0).sum()), "blank", "blanks"),
        _count(len(conflicts(digits)), "clash", "clashes"),
        _count(int((digits[changed_givens(digits, puzzle)] != 0).sum()), "given changed", "givens changed"),
    ]
    return ", ".join(part for part in wrong if part) or "valid"


def _count(number: int, one: str, many: str) -> str:
    return "" if number == 0 else f"{number} {one if number == 1 else many}"


@dataclass(frozen=True)
class BoardView:
    """A board that rich can print, alone or in a live display; 31 columns wide."""

    board: ArrayLike
    puzzle: ArrayLike
    energy: float | None = None
    title: str | None = None
    energy_name: str = "energy"
    confidence: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = console.color_system is not None and not console.no_color
        top, middle, bottom, bar = _ASCII if options.ascii_only else _LINES
        if self.title:
            yield Text(self.title, style="bold" if coloured else "", no_wrap=True, overflow="ellipsis")
        cells = list(self._cells(coloured, options.ascii_only))
        for row in range(9):
            if row % 3 == 0:
                yield _ruler(middle if row else top, coloured)
            line = Text(no_wrap=True)
            for column in range(9):
                if column % 3 == 0:
                    line.append(bar, "dim" if coloured else "")
                line.append(cells[9 * row + column])
            line.append(bar, "dim" if coloured else "")
            yield line
        yield _ruler(bottom, coloured)
        yield self._caption(coloured)

    def _cells(self, coloured: bool, ascii_only: bool) -> Iterator[Text]:
        board, given = as_board(self.board), as_board(self.puzzle) != 0
        wrong = conflict_squares(board)
        wrong[changed_givens(board, self.puzzle)] = True
        for digit, is_given, is_wrong in zip(board.tolist(), given.tolist(), wrong.tolist(), strict=True):
            if not digit:
                yield Text(" . " if ascii_only else " · ", "dim" if coloured else "")
            elif coloured:
                style = ("bold " if is_given else "") + ("red" if is_wrong else "" if is_given else "cyan")
                yield Text(f" {digit} ", style.strip())
            else:
                yield Text(f"{'[' if is_given else ' '}{digit}{'!' if is_wrong else ']' if is_given else ' '}")

    def _caption(self, coloured: bool) -> Text:
        verdict = describe(self.board, self.puzzle)
        caption = Text(no_wrap=True)
        if self.energy is not None:
            caption.append(f"{self.energy_name} {self.energy:.2f}  ")
        if self.confidence is not None:
            caption.append(f"confidence {100 * self.confidence:.1f} %  ")
        if verdict == "valid":
            caption.append("valid Sudoku", "bold green" if coloured else "")
        elif "clash" not in verdict and "given" not in verdict:
            caption.append(verdict)  # unfinished, but without mistakes so far
        else:
            caption.append(f"not valid: {verdict}", "bold red" if coloured else "")
        return caption


def _ruler(signs: tuple[str, str, str, str], coloured: bool) -> Text:
    left, line, cross, right = signs
    return Text(left + cross.join([line * 9] * 3) + right, "dim" if coloured else "")


def print_board(
    board: ArrayLike,
    puzzle: ArrayLike,
    energy: float | None = None,
    title: str | None = None,
    console: Console | None = None,
    energy_name: str = "energy",
    confidence: float | None = None,
) -> None:
    """Print the board with its caption."""
    (console or Console()).print(BoardView(board, puzzle, energy, title, energy_name, confidence))
