"""The reader of people's puzzles: every form on its own and mixed, mistakes that stop no other board, endless lines."""

import io
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.sudoku import board_reader
from akorn.sudoku.board import format_board, parse_board
from akorn.sudoku.board_files import load_csv
from akorn.sudoku.board_reader import BoardLine, read_boards, read_text
from akorn.sudoku.examples import EASY, HARD, MEDIUM
from akorn.sudoku.generate import solve_exact

Read = Callable[[str], list[BoardLine]]
SOLVED = format_board(solve_exact(parse_board(EASY)))


def rows(board: str, blank: str = ".") -> list[str]:
    return [board[start : start + 9].replace("0", blank) for start in range(0, 81, 9)]


def boxed(board: str, cell: str, outer: bool = True) -> str:
    """Nine rows with borders; `cell` is how three squares are joined, such as ' ' or ''."""
    lines = []
    for number, row in enumerate(rows(board, " " if cell.endswith("!") else ".")):
        joint = cell.rstrip("!")
        pad = " " if joint else ""
        bands = [pad + joint.join(row[start : start + 3]) + pad for start in (0, 3, 6)]
        if number % 3 == 0:
            lines.append("+---+---+---+")
        lines.append(("|" + "|".join(bands) + "|") if outer else "|".join(bands)[len(pad) :])
    return "\n".join([*lines, "+---+---+---+"])


FORMS = {
    "a line": EASY,
    "a line of dots": EASY.replace("0", "."),
    "a line of underscores": EASY.replace("0", "_"),
    "a line of spaces": EASY.replace("0", " "),
    "nine lines": "\n".join(rows(EASY)),
    "nine lines of zeros": "\n".join(rows(EASY, "0")),
    "nine lines of underscores": "\n".join(rows(EASY, "_")),
    "nine lines of spaces": "\n".join(rows(EASY, " ")),
    "trailing spaces lost": "\n".join(row.rstrip() for row in rows(EASY, " ")),
    "spaced": "\n".join(" ".join(row) for row in rows(EASY)),
    "spaced, spaces for blanks": "\n".join(" ".join(row) for row in rows(EASY, " ")),
    "indented": "\n".join("    " + row for row in rows(EASY, " ")),
    "windows": "\r\n".join(rows(EASY)),
    "borders": boxed(EASY, " "),
    "borders, spaces for blanks": boxed(EASY, " !"),
    "narrow borders": boxed(EASY, ""),
    "narrow borders, spaces for blanks": boxed(EASY, "!"),
    "no outer border": boxed(EASY, " !", outer=False),
    "a bar after every square": "\n".join("|" + "|".join(row) + "|" for row in rows(EASY, " ")),
    "heavy lines": boxed(EASY, " ").replace("|", "┃").replace("-", "━").replace("+", "╋"),
    "a spreadsheet": "\n".join(",".join(row) for row in rows(EASY, "0")),
    "a spreadsheet's empty fields": "\n".join(",".join(row).replace(" ", "") for row in rows(EASY, " ")),
    "a gap between bands": "\n\n".join("\n".join(rows(EASY)[start : start + 3]) for start in (0, 3, 6)),
    "a title": "Grid 01\n" + "\n".join(rows(EASY, "0")),
}


