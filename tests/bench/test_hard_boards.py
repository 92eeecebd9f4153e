"""benchmarks/hard_boards.py: symmetric images of solutions are found, the mixture avoids them, all rows train alike."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from akorn.cli.train import configured, parse
from akorn.errors import AkornError
from akorn.sudoku.board_files import load_csv, write_csv
from akorn.sudoku.data import load
from akorn.sudoku.symmetry import Symmetries

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hard_boards.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if not SCRIPT.is_file():
        pytest.skip("the repository's folder benchmarks/ is not here")
    spec = importlib.util.spec_from_file_location("hard_boards", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def boards() -> tuple[np.ndarray, np.ndarray]:
    return load(None, count=60, givens=(40, 50), seed=3)


def images(boards: tuple[np.ndarray, np.ndarray], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    puzzles, solutions = (torch.from_numpy(part) for part in boards)
    turned = Symmetries()(puzzles, solutions, torch.Generator().manual_seed(seed))
    return turned[0].numpy(), turned[1].numpy()


@pytest.mark.parametrize("seed", range(3))
def test_symmetric_images_share_a_fingerprint_and_other_boards_do_not(
    script: ModuleType, boards: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    prints = script.fingerprints(boards[1])
    assert len(np.unique(prints)) == len(prints)
    np.testing.assert_array_equal(script.fingerprints(images(boards, seed)[1]), prints)


def test_two_rows_exchanged_across_bands_are_another_board(
    script: ModuleType, boards: tuple[np.ndarray, np.ndarray]
) -> None:
    swapped = boards[1].reshape(-1, 9, 9).copy()
    swapped[:, [2, 3]] = swapped[:, [3, 2]]
    assert not (script.fingerprints(swapped.reshape(-1, 81)) == script.fingerprints(boards[1])).any()


def test_the_mixture_shares_no_solution_with_what_is_held_out_or_kept_apart(
    script: ModuleType, boards: tuple[np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    puzzles, solutions = boards
    others = load(None, count=40, givens=(40, 50), seed=4)
    away = images(boards, 7)
    write_csv(tmp_path / "hard.csv", puzzles[:40], solutions[:40])
    write_csv(tmp_path / "apart.csv", away[0][:5], away[1][:5])  # images of the first five hard ones
    easier = np.concatenate([others[0], away[0][5:8]]), np.concatenate([others[1], away[1][5:8]])
    write_csv(tmp_path / "easier.csv", *easier)
    script.mixture(tmp_path / "hard.csv", tmp_path / "easier.csv", [tmp_path / "apart.csv"], 10, tmp_path / "out")

    mixed, held = (script.fingerprints(load_csv(tmp_path / "out" / f"{name}.csv")[1]) for name in ("mixed", "held-out"))
    prints = script.fingerprints(solutions)
    assert len(held) == 10
    assert not set(mixed) & (set(held) | set(prints[:5]))
    hard = len(set(mixed) & set(prints[:40]))
    assert hard == 40 - len(set(held) | set(prints[:5]))
    assert len(mixed) == hard + round(hard * 3 / 7)
    assert f"{hard} of 40 hard boards, in {hard} lines" in capsys.readouterr().out


def test_boards_with_rare_numbers_of_givens_are_repeated(script: ModuleType) -> None:
    givens = np.array([24] * 100 + [22] * 30 + [21] * 2 + [26] * 100)
    np.testing.assert_array_equal(script.repeats(givens, 8), [1] * 100 + [3] * 30 + [8] * 2 + [1] * 100)
    assert (script.repeats(givens, 1) == 1).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [({"held": 0}, "--held is 0"), ({"even": -2}, "--even is -2"), ({"held": 60}, "no boards are left")],
)
def test_impossible_mixtures_are_refused(
    script: ModuleType, boards: tuple[np.ndarray, np.ndarray], tmp_path: Path, given: dict[str, int], words: str
) -> None:
    write_csv(tmp_path / "hard.csv", *boards)
    settings = {"held": 10, "even": 1} | given
    with pytest.raises(AkornError, match=words):
        script.mixture(tmp_path / "hard.csv", tmp_path / "hard.csv", [], out=tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_boards_with_one_solution_are_counted_on_both_sides(
    script: ModuleType, boards: tuple[np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = images(boards, 5)
    write_csv(tmp_path / "train.csv", boards[0][:20], boards[1][:20])
    write_csv(tmp_path / "test.csv", np.repeat(away[0][18:30], 2, 0), np.repeat(away[1][18:30], 2, 0))
    script.shared([tmp_path / "train.csv"], [tmp_path / "test.csv"], tmp_path)
    said = capsys.readouterr().out
    assert "2 of 20 boards of train.csv have the solutions of 4 of 24 of test.csv" in said
    (record,) = tmp_path.glob("bench-shared-solutions-*.json")
    assert json.loads(record.read_text())["metrics"] == {"test_in_train": 4}


def test_all_rows_are_trained_alike(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "--data", "mixed.csv", "--valid", "held.csv", "--score", "a.csv", "b.csv", "--dry-run"]
    monkeypatch.setattr(sys, "argv", ["hard_boards.py", *words, "--train.batch-size", "64"])
    with pytest.raises(SystemExit) as end:
        script.main()
    assert not end.value.code
    lines = [shlex.split(line)[1:] for line in capsys.readouterr().out.splitlines()]
    trained = [configured(parse(line[1:])) for line in lines if line[0] == "train"]
    assert len(trained) == len(script.ROWS)
    assert sum(line[0] == "eval" for line in lines) == 2 * len(trained)
    first = trained[0]
    assert first.train.batch_size == 64
    for recipe in trained:
        assert (recipe.train, recipe.data, recipe.valid, recipe.init) == (first.train, first.data, first.valid, None)
    assert len({repr(recipe.model) for recipe in trained}) == len(trained)


def test_a_row_that_fails_is_not_scored_and_stops_no_other(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[list[str]] = []

    def command(words: list[str]) -> int:
        run.append(words[:2])
        return 2 if words[1] == "sudoku_hard_itrsa" else 0

    monkeypatch.setattr(script, "akorn", command)
    words = ["compare", "--data", "a.csv", "--valid", "b.csv", "--rows", "itrsa", "akorn", "--score", "c.csv"]
    monkeypatch.setattr(sys, "argv", ["hard_boards.py", *words])
    with pytest.raises(SystemExit) as end:
        script.main()
    assert end.value.code == 2
    assert run == [["train", "sudoku_hard_itrsa"], ["train", "sudoku_hard"], ["eval", "runs/hard-akorn/model"]]


def evaluated(row: str, date: str, solved: float, data: str = "forum") -> dict[str, object]:
    """A record as `akorn eval` leaves it for a model of the comparison."""
    recipe, options = ("sudoku_hard_itrsa", {}) if row == "itrsa" else ("sudoku_hard", {})
    if row == "no-omega":
        options = {"model.omega": False}
    training = {"recipe": recipe, "overrides": {"data.revealed": 0.5, "train.steps": 2500, **options}}
    votes = {"votes": [1, 2], "confidence": [solved - 1, solved]}
    return {
        "kind": "eval", "name": recipe, "date": date, "config": {"data": data},
        "extra": {"training": training, "over_votes": votes},
    }  # fmt: skip


def test_a_plot_has_the_newest_record_of_each_row_the_best_first(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records = [
        evaluated("itrsa", "2030-01-01", 3.0),
        evaluated("no-omega", "2030-01-02", 90.0),
        evaluated("akorn", "2030-01-03", 25.0),
        evaluated("no-omega", "2030-01-04", 6.0),
        evaluated("akorn", "2030-01-05", 70.0, data="others"),
    ]
    other = evaluated("akorn", "2030-01-06", 99.0)
    other["extra"]["training"]["overrides"]["data.revealed"] = 0.2  # type: ignore[index]
    drawn: dict[str, dict[int, float]] = {}

    def draw(curves: dict[str, dict[int, float]], out: Path, against: str) -> Path:
        drawn.update(curves)
        return out

    monkeypatch.setattr(script, "plot_accuracy", draw)
    monkeypatch.setattr(script, "read_records", lambda folder: [*records, other])
    assert script.plotted(tmp_path, "forum", tmp_path / "plot.png") == tmp_path / "plot.png"
    assert drawn == {"AKOrN": {1: 24.0, 2: 25.0}, "AKOrN without Ω": {1: 5.0, 2: 6.0}, "ItrSA": {1: 2.0, 2: 3.0}}
    assert list(drawn) == ["AKOrN", "AKOrN without Ω", "ItrSA"]
    with pytest.raises(AkornError, match="no records of the compared models on nothing"):
        script.plotted(tmp_path, "nothing", tmp_path / "plot.png")
