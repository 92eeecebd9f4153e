"""`akorn data make sudoku`: boards of a chosen difficulty, and what is said about them."""

import json
from pathlib import Path

import pytest

from akorn.cli import parse
from akorn.errors import AkornError
from akorn.sudoku.board_files import load_csv
from akorn.sudoku.commands.make import Options, run
from akorn.sudoku.difficulty import count_difficulties, search_nodes
from akorn.sudoku.exact import count_solutions
from akorn.sudoku.generate import make


def test_boards_of_one_difficulty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Options(folder=tmp_path / "a", count=4, test=2, difficulty="medium", json=True)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["difficulty"] == {"medium": 6}
    puzzles, _ = load_csv(told["train"])
    assert count_difficulties(puzzles) == {"medium": 4}
    assert {28 <= count <= 36 for count in (puzzles > 0).sum(1)} == {True}


def test_without_a_difficulty_the_boards_are_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Options(folder=tmp_path, count=20, test=10, seed=3)) == 0
    puzzles, _ = load_csv(tmp_path / "train.csv")
    expected = make(30, (31, 42), seed=3)[0]
    assert (puzzles == expected[:20]).all()
    line = capsys.readouterr().out.splitlines()[1]
    easy = count_difficulties(expected)["easy"]
    assert line.startswith(f"difficulty: {100 * easy / 30:.1f} % easy, ")


def test_boards_of_many_search_nodes(tmp_path: Path) -> None:
    assert run(Options(folder=tmp_path, count=2, test=1, nodes=25)) == 0
    puzzles, solutions = load_csv(tmp_path / "train.csv")
    assert all(search_nodes(puzzle) >= 25 for puzzle in puzzles)
    assert [count_solutions(puzzle) for puzzle in puzzles] == [1, 1]
    again, _ = make(2, nodes=25)
    assert (again == puzzles).all()  # by the seed alone, whoever makes them
    for puzzle in puzzles:  # every given is needed
        square = int(puzzle.nonzero()[0][0])
        fewer = puzzle.copy()
        fewer[square] = 0
        assert count_solutions(fewer) == 2
    assert (solutions[0] != solutions[1]).any()
    with pytest.raises(AkornError, match="choose one of them"):
        make(1, 30, nodes=25)
    with pytest.raises(AkornError, match="from 2 to 500, got 0"):
        make(1, nodes=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"givens": "79-80", "difficulty": "hard"}, "none of 20,000 boards with 79 to 80 givens was hard; try 25-32"),
        ({"givens": "20"}, "20 givens cannot be generated"),
        ({"givens": "few"}, "expected a number of givens"),
        ({"count": 0}, "--count and --test must be at least 1"),
        ({"nodes": 1}, "--nodes must be from 2 to 500, got 1"),
        ({"nodes": 501}, "--nodes must be from 2 to 500, got 501"),
        ({"nodes": 20, "difficulty": "hard"}, "--nodes takes the place of --difficulty"),
        ({"nodes": 20, "givens": "25"}, "--nodes takes the place of --difficulty"),
    ],
)
def test_mistakes(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(AkornError, match=said):
        run(Options(folder=tmp_path, **{"count": 1, "test": 1, **options}))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    with pytest.raises(AkornError, match="--difficulty"):
        parse(Options, ["sudoku", str(tmp_path), "--difficulty", "simple"], "data make sudoku")
