"""Files of boards: every form that is read, every mistake that is named, and real data if it is available."""

import io
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.errors import AkornError
from akorn.sudoku.board import format_board, valid_solutions
from akorn.sudoku.board_files import load_csv, load_satnet, read_boards, write_csv
from akorn.sudoku.exact import count_solutions
from akorn.sudoku.generate import make

PUZZLES, SOLUTIONS = make(4, (31, 42), seed=1)
LINES = [f"{format_board(p)},{format_board(s)}" for p, s in zip(PUZZLES, SOLUTIONS, strict=True)]
DATA = Path(__file__).parents[3] / "shared" / "data" / "sudoku"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "boards.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(LINES),
        "\n".join(LINES) + "\n",
        "\r\n".join(LINES) + "\r\n",
        "puzzle,solution\n" + "\n".join(LINES),
        "quizzes,solutions\r\n" + "\r\n".join(LINES),
        "# made by hand\n\n" + "\n\n# next\n".join(LINES) + "\n\n",
        "\ufeff" + "\n".join(LINES),
        "\n".join(line.replace(",", " , ") for line in LINES),
        "\n".join('"' + line.replace(",", '","') + '"' for line in LINES),
        "\n".join(line.split(",")[0].replace("0", ".") + "," + line.split(",")[1] for line in LINES),
    ],
)
def test_both_readers_agree_on_every_form(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    puzzles, solutions = load_csv(path)
    assert np.array_equal(puzzles, PUZZLES)
    assert np.array_equal(solutions, SOLUTIONS)
    assert puzzles.dtype == solutions.dtype == np.uint8
    items = list(read_boards(path))
    assert [item.error for item in items] == [None] * 4
    assert np.array_equal(np.stack([item.puzzle for item in items]), PUZZLES)
    assert np.array_equal(np.stack([item.solution for item in items]), SOLUTIONS)


P, S = LINES[0].split(",")
OTHER = LINES[1].split(",")[1]
BAD = [
    ("123", "this text has 3 characters"),
    (P[:-1], "this text has 80 characters"),
    ("x" + P[1:], "'x' at place 1"),
    ("55" + "0" * 79, "digit 5 occurs twice in row 1: columns 1 and 2"),
    (f"{P},{S[:-1]}", "in the solution: .* 80 characters"),
    (f"{P},{S[:-1]}z", "in the solution: unexpected character 'z'"),
    (f"{P},{S[:-1]}0", "the solution has a blank at row 9, column 9"),
    (f"{P},{S[1]}{S[1:]}", "the solution is not a valid Sudoku: digit"),
    (f"{P},{OTHER}", "the solution has . at row ., column ., but the puzzle has"),
    (f"{P},{S},1", "this line has 3 fields"),
    (P[:40] + "é" + P[41:], "'é' at place 41"),
]


@pytest.mark.parametrize(("line", "said"), BAD)
def test_a_bad_line_is_named_and_stops_no_other(tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path, f"{LINES[0]}\n\n{line}\n{LINES[2]}\n")
    good, bad, last = read_boards(path)
    assert good.error is None
    assert last.error is None
    assert last.number == 4
    assert np.array_equal(last.solution, SOLUTIONS[2])
    assert bad.number == 3
    assert bad.text == line.split(",")[0]
    assert bad.puzzle is None
    with pytest.raises(AkornError, match=f"boards.csv, line 3: .*{said}") as raised:
        load_csv(path)
    assert bad.error is not None
    assert str(raised.value).endswith(bad.error)  # both readers say the same


def test_bytes_that_are_no_text_spoil_their_line_alone(tmp_path: Path) -> None:
    path = write(tmp_path, LINES[0].encode() + b"\n\xff\xfe\x00" + P[3:].encode() + b"\n" + LINES[1].encode())
    assert [item.error is None for item in read_boards(path)] == [True, False, True]


def test_a_bad_first_line_is_not_taken_for_a_header(tmp_path: Path) -> None:
    first, _ = read_boards(write(tmp_path, "hello\n" + LINES[0]))
    assert first.error is not None


def test_puzzles_alone(tmp_path: Path) -> None:
    path = write(tmp_path, f"{P}\n{P.replace('0', '_')},\n")
    items = list(read_boards(path))
    assert [item.solution for item in items] == [None, None]
    assert all(np.array_equal(item.puzzle, PUZZLES[0]) for item in items)
    with pytest.raises(AkornError, match="line 1: the solution is missing, expected puzzle,solution"):
        load_csv(path)


def test_standard_input_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(LINES)))
    assert len(list(read_boards("-"))) == 4
    assert len(list(read_boards(LINES))) == 4
    stream = io.TextIOWrapper(io.BytesIO(b"\xff\n" + LINES[0].encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    assert [item.error is None for item in read_boards("-")] == [False, True]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "puzzle,solution\n"])
