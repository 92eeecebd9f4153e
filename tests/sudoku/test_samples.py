"""All votes over K, and boards in groups of search nodes."""

import json
from pathlib import Path

import numpy as np
import pytest

from akorn.cli import main
from akorn.sudoku.board import format_board
from akorn.sudoku.commands.tables import print_votes
from akorn.sudoku.config import ItrSAConfig, SudokuConfig
from akorn.sudoku.difficulty import by_nodes, count_nodes, search_nodes
from akorn.sudoku.generate import make
from akorn.sudoku.net import build
from akorn.sudoku.plots import plot_by_nodes
from akorn.sudoku.samples import Samples

RIGHT = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)
CONFIDENCE = np.array([[0.1, 0.9, 0.2, 0.8], [0.9, 0.2, 0.3, 0.1], [0.5, 0.4, 0.3, 0.2]], dtype=np.float32)
ENERGY = np.array([[-1, -9, -2, -8], [-1, -2, -3, -4], [-4, np.nan, -3, -2]], dtype=np.float32)
ANSWER = np.array([[1, 7, 2, 7], [8, 1, 2, 3], [5, 6, 6, 6]])
SAMPLES = Samples(ENERGY, ENERGY, CONFIDENCE, RIGHT, ANSWER)


def test_votes_over_k() -> None:
    told = SAMPLES.over_votes()
    assert told["votes"] == [1, 2, 4]
    assert told["confidence"] == pytest.approx([100 / 3, 200 / 3, 200 / 3])
    assert told["sum"] == told["last"] == pytest.approx([100 / 3, 100 / 3, 100 / 3])
    assert told["any"] == pytest.approx([100 / 3, 200 / 3, 200 / 3])
    assert told["agree"] == pytest.approx([100, 200 / 3, 200 / 3])  # the second board's energy chooses another
    assert told["agreed"] == pytest.approx([100 / 3, 50, 50])
    assert SAMPLES.winners("both").tolist() == [1, 2, 0]  # ranks (0 + 3, 2 + 2, ...) of the second board
    assert SAMPLES.auroc("confidence") == 1.0
    assert all(told[vote][k] <= told["any"][k] for vote in SAMPLES.votes for k in range(3))


def test_starts_of_equal_confidence_share_a_rank() -> None:
    energy = np.array([[-2, -3, -1], [-1, -3, -2]], dtype=np.float32)
    correct = np.array([[False, True, False], [False, True, False]])
    tied = Samples(energy, energy, np.ones_like(energy), correct)
    last_first = Samples(*(values[:, ::-1] for values in (energy, energy, tied.confidence, correct)))
    np.testing.assert_array_equal(tied.score("both")[:, ::-1], last_first.score("both"))
    assert tied.winners("both").tolist() == [1, 1]  # the energy decides
    assert tied.auroc("both") == last_first.auroc("both") == 1.0


def test_without_energy_there_is_confidence_alone() -> None:
    told = Samples(None, None, CONFIDENCE, RIGHT, ANSWER).over_votes()
    assert set(told) == {"votes", "confidence", "any"}
    with pytest.raises(ValueError, match="no energy"):
        Samples(None, None, CONFIDENCE, RIGHT).score("both")
    with pytest.raises(ValueError, match="between 1 and 4, got 5"):
        SAMPLES.first(5)
    with pytest.raises(ValueError, match="not kept"):
        Samples(ENERGY, ENERGY, CONFIDENCE, RIGHT).agreement(2)


def test_groups_of_search_nodes(tmp_path: Path) -> None:
    found = by_nodes([1, 1, 2, 10, 11, 30, 31, 1000, 1001, 9999], [1, 0, 1, 1, 0, 0, 1, 0, 0, 1])
    assert found == {
        "1": (50.0, 2), "2-10": (100.0, 2), "11-30": (0.0, 2), "31-100": (100.0, 1), "301-1000": (0.0, 1),
        "1001+": (50.0, 2),
    }  # fmt: skip
    puzzles, _ = make(4, (26, 30), seed=3)
    assert count_nodes(puzzles, workers=2).tolist() == [search_nodes(puzzle) for puzzle in puzzles]
    assert plot_by_nodes({"one": found, "two": {"1": (1.0, 1)}}, tmp_path / "plot.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="no accuracy"):
        plot_by_nodes({}, tmp_path / "none.png")


def status(words: list[object]) -> object:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.mark.parametrize("config", [SudokuConfig(channels=16, heads=2), ItrSAConfig(channels=16, heads=2)])
def test_eval_scores_files_of_sudoku_extremes_form(
    tmp_path: Path, config: SudokuConfig | ItrSAConfig, capsys: pytest.CaptureFixture
) -> None:
    build(config).save_pretrained(tmp_path / "model")
    puzzles, solutions = make(3, (60, 70), seed=2)
    lines = [
        f"puzzles{number}_x,{format_board(puzzle).replace('0', '.')},{format_board(solution)},{number}"
        for number, (puzzle, solution) in enumerate(zip(puzzles, solutions, strict=True))
    ]
    table, plain = tmp_path / "table.csv", tmp_path / "plain.csv"
    table.write_text("\r\n".join(["source,question,answer,rating", *lines]) + "\r\n")
    plain.write_text("".join(f"{','.join(line.split(',')[1:3])}\n" for line in lines))
    records = []
    for data in (table, plain):
        words = ["eval", tmp_path / "model", "--data", data, "--steps", 2, "--votes", 3, "--results", tmp_path / "r"]
        assert status([*words, "--device", "cpu"]) == 0
        (path,) = [file for file in (tmp_path / "r").iterdir() if json.loads(file.read_text()) not in records]
        records.append(json.loads(path.read_text()))
    one, two = records
    assert one["data"] == two["data"]  # the same boards
    assert one["metrics"]["confidence"] == two["metrics"]["confidence"]
    energy = {"sum", "last", "both", "agree", "agreed"} if isinstance(config, SudokuConfig) else set()
    assert set(one["extra"]["over_votes"]) == {"votes", "confidence", "any"} | energy
    assert sum(group["boards"] for group in one["extra"]["by_nodes"].values()) == 3
    assert "search nodes" in capsys.readouterr().out
    table.write_text("source,question,answer,rating\n" + lines[0][:60] + "\n")
    assert status(["eval", tmp_path / "model", "--data", table, "--results", "None"]) == 2
    assert "table.csv, line 2" in capsys.readouterr().err


@pytest.mark.parametrize("votes", [10, 64, 1000])
def test_the_table_of_votes_fits_a_terminal(
    votes: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shape = (4, votes)
    right = np.ones(shape, dtype=bool)  # 100.0 is the widest figure
    answer = np.zeros(shape, dtype=np.int64)
    print_votes(Samples(*np.zeros((3, *shape), dtype=np.float32), right, answer))
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert "…" not in told
    heading = told.split("\n")[0].split()
    assert (heading[2], heading[-2]) == ("1", f"{votes:,}")
    for words in ("energy and confidence", "of these, right"):
        assert words in told
