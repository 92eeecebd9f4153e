"""`akorn solve` as a person meets it, with a tiny model that knows nothing."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from akorn.sudoku import SudokuConfig, SudokuModel
from akorn.sudoku.board import parse_board
from akorn.sudoku.examples import EASY
from akorn.sudoku.generate import solve_exact

from .conftest import Akorn, assert_refused

SOLVED = "".join(map(str, solve_exact(parse_board(EASY))))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny")
    SudokuModel(SudokuConfig(channels=16, heads=2)).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_puzzle_is_shown_with_its_energy(akorn: Akorn, model: Path) -> None:
    result = akorn("solve", SOLVED, "--model", model, "--steps", 2, "--votes", 1)
    assert result.returncode == 0, result.stderr
    assert "summed energy" in result.stdout  # the value that the vote used
    assert "valid" in result.stdout
    assert result.stdout.count("[") == 81  # without colour, givens stand in brackets
    assert result.stderr == ""


@pytest.mark.slow
def test_json_is_a_line_a_board(akorn: Akorn, akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    boards = tmp_path / "boards.csv"
    boards.write_text(f"{EASY},{SOLVED}\n{SOLVED},{SOLVED}\n{SOLVED}\n")
    result = akorn_here("solve", boards, "--model", model, "--steps", 2, "--votes", 3, "--json", "--device", "cpu")
    assert result.returncode == 1, result.stderr  # the first board is too much for this model
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert first["puzzle"] == EASY
    assert len(first["solution"]) == 81
    assert first["correct"] is (first["solution"] == SOLVED)
    assert first["valid"] is (first["solution"] == SOLVED)
    assert isinstance(first["energy"], float)
    assert second["valid"]
    assert second["correct"]
    assert "correct" not in third  # the file does not know
    assert "board accuracy" in result.stderr
    assert result.stdout == akorn("solve", boards, "--model", model, "--steps", 2, "--votes", 3, "--json").stdout


def test_the_board_accuracy_follows_on_stderr(akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    (tmp_path / "boards.csv").write_text(f"{SOLVED},{SOLVED}\n" * 3)
    result = akorn_here("solve", "boards.csv", "--model", model, "--steps", 1)
    assert "board accuracy: 100.00 % (3 of 3)" in result.stderr


@pytest.mark.slow
def test_bad_boards_never_stop_the_others(akorn: Akorn, model: Path) -> None:
    twice = "55" + "0" * 79
    lines = [SOLVED, "123", twice, SOLVED[:80] + "x", SOLVED]
    result = akorn("solve", "-", "--model", model, "--steps", 1, "--json", stdin="\n".join(lines) + "\n")
    assert result.returncode == 2
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [("error" in answer) for answer in answers] == [False, True, True, True, False]
    assert "81" in answers[1]["error"]
    assert "3" in answers[1]["error"]
    assert "5" in answers[2]["error"]
    assert "row 1" in answers[2]["error"]
    assert "x" in answers[3]["error"]
    assert answers[1]["puzzle"] == "123"
    assert [answer["error"].split(":")[0] for answer in answers[1:4]] == ["line 2", "line 3", "line 4"]
    told = [line for line in result.stderr.splitlines() if line.startswith("akorn: line")]
    assert [line.split(":")[1].strip() for line in told] == ["line 2", "line 3", "line 4"]


def test_no_solution_found_says_so(akorn_here: Akorn, model: Path) -> None:
    result = akorn_here("solve", EASY, "--model", model, "--steps", 1)
    assert result.returncode == 1
    assert "not solved; in the best attempt digit " in result.stderr
    assert "times in" in result.stderr or "twice in" in result.stderr
    assert len(result.stderr) < 400  # a few clashes, then their number


def test_adaptive_effort_is_the_default_and_told(akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    result = akorn_here("solve", SOLVED, "--model", model, "--device", "cpu")
    assert result.returncode == 0
    assert result.stderr == "effort: 1 start, 32 steps (limit: 64 starts of 256 steps)\n"
    result = akorn_here("solve", EASY, "--model", model, "--effort", "2x64")
    assert result.returncode == 1
    assert "confidence" in result.stdout
    assert "try a higher limit, such as --effort 4x128" in result.stderr
    assert "effort: 2 starts, 192 steps in all (the limit was reached)\n" in result.stderr
    (tmp_path / "boards.txt").write_text(f"{SOLVED}\n{EASY}\n")
    result = akorn_here("solve", "boards.txt", "--model", model, "--effort", "2x64", "--json")
    assert [json.loads(line)["effort"] for line in result.stdout.splitlines()] == [32, 192]
    mean = "effort: 112 steps per board on average, over all its starts"
    assert f"{mean}; 1 of 2 boards reached the limit of 2 starts of 64 steps\n" in result.stderr
    (tmp_path / "boards.txt").write_text(f"{SOLVED}\n{SOLVED}\n")
    result = akorn_here("solve", "boards.txt", "--model", model, "--effort", "1x64", "--json")
    assert "over all its starts; no board reached the limit of 1 start of 64 steps\n" in result.stderr


def test_the_bundled_puzzle_watching_and_an_animation(akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    result = akorn_here("solve", "--model", model, "--steps", 3, "--watch", "--gif", "settling.gif")
    assert result.returncode == 1, result.stderr
    assert result.stdout.count("summed energy") == 1
    assert "energy" in result.stdout
    with Image.open(tmp_path / "settling.gif") as picture:
        assert picture.n_frames >= 3


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["123"], ["81", "3"]),
        (["nothing.csv"], ["nothing.csv", "no such file"]),
        (["folder/" * 20 + "nothing.csv"], ["nothing.csv", "no such file"]),
        ([SOLVED, "--steps", "0"], ["--steps", "at least 1"]),
        ([SOLVED, "--votes", "none"], ["--votes", "none"]),
        ([SOLVED, "--model", "nobody"], ["nobody"]),
        ([SOLVED, "--gif", "picture.png"], [".gif"]),
        ([SOLVED, "--gif", "nowhere/picture.gif"], ["nowhere"]),
        ([SOLVED, "--device", "abacus"], ["abacus"]),
        (["1" * 300], ["81", "300"]),  # too long for the name of a file
        (["."], ["is a folder"]),
        ([SOLVED, "--watch", "--json"], ["--watch", "--json"]),
        ([SOLVED, "--effort", "much"], ["STARTSxSTEPS", "'much'"]),
        ([SOLVED, "--effort", "2x50"], ["multiple of 32", "50"]),
        ([SOLVED, "--sure", "2"], ["between 0 and 1", "2"]),
        ([SOLVED, "--effort", "2x64", "--steps", "3"], ["--steps and --votes fix the effort"]),
        ([SOLVED, "--prefer-valid", "--sure", "0.9"], ["--prefer-valid ends the effort", "leave out --sure"]),
        ([SOLVED, "--vote", "energy"], ["--vote energy", "--steps"]),
    ],
)
def test_mistakes(akorn_here: Akorn, model: Path, words: list[str], parts: list[str]) -> None:
    given = words if "--model" in words else [*words, "--model", str(model)]
    assert_refused(akorn_here("solve", *given), *parts)


def test_an_unreadable_puzzle_is_told_in_json_too(akorn_here: Akorn, model: Path) -> None:
    result = akorn_here("solve", "123", "--json", "--model", model)
    assert result.returncode == 2
    assert json.loads(result.stdout)["puzzle"] == "123"
    assert json.loads(result.stdout)["error"] in result.stderr


@pytest.mark.slow
def test_a_drawn_board_and_a_pipe(akorn: Akorn, akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    drawn = "\n".join(SOLVED[row : row + 9] for row in range(0, 81, 9))
    words = ["--model", model, "--steps", 1, "--votes", 1, "--json"]
    (tmp_path / "drawn.txt").write_text(f"{drawn}\n")
    for found in (
        akorn_here("solve", drawn, *words),
        akorn_here("solve", "drawn.txt", *words),
        akorn("solve", "-", *words, stdin=drawn),
        akorn("solve", "/dev/stdin", *words, stdin=SOLVED),
    ):
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["puzzle"] == SOLVED


def test_several_drawn_boards_in_an_argument(akorn_here: Akorn, model: Path) -> None:
    drawn = "+---+\n" + "\n".join(SOLVED[row : row + 9] for row in range(0, 81, 9))
    found = akorn_here("solve", f"{drawn}\n\n123\n\n{drawn}", "--model", model, "--steps", 1, "--votes", 1, "--json")
    assert found.returncode == 2
    first, bad, last = map(json.loads, found.stdout.splitlines())
    assert first["puzzle"] == last["puzzle"] == SOLVED
    assert bad["puzzle"] == "123"
    assert bad["error"].startswith("line 12: a board has 81 squares")


def test_of_many_boards_the_first_readable_one_is_animated_once(
    akorn_here: Akorn, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akorn.sudoku.commands import solve

    monkeypatch.setattr(solve, "BATCH", 2)
    (tmp_path / "boards.csv").write_text("\n".join(["bad", SOLVED, EASY, EASY, EASY]))
    words = ["solve", "boards.csv", "--model", model, "--steps", 2, "--votes", 1, "--gif", "one.gif", "--watch"]
    result = akorn_here(*words)
    assert result.returncode == 2
    assert result.stderr.count("wrote one.gif") == 1
    assert result.stderr.count("--watch shows a single puzzle") == 1
    assert result.stdout.count("line 5") == 1  # the last batch holds one board, which is not alone
    assert "1 board could not be read" in result.stderr
    (tmp_path / "boards.csv").write_text("bad\nworse\n")
    assert "one.gif was not written" in akorn_here(*words).stderr


def test_an_empty_file_and_a_damaged_model(akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("\n\n")
    assert_refused(akorn_here("solve", "empty.csv", "--model", model), "empty.csv", "no board")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in model.iterdir():
        content = bytearray(file.read_bytes())
        if file.suffix == ".safetensors":
            content[-1] ^= 1
        (broken / file.name).write_bytes(content)
    assert_refused(akorn_here("solve", SOLVED, "--model", broken), "damaged")


TWO = "".join("0" if digit in "12" else digit for digit in SOLVED)  # 1 and 2 may change places
NONE = "123456780000000009" + "0" * 63  # the corner is 9, and its column has one already


@pytest.mark.parametrize(
    ("board", "solutions", "said"), [(NONE, 0, "no solution"), (TWO, "several", "several solutions")]
)
def test_boards_without_one_solution_are_named(
    akorn_here: Akorn, model: Path, board: str, solutions: object, said: str
) -> None:
    words = ["--model", model, "--steps", 1, "--votes", 1]
    result = akorn_here("solve", board, *words)
    assert result.returncode == 2
    assert result.stderr == f"akorn: this board has {said}\n"
    assert result.stdout == ""
    result = akorn_here("solve", board, *words, "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["solutions"] == solutions
    assert result.stderr == f"akorn: this board has {said}\n"
    result = akorn_here("solve", f"{SOLVED}\n{board}", *words)
    assert result.returncode == 2
    assert f"akorn: line 2: this board has {said}\n" in result.stderr
    assert "1 board does not have exactly one solution" in result.stderr
    assert "solutions" not in json.loads(akorn_here("solve", SOLVED, *words, "--json").stdout)


def test_exit_statuses(akorn_here: Akorn, model: Path, tmp_path: Path) -> None:
    for lines, status in (([SOLVED, SOLVED], 0), ([SOLVED, EASY], 1), ([EASY, "123"], 2), ([SOLVED, "123"], 2)):
        (tmp_path / "boards.txt").write_text("\n".join(lines))
        for more in ([], ["--json"]):
            found = akorn_here("solve", "boards.txt", "--model", model, "--steps", 1, "--votes", 1, *more)
            assert found.returncode == status, lines


def test_both_helps_say_why_their_defaults_differ(akorn_here: Akorn) -> None:
    solve = " ".join(akorn_here("solve", "--help").stdout.replace("│", " ").split())
    scored = " ".join(akorn_here("eval", "--help").stdout.replace("│", " ").split())
    assert "`akorn eval` uses the 16 of training by default" in solve
    assert "64x256 on a CPU, 64x2048 on a GPU" in solve
    assert "`akorn solve` takes as many as a board needs, up to a limit" in scored
    assert "exit status is 0 if every answer is a valid Sudoku, 1 if one is not" in solve
