"""`akorn export --format onnx|pt2`: one file of a shipped model, of a folder or of a run."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import akorn.export
from akorn.models import list_models, load_model, shipped_folder
from akorn.rooms import parts
from akorn.sudoku import SudokuConfig, build

from .conftest import Akorn, assert_refused
from .test_export import TINY


@pytest.fixture
def mine(tmp_path: Path) -> str:
    torch.manual_seed(0)
    build(SudokuConfig(channels=16, heads=2)).save_pretrained(tmp_path / "mine")
    return "mine"


@pytest.mark.parametrize("name", list_models(pretrained=True))
def test_a_pt2_of_every_shipped_model(akorn_here: Akorn, tmp_path: Path, name: str) -> None:
    model = load_model(name)
    steps = None if model.task == "robustness" else 1
    chosen = [] if steps is None else ["--steps", steps]
    done = akorn_here("export", name, "--format", "pt2", "--json", *chosen)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["model"], told["file"], told["format"]) == (name, f"{name}.pt2", "pt2")
    extra: dict[str, Any] = {"card": "", "steps": ""}
    loaded = torch.export.load(tmp_path / told["file"], extra_files=extra).module()
    assert extra["card"] == (shipped_folder(name) / "README.md").read_text(encoding="utf-8")
    assert extra["steps"] == str(told["steps"])
    program = parts("export")[model.task].program(model, steps).eval()
    for batch in (1, 3):
        given = program.examples(batch, seed=4)
        for found, wanted in zip(loaded(*given), program(*given), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_an_onnx_file_of_a_folder(akorn_here: Akorn, tmp_path: Path, mine: str) -> None:
    """An existing file stays until it may be replaced."""
    words = ["export", mine, "--format", "onnx", "--out", "board.onnx", "--steps"]
    done = akorn_here(*words, 2)
    assert done.returncode == 0, done.stderr
    assert "mine: 2 steps per call" in done.stderr
    before = (tmp_path / "board.onnx").read_bytes()
    facts = onnxruntime.InferenceSession(before).get_modelmeta().custom_metadata_map
    assert facts["card"] == (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert_refused(akorn_here(*words, 3), "board.onnx: already exists; --overwrite replaces it")
    assert (tmp_path / "board.onnx").read_bytes() == before
    assert akorn_here(*words, 1, "--overwrite").returncode == 0
    session = onnxruntime.InferenceSession(tmp_path / "board.onnx")
    assert session.get_modelmeta().custom_metadata_map["steps"] == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board.onnx", "mine"]
    wanted = akorn_here("solve", "--model", "mine", "--steps", 3, "--json", "--device", "cpu")
    for words in (["--model", "board.onnx"], ["--model", "mine", "--backend", "onnx"]):
        found = akorn_here("solve", *words, "--steps", 3, "--json")
        assert json.loads(found.stdout)["solution"] == json.loads(wanted.stdout)["solution"]
        assert found.returncode == wanted.returncode


def test_a_file_of_a_run(akorn_here: Akorn, tmp_path: Path) -> None:
    """With the requested weights, in full precision."""
    assert akorn_here("train", "tetrominoes_akorn", *TINY, "--out", "run").returncode == 0
    for which in ("average", "last"):
        folder = ["export", "run", "--weights", which, "--out", which]
        assert akorn_here(*folder).returncode == 0
        done = akorn_here("export", "run", "--weights", which, "--format", "onnx", "--overwrite")
        assert done.returncode == 0, done.stderr
        model = load_model(tmp_path / which)
        program = parts("export")["objects"].program(model)
        given = program.examples(2)
        fed = {port.name: array.numpy() for port, array in zip(program.inputs, given, strict=True)}
        found = onnxruntime.InferenceSession(tmp_path / "run.onnx").run(["features"], fed)[0]
        np.testing.assert_allclose(found, program(*given)[0].detach().numpy(), rtol=2e-2, atol=2e-2)  # half precision


def test_what_cannot_be_written(akorn_here: Akorn, tmp_path: Path, mine: str) -> None:
    for words, parts_told in [
        (["sudoku"], ["sudoku is a model, not a run: --format onnx or pt2"]),
        (["sudoku", "--format", "tflite"], ["format"]),
        (["--format", "onnx"], ["the name of shipped weights"]),
        (["nowhere", "--format", "onnx"], ["nowhere"]),
        (["sudoku", "--format", "onnx", "--out", "no/such.onnx"], ["the folder no does not exist"]),
        (["sudoku", "--format", "onnx", "--out", "board.pt2"], ["must end in .onnx"]),
        (["sudoku", "--format", "onnx", "--steps", 0], ["--steps must be at least 1, got 0"]),
        (["sudoku", "--format", "onnx", "--weights", "last"], ["--weights is for the checkpoints of a run"]),
        (["sudoku", "--format", "onnx", "--dtype", "int8"], ["--dtype is for folders"]),
        (["run", "--dtype", "int4"], ["dtype"]),
        (["cifar10-conv", "--format", "onnx", "--steps", 4], ["--steps 4: a classifier runs as many steps"]),
        (["run", "--steps", 4], ["--steps is for --format onnx and pt2"]),
    ]:
        assert_refused(akorn_here("export", *words), *parts_told)
    assert_refused(akorn_here("export", mine, "--format", "onnx", "--out", mine), "must end in .onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_baseline_leaves_as_a_folder_alone(akorn_here: Akorn, tmp_path: Path) -> None:
    from akorn.sudoku.config import ItrSAConfig

    build(ItrSAConfig(channels=16, heads=2)).save_pretrained(tmp_path / "other")
    for ending in ("onnx", "pt2"):
        assert_refused(akorn_here("export", "other", "--format", ending), "itrsa has no state to pass on")


@pytest.mark.parametrize(("package", "words"), [
    ("onnx", ["export", "sudoku", "--format", "onnx"]),
    ("onnxruntime", ["solve", "--backend", "onnx", "--steps", 1, "--votes", 1]),
    ("onnxruntime", ["solve", "--model", "mine/config.onnx"]),
])  # fmt: skip
def test_without_the_extra(
    akorn_here: Akorn, tmp_path: Path, mine: str, monkeypatch: pytest.MonkeyPatch, package: str, words: list[object]
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **named)

    monkeypatch.delattr(akorn.export, "onnx_file", raising=False)  # which another test may have imported
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(__import__("sys").modules, "akorn.export.onnx_file", raising=False)
    (tmp_path / "mine" / "config.onnx").write_bytes(b"")
    assert_refused(akorn_here(*words), "pip install 'akorn[onnx]'")
    assert not list(tmp_path.glob("*.onnx"))
