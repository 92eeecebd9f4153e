"""Boards in the terminal and as pictures: what must be seen is there, and files are whole or absent."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from akorn.errors import AkornError
from akorn.sudoku.board import format_board, parse_board
from akorn.sudoku.board_pictures import animate, board_figure
from akorn.sudoku.exact import solve_exact
from akorn.sudoku.examples import MEDIUM
from akorn.sudoku.terminal import BoardView, describe, print_board

PUZZLE = parse_board(MEDIUM)
SOLVED = solve_exact(PUZZLE)
HOLES = np.flatnonzero(PUZZLE == 0)


def wrong_board() -> np.ndarray:
    board = SOLVED.copy()
    board[HOLES[0]] = board[HOLES[0]] % 9 + 1
    return board


def rendered(view: BoardView, colour: bool, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    # an empty environment: NO_COLOR or TERM of whoever runs the tests must not matter
    console = Console(
        file=stream, force_terminal=colour, color_system="truecolor" if colour else None, width=80, _environ={}
    )
    console.print(view)
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("board", [PUZZLE, SOLVED, wrong_board()], ids=["puzzle", "solved", "wrong"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_plain_output_is_narrow_and_holds_the_board(board: np.ndarray, encoding: str) -> None:
    text = rendered(BoardView(board, PUZZLE, energy=-1234.567), False, encoding)
    lines = text.splitlines()
    assert "\x1b" not in text
    assert len(lines) == 14
    assert max(map(len, lines)) <= 40
    assert "energy -1234.57" in lines[-1]
    digits = "".join(c for line in lines[:-1] for c in line.replace("·", ".") if c in ".0123456789")
    assert digits == format_board(board, blank=".")
    assert text.count("[") == (PUZZLE > 0).sum()  # brackets mark the givens


def test_our_own_plain_output_can_be_read_again() -> None:
    text = "\n".join(rendered(BoardView(SOLVED, PUZZLE), False).splitlines()[:-1])
    assert np.array_equal(parse_board(text.replace("[", " ").replace("]", " ")), SOLVED)


def test_colour_sets_givens_and_clashes_apart() -> None:
    good = rendered(BoardView(SOLVED, PUZZLE), True)
    assert good.count("\x1b[1m ") == (PUZZLE > 0).sum()  # bold
    assert good.count("\x1b[36m ") == len(HOLES)  # cyan
    assert "\x1b[31m " not in good
    bad = rendered(BoardView(wrong_board(), PUZZLE), True)
    assert "\x1b[31m " in bad
    assert "not valid" in bad
    assert "[" not in "".join(good.replace("\x1b[", ""))


def test_no_color_falls_back_to_marks() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, _environ={"NO_COLOR": "1", "TERM": "xterm"})
    console.print(BoardView(wrong_board(), PUZZLE))
    assert "!" in stream.getvalue()
    assert stream.getvalue().count("[") >= (PUZZLE > 0).sum()
    assert "\x1b[31m" not in stream.getvalue()


def test_captions_say_what_is_wrong() -> None:
    assert describe(SOLVED, PUZZLE) == "valid"
    assert describe(PUZZLE, PUZZLE) == "51 blanks"
    assert "clash" in describe(wrong_board(), PUZZLE)
    one = SOLVED.copy()
    one[HOLES[3]] = 0
    assert describe(one, PUZZLE) == "1 blank"
    other = SOLVED % 9 + 1
    assert describe(other, PUZZLE) == "30 givens changed"
    assert "not valid: 30 givens changed" in rendered(BoardView(other, PUZZLE), False)
    assert "valid Sudoku" in rendered(BoardView(SOLVED, PUZZLE), False)


def test_print_board_writes_to_the_console_it_is_given() -> None:
    stream = io.StringIO()
    print_board(SOLVED, PUZZLE, energy=-2.0, title="bundled puzzle", console=Console(file=stream, width=60))
    assert stream.getvalue().startswith("bundled puzzle\n")
    assert stream.getvalue().rstrip().endswith("energy -2.00  valid Sudoku")


def settling() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frames = np.stack([PUZZLE, wrong_board(), SOLVED, SOLVED])
    return frames, rng.uniform(size=(4, 81)), np.array([0.0, -5.0, -9.0, -9.5])


def test_animation_has_a_picture_a_step_and_rests_on_the_last(tmp_path: Path) -> None:
    frames, confidence, energy = settling()
    path = tmp_path / "board.gif"
    animate(frames, path, PUZZLE, confidence, energy, milliseconds=50, hold=1000)
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.n_frames == 4
        assert film.info["loop"] == 0
        durations = []
        for index in range(4):
            film.seek(index)
            durations.append(film.info["duration"])
        assert durations == [50, 50, 50, 1000]
        tall = film.size[1]
    animate(frames, path, PUZZLE)
    with Image.open(path) as film:
        assert film.size[1] < tall  # no curve without energies
    assert os.listdir(tmp_path) == ["board.gif"]


def middle(picture: Image.Image, square: int) -> np.ndarray:
    """The pixels of one square."""
    x, y = 22 + square % 9 * 44, 40 + square // 9 * 44
    return np.asarray(picture.convert("RGB").crop((x + 4, y + 4, x + 40, y + 40)), dtype=int).reshape(-1, 3)


def test_pictures_set_givens_confidence_and_clashes_apart(tmp_path: Path) -> None:
    given = int(np.flatnonzero(PUZZLE)[0])
    pictures = {}
    for name, board, confidence in (("sure", SOLVED, 1.0), ("unsure", SOLVED, 0.1), ("wrong", wrong_board(), 1.0)):
        path = tmp_path / f"{name}.png"
        board_figure(board, path, PUZZLE, np.full(81, confidence), heading=name)
        pictures[name] = Image.open(path)
    hole = int(HOLES[0])
    assert (middle(pictures["sure"], given)[0] == (231, 234, 239)).all()  # grey ground
    assert (middle(pictures["sure"], hole)[0] == 255).all()  # white ground
    sure, unsure, wrong = (middle(pictures[name], hole) for name in ("sure", "unsure", "wrong"))
    assert unsure.sum() > sure.sum()  # fainter
    assert (sure[:, 2] - sure[:, 0]).max() > 100  # blue
    assert (wrong[:, 0] - wrong[:, 2]).max() > 100  # red
    assert (middle(pictures["wrong"], given) == middle(pictures["sure"], given)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"frames": np.zeros((0, 81), int)}, r"T ≥ 1, got \[0, 81\]"),
        ({"frames": SOLVED}, r"got \[81\]"),
        ({"frames": np.full((4, 81), 12)}, "got 12"),
        ({"confidence": np.ones((3, 81))}, r"\[3, 81\]"),
        ({"confidence": np.full((4, 81), 1.5)}, "0..1"),
        ({"confidence": np.full((4, 81), np.nan)}, "0..1"),
        ({"energy": np.zeros(3)}, r"\[4\], one per frame, got \[3\]"),
        ({"energy": np.array([0, 1, np.nan, 2])}, "finite"),
        ({"milliseconds": 5}, "at least 20 ms"),
    ],
)
def test_bad_films_are_refused_and_nothing_is_overwritten(tmp_path: Path, change: dict[str, object], said: str) -> None:
    frames, confidence, energy = settling()
    path = tmp_path / "board.gif"
    path.write_text("old")
    options = {"frames": frames, "confidence": confidence, "energy": energy, **change}
    with pytest.raises(ValueError, match=said):
        animate(path=path, puzzle=PUZZLE, **options)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["board.gif"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="none does not exist"):
        animate(settling()[0], tmp_path / "none" / "a.gif", PUZZLE)
    with pytest.raises(AkornError, match="none does not exist"):
        board_figure(SOLVED, tmp_path / "none" / "a.png", PUZZLE)
    assert os.listdir(tmp_path) == []