@pytest.fixture(params=["argument", "file", "standard input"])
def read(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    def reader(text: str) -> list[BoardLine]:
        if request.param == "argument":
            return list(read_text(text))
        if request.param == "file":
            (tmp_path / "boards.txt").write_bytes(text.encode())
            return list(read_boards(tmp_path / "boards.txt"))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        return list(read_boards("-"))

    return reader


def puzzles(boards: list[BoardLine]) -> list[str | None]:
    return [None if board.puzzle is None else format_board(board.puzzle) for board in boards]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_from_everywhere(read: Read, form: str) -> None:
    found = read(FORMS[form])
    assert [board.error for board in found] == [None]
    assert puzzles(found) == [EASY]


def test_boards_follow_each_other_with_or_without_a_blank_line(read: Read) -> None:
    grids = ["\n".join(rows(board)) for board in (EASY, MEDIUM, HARD)]
    for gap in ("\n", "\n\n", "\n\n\n", "\n         \n", "\n# next\n", "\nGrid 2\n", "\n+---+---+\n"):
        assert puzzles(read(gap.join(grids))) == [EASY, MEDIUM, HARD], repr(gap)


def test_rows_without_a_single_given(read: Read) -> None:
    first = "0" * 9 + EASY[9:]
    assert puzzles(read("\n".join(rows(first, " ")))) == [first]
    middle = EASY[:36] + "0" * 9 + EASY[45:]
    assert puzzles(read("\n".join(rows(middle, " ")) + "\n\n" + "\n".join(rows(EASY, " ")))) == [middle, EASY]
    assert puzzles(read(boxed(middle, " !"))) == [middle]


def test_a_mixture(read: Read) -> None:
    text = f"{EASY}\n{boxed(MEDIUM, ' ')}\n{EASY},{SOLVED}\n\n" + "\n".join(rows(HARD, " ")) + f"\n{MEDIUM}\n"
    found = read(text)
    assert puzzles(found) == [EASY, MEDIUM, EASY, HARD, MEDIUM]
    assert [board.solution is not None for board in found] == [False, False, True, False, False]
    assert [board.number for board in found] == [1, 3, 15, 17, 26]


@pytest.mark.parametrize("header", ["source,question,answer,rating\n", ""])
def test_sudoku_extreme(read: Read, tmp_path: Path, header: str) -> None:
    dotted = EASY.replace("0", ".")
    lines = f'{header}puzzles0_kaggle,{dotted},{SOLVED},0\n"a, b",{dotted},{SOLVED},12\n'
    found = read(lines)
    assert puzzles(found) == [EASY, EASY]
    assert all(board.solution is not None and format_board(board.solution) == SOLVED for board in found)
    (tmp_path / "extreme.csv").write_text(lines)
    assert [format_board(board[0]) for board in load_csv(tmp_path / "extreme.csv")] == [EASY, SOLVED]


def test_other_tables(read: Read) -> None:
    assert puzzles(read(f"id,puzzle,solution,clues\n1,{EASY},{SOLVED},38\n")) == [EASY]
    (alone,) = read(f"rating,question\n7,{EASY}\n")
    assert alone.solution is None
    (many, few, good) = read(f"id,puzzle\n1,{EASY},x\n7\n1,{EASY}\n")
    assert "3 fields" in str(many.error)
    assert few.error is not None
    assert good.error is None


@pytest.mark.parametrize(
    ("text", "said", "number"),
    [
        ("\n".join(rows(EASY)[:8]), "nine rows, but this one has 8: lines 3 to 10", 3),
        ("\n".join(rows(EASY)[:3]), "nine rows, but this one has 3: lines 3 to 5", 3),
        ("\n".join([*rows(EASY)[:4], ".5.", *rows(EASY)[5:]]), "row 5 of the board has 3 squares", 3),
        ("\n".join([*rows(EASY)[:4], "." * 10, *rows(EASY)[5:]]), "row 5 of the board has 10 squares", 3),
        ("\n".join([*rows(EASY)[:8], "x" + rows(EASY)[8][1:]]), "'x' at place 73 (row 9, column 1)", 3),
        ("\n".join(["55......."] + ["." * 9] * 8), "digit 5 occurs twice in row 1", 3),
        ("12", "this text has 2 characters", 3),
        (EASY[:80], "this text has 80 characters", 3),
        ("what is this?", "this text has 13 characters", 3),
        ("1" * 20_000, "over 10,000", 3),
        (f'"{EASY},{SOLVED[:-1]}x"', "81 squares", 3),
    ],
)
def test_a_mistake_is_named_and_stops_no_other(read: Read, text: str, said: str, number: int) -> None:
    good, bad, last = read(f"{EASY}\n\n{text}\n\n" + "\n".join(rows(MEDIUM)))
    assert puzzles([good, last]) == [EASY, MEDIUM]
    assert bad.puzzle is None
    assert said in str(bad.error)
    assert bad.number == number
    assert len(bad.text) <= 201


def test_a_line_without_an_end_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_reader, "ENDLESS", 1_000_000)

    class Endless(io.StringIO):
        """One good line, and then one that never ends."""

        asked = 0

        def readline(self, size: int = -1, /) -> str:
            self.asked += 1
            assert 0 < size < 100_000
            assert self.asked < 1000, "reading goes on for ever"
            return EASY + "\n" if self.asked == 1 else "5" * size

    monkeypatch.setattr(sys, "stdin", Endless())
    tracemalloc.start()
    found = list(read_boards("-"))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [board.error is None for board in found] == [True, False]
    assert most < 1_000_000


def test_boards_are_handed_on_as_they_come() -> None:
    def lines() -> Iterator[str]:
        yield from [EASY, *rows(MEDIUM)]
        pytest.fail("more was read than was needed")

    boards = read_boards(lines())
    assert puzzles([next(boards), next(boards)]) == [EASY, MEDIUM]


def test_a_closed_or_unreadable_standard_input_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(AkornError, match="standard input is closed"):
        list(read_boards("-"))

    class Broken(io.StringIO):
        def readline(self, size: int = -1, /) -> str:
            raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", Broken())
    with pytest.raises(AkornError, match="cannot read standard input: Is a directory"):
        list(read_boards("-"))


@pytest.mark.parametrize("form", FORMS)
def test_parse_board_reads_every_drawn_board(form: str) -> None:
    if "title" not in form:
        assert format_board(parse_board(FORMS[form])) == EASY


def test_a_file_that_is_no_text_is_one_mistake(tmp_path: Path) -> None:
    """Not one for each of its hundreds of lines."""
    for name, content in (("photo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), ("utf16.txt", EASY.encode("utf-16"))):
        (tmp_path / name).write_bytes(content)
        for read in (load_csv, lambda path: list(read_boards(path))):
            with pytest.raises(AkornError, match=f"{name}: not a text file in UTF-8"):
                read(tmp_path / name)
