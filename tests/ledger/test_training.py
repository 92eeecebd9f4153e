"""How a model was trained: what is written beside it comes back, and damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.ledger import read_training, write_training

FACTS = {"recipe": "sudoku_akorn", "seed": 3, "precision": "tf32", "weights": "last", "steps": 7}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_training(tmp_path / "run" / "model", **FACTS, overrides={"data.path": Path("a.csv"), "n": (1, 2)})  # type: ignore[arg-type]
    assert path == tmp_path / "run" / "model" / "training.json"
    assert read_training(path.parent) == {**FACTS, "overrides": {"data.path": "a.csv", "n": [1, 2]}}
    assert list(json.loads(path.read_text())) == ["recipe", "seed", "precision", "weights", "overrides", "steps"]


def test_no_file_and_one_without_a_recipe_tell_nothing(tmp_path: Path) -> None:
    assert read_training(tmp_path) is None
    (tmp_path / "training.json").write_text("{}")
    assert read_training(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not readable as JSON"),
        ("[]", "it holds a list"),
        ('{"recipe": 1, "seed": 0}', "recipe is 1, expected a name"),
        ('{"recipe": "a"}', "seed is None, expected a whole number"),
        ('{"recipe": "a", "seed": 0, "overrides": []}', r"overrides is \[\], expected {…}"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "training.json").write_text(content)
    with pytest.raises(AkornError, match=rf"training.json: damaged, {reason}"):
        read_training(tmp_path)
