"""Trials: what counts as one, also if the recipe has moved from the package to trials.toml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from akorn.errors import AkornError
from akorn.rooms import recipes

trials = pytest.importorskip("results.pages.trials", reason="the repository's folder results/ is not here")

WRITTEN = """
[gone_fast]
recipe = "cifar10_resnet18"
overrides = ["--train.epochs 200", "train.optimiser.learning-rate=0.001", "--train.schedule.name", "cosine"]
why = "half the epochs"

[gone_faster]
recipe = "gone_fast"
overrides = ["--train.epochs 100"]
why = "a quarter"
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "trials.toml"
    path.write_text(WRITTEN)
    monkeypatch.setattr(trials, "TRIALS", path)
    _forget()
    yield path
    _forget()


def _forget() -> None:
    trials.settings.cache_clear()
    trials.trials.cache_clear()


def trained(name: str, steps: int | None = None, **overrides: object) -> dict[str, Any]:
    training = {"recipe": name, "weights": "average", "precision": "bf16", "overrides": overrides}
    return {"name": name, "extra": {"training": training | ({} if steps is None else {"steps": steps})}}


def test_a_recipe_that_is_gone_is_its_recipe_with_overrides(written: Path) -> None:
    base, fast, faster = (trials.settings(name) for name in ("cifar10_resnet18", "gone_fast", "gone_faster"))
    changed = {name: value for name, value in fast.items() if base[name] != value}
    assert changed == {
        "train.epochs": 200, "train.optimiser.learning_rate": 0.001, "train.schedule.name": "cosine",
    }  # fmt: skip
    assert faster == {**fast, "train.epochs": 100}
    rate = {"train.optimiser.learning_rate": 0.001}
    assert not trials.is_trial(trained("gone_fast"))
    assert not trials.is_trial(trained("gone_fast", **rate))  # as it says
    assert trials.is_trial(trained("gone_fast", **{"train.optimiser.learning_rate": 0.01}))
    assert trials.is_trial(trained("cifar10_resnet18", **rate))
    assert trials.epochs(trained("gone_fast"), 50_000) == 200
    assert trials.epochs(trained("gone_fast", steps=3900), 50_000) == 10


def test_a_recipe_that_is_nowhere_is_told_by_its_overrides(written: Path) -> None:
    found = trained("nowhere")
    assert trials.settings("nowhere") == {}
    assert trials.is_trial(found)  # nothing says that it is to train the average, in bf16
    del found["extra"]["training"]["precision"]
    assert trials.is_trial(found)
    assert not trials.is_trial(found, "train.weights")
    assert trials.epochs(found, 50_000) is None


def test_without_the_file_there_are_no_trials(written: Path) -> None:
    written.unlink()
    assert trials.trials() == {}
    assert trials.settings("gone_fast") == {}
    assert trials.settings("cifar10_resnet18")["name"] == "cifar10_resnet18"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a", "trials.toml: "),
        ("[a]\nwhy = 'x'", r"trials.toml: \[a\] names no recipe"),
        ("[a]\nrecipe = 'b'", r"\[a\] is made from 'b', which is not a recipe"),
        ("[a]\nrecipe = 'a'", r"\[a\] is made from 'a', which is not a recipe"),
        ("[a]\nrecipe = 'cifar10_resnet18'\noverrides = ['--train.epoch 3']", "train.epoch"),
    ],
)
def test_a_bad_entry_is_named(written: Path, text: str, told: str) -> None:
    written.write_text(text)
    with pytest.raises(AkornError, match=told):
        trials.settings("a")


def test_what_the_repository_has_tried_can_be_trained() -> None:
    """Each entry is a recipe with overrides that `akorn train` takes, and says why it was tried."""
    known = recipes()
    for name, entry in trials.trials().items():
        assert name not in known, f"{name} is a recipe of the package"
        assert trials.settings(name)
        assert entry["why"]


def test_settings_that_change_no_number_make_no_trial() -> None:
    harmless = {"train.checkpoint_every": 0, "train.checkpoint_minutes": 0.0, "train.log_every": 50, "valid.count": 9}
    assert not trials.is_trial(trained("cifar10_resnet18", **harmless))
    assert trials.is_trial(trained("cifar10_resnet18", **harmless, **{"train.batch_size": 7}))
