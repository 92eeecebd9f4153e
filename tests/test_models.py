"""Models by name: what a name finds, and the message for a mistyped one."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import save
from torch import Tensor

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
    with pytest.raises(AkornError, match=r"the known ones are cifar10-.* and \d+ more \(akorn models --all\)"):
        akorn.create_model("xyz")


def test_a_model_without_weights_is_not_taken_for_another() -> None:
    with pytest.raises(AkornError, match=r"no pretrained model 'sudoku-itrsa'; the shipped models are: .*sudoku"):
        akorn.create_model("sudoku-itrsa", pretrained=True)
    with pytest.raises(AkornError, match="train it with `akorn train sudoku_itrsa`"):
        models.load_model("sudoku-itrsa")


def test_settings_alone_need_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained model with the name of shipped weights is built from their config.json."""
    model = akorn.create_model("sudoku", channels=16, heads=2)
    model.save_pretrained(tmp_path / "small")
    (tmp_path / "small" / "model.safetensors").unlink()
    monkeypatch.setattr(models, "WEIGHTS", tmp_path)
    assert akorn.create_model("small").settings() == model.settings()
    with pytest.raises(AkornError, match=r"model\.safetensors: cannot be read"):
        akorn.create_model("small", pretrained=True)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the hub is asked for; it has one small Sudoku model, someone/solver."""
    akorn.create_model("sudoku", channels=16, heads=2).save_pretrained(tmp_path / "fetched")
    asked: list[Any] = []

    def fetch(repo: str, **options: Any) -> str:
        asked.append((repo, options.get("revision")))
        if repo != "someone/solver":
            raise OSError("404: there is no such repository\nand more")
        return str(tmp_path / "fetched")

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    monkeypatch.setattr(models, "_ASKED", set())
    monkeypatch.chdir(tmp_path)
    return asked


def test_the_hub_is_asked_for_hf_names_and_says_so(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    loaded = hub.HubModel.from_pretrained("hf:someone/solver", revision="main")
    assert loaded.settings()["channels"] == 16
    assert capsys.readouterr().err == "akorn: asking the Hugging Face hub for someone/solver\n"
    models.load_model("hf:someone/solver")
    assert capsys.readouterr().err == ""  # told once
    with pytest.raises(
        AkornError, match=r"^hf:someone/else: the hub returned .* \(404: there is no such repository\)$"
    ):
        models.load_model("hf:someone/else")
    assert asked == [("someone/solver", "main"), ("someone/solver", None), ("someone/else", None)]
    assert models.room_of_model("hf:someone/solver") == "sudoku"


def test_nothing_else_asks_the_hub(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped folder has the shape of a repository's name: a stranger's model must not be loaded for it."""
    told = r"someone/solver: neither .* a model on the Hugging Face hub is named hf:someone/solver$"
    for load in (
        models.load_model,
        models.check_there,
        hub.HubModel.from_pretrained,
        akorn.sudoku.Solver.from_pretrained,
        akorn.objects.Segmenter.from_pretrained,
        akorn.robustness.Classifier.from_pretrained,
        lambda name: models.load_model(name, revision="main"),
    ):
        with pytest.raises(AkornError, match=told):
            load("someone/solver")
    Image.new("RGB", (32, 32)).save("x.png")
    for command in ("eval someone/solver", "solve --model someone/solver", "segment x.png --model someone/solver",
                    "classify x.png --model someone/solver",
                    "train tetrominoes_akorn --init someone/solver --data.count 8 --train.batch-size 4"):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            main(command.split())
        assert end.value.code == 2
        assert "someone/solver" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    "name", ["hf:", "hf:solver", "hf:a/b/c", "hf:../x", "hf:/etc/passwd", "hf:some one/x", "hf:a/b\x1b[31m", "hf:é/b"]
)
def test_names_that_no_repository_has(name: str, asked: list[Any]) -> None:
    for load in (models.load_model, models.check_there):
        with pytest.raises(AkornError, match="is not a name on the Hugging Face hub, expected hf:user/name") as error:
            load(name)
        assert "\x1b" not in str(error.value)
    assert asked == []