def test_an_empty_file_is_an_error(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, text)
    with pytest.raises(AkornError, match=r"boards\.csv contains no boards"):
        list(read_boards(path))
    with pytest.raises(AkornError, match=r"boards\.csv contains no boards"):
        load_csv(path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    with pytest.raises(AkornError, match="standard input contains no boards"):
        list(read_boards("-"))


def test_a_missing_file_or_a_folder_is_an_error(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none.csv", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(AkornError, match=f"cannot read .*{said}"):
            list(read_boards(path))
        with pytest.raises(AkornError, match=f"cannot read .*{said}"):
            load_csv(path)


def test_write_and_load_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    write_csv(path, PUZZLES, SOLUTIONS)
    assert path.read_text() == "\n".join(LINES) + "\n"
    assert os.listdir(tmp_path) == ["out.csv"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match="got 10"):
        write_csv(path, PUZZLES, SOLUTIONS + 1)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.csv"]
    with pytest.raises(AkornError, match="does not exist"):
        write_csv(tmp_path / "none" / "out.csv", PUZZLES, SOLUTIONS)
    with pytest.raises(AkornError, match="is a folder"):
        write_csv(tmp_path, PUZZLES, SOLUTIONS)
    with pytest.raises(ValueError, match=r"\[B, 81\]"):
        write_csv(path, PUZZLES, SOLUTIONS[:2])


def one_hot(boards: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.eye(10, dtype=np.float32)[boards][:, :, 1:].reshape(-1, 9, 9, 9))


def test_satnet_tensors_round_trip(tmp_path: Path) -> None:
    torch.save(one_hot(PUZZLES), tmp_path / "features.pt")
    torch.save(one_hot(SOLUTIONS).to(torch.uint8), tmp_path / "labels.pt")
    puzzles, solutions = load_satnet(tmp_path)
    assert np.array_equal(puzzles, PUZZLES)
    assert np.array_equal(solutions, SOLUTIONS)
    assert puzzles.dtype == solutions.dtype == np.uint8


class Foreign:
    """Something a tensor file must not hold."""


@pytest.mark.parametrize(
    ("features", "labels", "said"),
    [
        (None, one_hot(SOLUTIONS), "features.pt does not exist"),
        (one_hot(PUZZLES), None, "labels.pt does not exist"),
        (b"no tensor", one_hot(SOLUTIONS), "features.pt cannot be read as a tensor"),
        (Foreign(), one_hot(SOLUTIONS), "features.pt cannot be read as a tensor"),
        ({"x": 1}, one_hot(SOLUTIONS), "features.pt holds a dict"),
        (torch.zeros(4, 81), one_hot(SOLUTIONS), r"features.pt has shape \[4, 81\], expected \[boards, 9, 9, 9\]"),
        (one_hot(PUZZLES)[:0], one_hot(SOLUTIONS), r"shape \[0, 9, 9, 9\]"),
        (one_hot(PUZZLES)[:3], one_hot(SOLUTIONS), "features.pt has 3 boards, .*labels.pt has 4"),
        (0.5 * one_hot(PUZZLES), one_hot(SOLUTIONS), "board 1: row ., column . is neither one-hot nor blank"),
        (torch.ones(4, 9, 9, 9), one_hot(SOLUTIONS), "board 1: row 1, column 1 is neither"),
        (one_hot(PUZZLES), one_hot(PUZZLES), "labels.pt, board 1: the solution has a blank"),
        (one_hot(PUZZLES), one_hot(SOLUTIONS).flip(0), "labels.pt, board 1: the solution has . at row"),
    ],
)
def test_bad_satnet_tensors_are_named(tmp_path: Path, features: object, labels: object, said: str) -> None:
    for name, value in (("features.pt", features), ("labels.pt", labels)):
        if isinstance(value, bytes):
            (tmp_path / name).write_bytes(value)
        elif value is not None:
            torch.save(value, tmp_path / name)
    with pytest.raises(AkornError, match=said):
        load_satnet(tmp_path)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real boards are not beside the repository (../shared/data/sudoku)")
@pytest.mark.parametrize(
    ("name", "count", "low", "high"),
    [
        ("test-id", 1000, 32, 42),
        ("train", 9000, 31, 42),
        ("valid-ood", 1800, 17, 34),
        ("pool-17-clue", 36150, 17, 17),
    ],
)
def test_real_boards_are_read(name: str, count: int, low: int, high: int) -> None:
    puzzles, solutions = load_csv(DATA / f"{name}.csv")
    assert puzzles.shape == solutions.shape == (count, 81)
    givens = (puzzles > 0).sum(1)
    assert (givens.min(), givens.max()) == (low, high)
    assert valid_solutions(solutions).all()
    assert all(count_solutions(puzzle) == 1 for puzzle in puzzles[:: count // 50])
