"""Models by name: what a name finds, and what a mistyped one is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import akorn
from akorn import hub, models
from akorn.cli import main
from akorn.errors import AkornError


def test_a_mistyped_name_is_told_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AkornError, match=r"unknown model 'sudokuu': did you mean sudoku"):
        akorn.create_model("sudokuu")
    with pytest.raises(AkornError, match=r"nor the name of shipped weights: did you mean tetrominoes\?"):
        models.load_model("tetronimoes")
    for words, told in (
        ("eval sudoko", "akorn: sudoko: neither a model's folder nor the name of shipped weights: did you mean sudoku"),
        ("train shapes_akron", "akorn: unknown recipe 'shapes_akron': did you mean shapes_akorn"),
        ("data make tetronimoes x", "akorn: unknown data set 'tetronimoes': did you mean tetrominoes?"),
        ("sovle", "akorn: unknown command 'sovle': did you mean solve?"),
    ):
        with pytest.raises(SystemExit) as end:
            main(words.split())
        out, err = capsys.readouterr()
        assert (end.value.code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(told)


def test_a_name_that_is_near_to_nothing_is_told_what_there_is() -> None:
    with pytest.raises(AkornError, match=r"unknown model 'xyz': the known ones are .*, sudoku, "):
        akorn.create_model("xyz")


def test_a_model_without_weights_is_not_taken_for_another() -> None:
    with pytest.raises(AkornError, match=r"no pretrained model 'sudoku-itrsa'; shipped weights are called: .*sudoku"):
        akorn.create_model("sudoku-itrsa", pretrained=True)
    with pytest.raises(AkornError, match="train it by `akorn train sudoku_itrsa`"):
        models.load_model("sudoku-itrsa")


def test_settings_alone_need_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained model of a name that ships is built of its config.json."""
    model = akorn.create_model("sudoku", channels=16, heads=2)
    model.save_pretrained(tmp_path / "small")
    (tmp_path / "small" / "model.safetensors").unlink()
    monkeypatch.setattr(models, "WEIGHTS", tmp_path)
    assert akorn.create_model("small").settings() == model.settings()
    with pytest.raises(AkornError, match=r"model\.safetensors: cannot be read"):
        akorn.create_model("small", pretrained=True)


def test_the_hub_is_asked_for_a_users_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = akorn.create_model("sudoku", channels=16, heads=2)
    model.save_pretrained(tmp_path)
    asked: list[Any] = []

    def fetch(repo: str, **options: Any) -> str:
        asked.append((repo, options.get("revision")))
        if repo != "someone/solver":
            raise OSError("404: there is no such repository\nand more")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    loaded = hub.HubModel.from_pretrained("someone/solver", revision="main")
    assert loaded.settings() == model.settings()
    with pytest.raises(AkornError, match=r"someone/else: no such folder, .* \(404: there is no such repository\)$"):
        models.load_model("someone/else")
    assert asked == [("someone/solver", "main"), ("someone/else", None)]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("akorn.rooms", ("torch", "akorn.hub", "akorn.models")),
        ("akorn.models", ("torch", "akorn.hub")),
        ("akorn.hub", ("akorn.models", "akorn.rooms", "akorn.nn", "akorn.sudoku", "akorn.objects")),
        ("akorn.sudoku.recipes", ("torch", "akorn.hub", "akorn.sudoku.model")),
    ],
)
def test_the_way_from_a_name_to_weights_does_not_turn(module: str, absent: tuple[str, ...]) -> None:
    """Names know rooms, rooms know classes, classes know folders: none of them imports what comes before it."""
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(absent) & set(loaded)
