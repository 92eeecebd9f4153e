"""Sudoku's tables: which record fills which cell."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.ledger.tables import chosen

sudoku = pytest.importorskip("results.pages.sudoku", reason="the repository's folder results/ is not here")


def test_runs_of_another_precision_than_they_say_are_trials() -> None:
    """Known by their commits, in whatever length a record has these."""
    config = {"data": "test-ood", "boards": 18000, "steps": 128, "votes": 1}
    found = {"kind": "eval", "name": "sudoku_akorn", "seed": 0, "date": "2030", "config": config}
    found |= {"metrics": {"board_accuracy": 50.0, "single": 50.0, "sum": 80.0}, "extra": {"training": None}}
    vote = found | {"config": {**config, "data": "valid-ood", "votes": 100}}
    rows = [row.cells[1] for row in sudoku.TRIED.rows if "seed 2" not in row.label and "last" not in row.label]
    for commit, in_paper, row in (("0" * 40, True, 0), ("4ab1a02" + "0" * 33, True, 1), ("834e632", False, 2)):
        at = {"commit": {"id": commit}}
        assert bool(chosen([found | at], sudoku.PAPER.rows[1].cells[1])) == in_paper
        assert [bool(chosen([vote | at], cell)) for cell in rows] == [number == row for number in range(3)]


def test_trainings_that_are_compared_fill_their_own_row_if_they_are_alike() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "hard_boards.py"
    spec = importlib.util.spec_from_file_location("hard_boards", script)
    assert spec is not None
    assert spec.loader is not None
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    rows = sudoku.HARD_COMPARED.rows
    filled = []
    for row in compare.ROWS.values():
        alike = {"data.path": "mixed.csv", "data.revealed": 0.5, "train.steps": 2500, **dict(row.overrides)}
        record = {"kind": "train", "name": row.recipe, "seed": 0, "date": "2030", "overrides": alike}
        record["metrics"] = {"board_accuracy": 1.0}
        filled += [[each.label for each in rows if chosen([record], each.cells[0])]]
        record["overrides"] = alike | {"train.steps": 9000}
        assert not any(chosen([record], each.cells[0]) for each in rows)
    assert sorted(filled) == sorted([row.label] for row in rows)


def test_votes_are_drawn_from_the_records_that_the_table_counts(tmp_path: Path) -> None:
    plots = pytest.importorskip("results.pages.plots")
    told = {name: [50.0, 60.0] for name in plots.VOTES} | {"votes": [1, 2]}
    config = {"data": "test-ood", "boards": 18000, "steps": 128, "votes": 100}
    record = {"kind": "eval", "name": "sudoku_akorn", "seed": 1, "date": "2030", "config": config, "metrics": {}}
    record["extra"] = {"over_votes": told, "training": {"recipe": "sudoku_akorn", "overrides": {}}}
    assert plots.votes([record], tmp_path / "votes.svg").read_text(encoding="utf-8").count("seed 1") == 1
    with pytest.raises(AkornError, match="no record"):
        plots.votes([record | {"config": {**config, "votes": 64}}], tmp_path / "none.png")