def test_a_mistyped_folder_is_told_what_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    akorn.create_model("sudoku", channels=16, heads=2).save_pretrained(tmp_path / "runs" / "sudoku-seed0" / "model")
    monkeypatch.chdir(tmp_path)
    for mistyped in ("runs/sudoku-seed1", "runs/sudoko-seed0/model", "run/sudoku-seed0/model", "runs/sudoku-sed0"):
        with pytest.raises(AkornError, match=r"did you mean runs/sudoku-seed0/model\?$"):
            models.load_model(mistyped)
    with pytest.raises(
        AkornError, match=r"runs/sudoku-seed0 contains no model; did you mean runs/sudoku-seed0/model\?$"
    ):
        models.load_model("runs/sudoku-seed0")
    with pytest.raises(AkornError, match=r"this folder does not exist, .* did you mean runs/sudoku-seed0/model\?$"):
        hub.read_folder(Path("runs/sudoku-seed1/model"))  # what --init of the CIFAR recipes reads
    with pytest.raises(
        AkornError, match=r"this folder does not exist, expected one with config.json and model.safetensors$"
    ):
        hub.read_folder(Path("x" * 300))
    for far in ("runs/xyz", "/nowhere/at/all", "x" * 300, "a\0b"):
        with pytest.raises(
            AkornError, match="neither a model's folder nor the name of shipped weights: the known ones"
        ):
            models.load_model(far)


def _forged(folder: Path, weights: dict[str, Tensor] | None = None, **settings: Any) -> Path:
    """A small model's folder with other weights or settings, its digest right."""
    model = akorn.create_model("sudoku", channels=16, heads=2)
    model.save_pretrained(folder, dtype="float32")
    config = json.loads((folder / "config.json").read_text())
    if weights is not None:
        content = save({**model.state_dict(), **weights})
        (folder / "model.safetensors").write_bytes(content)
        config["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    return folder


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    bias = torch.zeros(9, dtype=dtype)
    _forged(tmp_path / "fine", {"head.bias": bias})
    assert models.load_model(tmp_path / "fine").settings()["channels"] == 16
    bias[3] = value
    _forged(tmp_path / "nan", {"head.bias": bias})
    with pytest.raises(AkornError, match=r"model\.safetensors: tensor 'head\.bias' has values that are not finite"):
        models.load_model(tmp_path / "nan")


@pytest.mark.parametrize("name", ["blocks", "channels", "heads", "steps", "n"])
@pytest.mark.parametrize("value", [10**6, 10**9, 10**400])
def test_absurd_settings_are_refused_at_once(tmp_path: Path, name: str, value: int) -> None:
    with pytest.raises(AkornError, match=rf"config\.json: {name} is .*, expected at most \d+$"):
        models.load_model(_forged(tmp_path / "model", **{name: value}))
    with pytest.raises(AkornError, match=f"{name} is .*, expected at most"):
        akorn.create_model("sudoku", **{name: value})


@pytest.mark.slow
def test_settings_beyond_the_weights_are_never_built(tmp_path: Path) -> None:
    """65,536 channels of attention would need 140 GB; the weights file has a few kilobytes."""
    with pytest.raises(
        AkornError, match=r"model: tensor 'embedding.weight' is \[10, 16\] in the file and \[10, 65536\]"
    ):
        models.load_model(_forged(tmp_path / "model", channels=65536))
    with pytest.raises(AkornError, match="is absent in the file"):
        models.load_model(_forged(tmp_path / "deep", blocks=1000))


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("shapes", {"image_size": 2**40}, "image_size is 1099511627776, expected at most 4096"),
        ("shapes", {"image_size": 4096, "patch": 1}, "4096 × 4096 patches"),
        ("cifar10-conv", {"channels": [64] * 5000}, "channels has 5000 numbers"),
        ("cifar10-conv", {"kernels": [9, 7, 10**9 + 1]}, "kernels is 1000000001, expected at most 255"),
        ("cifar10-conv", {"classes": 10**9}, "classes is 1000000000, expected at most 65536"),
    ],
)
def test_absurd_settings_of_pictures(model: str, settings: dict[str, Any], message: str) -> None:
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    with pytest.raises(AkornError, match=message):
        akorn.create_model(model, **settings)


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
