"""`akorn export`: a model from a run's checkpoint, with the average of its weights or the last ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from akorn.engine import checkpoint
from akorn.models import load_model, training_of

from .conftest import Akorn, assert_refused

TINY = [
    *("--data.count", 16, "--valid.count", 2, "--train.batch-size", 4, "--train.steps", 6, "--train.no-tensorboard"),
    *("--model.channels", 16, "--model.heads", 2, "--model.steps", 2, "--train.ema.after", 1, "--train.ema.every", 1),
    *("--train.precision", "float32", "--device", "cpu"),
]


def test_a_run_gives_either_weights(akorn_here: Akorn, tmp_path: Path) -> None:
    assert akorn_here("train", "tetrominoes_akorn", *TINY, "--out", "run").returncode == 0
    found = checkpoint.load_newest(tmp_path / "run")
    for which, group in (("average", "ema"), ("last", "model")):
        done = akorn_here("export", "run", "--weights", which, "--json")
        assert done.returncode == 0
        folder = tmp_path / json.loads(done.stdout)["model"]
        weights = load_model(folder).state_dict()
        for name, value in found.groups[group].items():  # stored in half precision
            torch.testing.assert_close(weights[name], value, atol=1e-3, rtol=1e-3)
        origin = json.loads((folder / "training.json").read_text())
        assert (origin["weights"], origin["steps"]) == (which, 6)
        assert ("train.weights" in origin["overrides"]) == (which == "last")  # the recipe takes the average
        assert origin["overrides"]["model.channels"] == 16
        config = json.loads((folder / "config.json").read_text())
        assert (training_of(folder) or {})["weights_sha256"] == config["sha256"]
    average, trained = (load_model(tmp_path / "run" / name).state_dict() for name in ("model-average", "model"))
    for name, value in trained.items():
        assert torch.equal(average[name], value)  # what the run itself took
    last = load_model(tmp_path / "run" / "model-last").state_dict()
    assert any(not torch.equal(average[name], value) for name, value in last.items())


def test_a_run_whose_loss_learns_something_besides_gives_the_model_alone(akorn_here: Akorn, tmp_path: Path) -> None:
    words = ["train", "tetrominoes_akorn", *TINY, "--train.ema.after", 0, "--loss.dense", 1, "--loss.teacher.hidden", 1]
    assert akorn_here(*words, "--out", "run").returncode == 0
    for which in ("average", "last"):
        assert akorn_here("export", "run", "--weights", which).returncode == 0
    average, trained = (load_model(tmp_path / "run" / name).state_dict() for name in ("model-average", "model"))
    assert all(torch.equal(average[name], value) for name, value in trained.items())
    last = load_model(tmp_path / "run" / "model-last").state_dict()
    assert any(not torch.equal(average[name], value) for name, value in last.items())


def test_a_run_gives_weights_in_8_bits(akorn_here: Akorn, tmp_path: Path) -> None:
    """Near to those in 16, in about half the bytes."""
    words = ["train", "tetrominoes_akorn", *TINY, "--model.channels", 128, "--out", "run"]
    assert akorn_here(*words).returncode == 0
    for dtype in ("float16", "int8"):
        assert akorn_here("export", "run", "--dtype", dtype, "--out", dtype).returncode == 0
    sizes = [(tmp_path / dtype / "model.safetensors").stat().st_size for dtype in ("int8", "float16")]
    assert sizes[0] < 0.6 * sizes[1]
    wide, narrow = (load_model(tmp_path / dtype).state_dict() for dtype in ("float16", "int8"))
    for name, value in wide.items():
        torch.testing.assert_close(narrow[name], value, rtol=0, atol=float(value.abs().max()) / 127)


def test_the_run_goes_on_with_other_weights(akorn_here: Akorn, tmp_path: Path) -> None:
    """The choice of weights changes nothing in the run, so it can be made again."""
    assert akorn_here("train", "tetrominoes_akorn", *TINY, "--out", "run").returncode == 0
    again = akorn_here("train", "tetrominoes_akorn", *TINY, "--out", "run", "--resume", "--train.weights", "last")
    assert again.returncode == 0
    assert akorn_here("export", "run", "--weights", "last").returncode == 0
    last, trained = (load_model(tmp_path / "run" / name).state_dict() for name in ("model-last", "model"))
    assert all(torch.equal(last[name], value) for name, value in trained.items())


def test_what_cannot_be_exported(akorn_here: Akorn, tmp_path: Path) -> None:
    assert_refused(akorn_here("export"), "the folder of a run")
    assert_refused(akorn_here("export", "nowhere"), "nowhere")
    no_average = ["--train.ema.decay", "0"]
    assert akorn_here("train", "tetrominoes_akorn", *TINY, *no_average, "--out", "run").returncode == 0
    assert_refused(akorn_here("export", "run", "--weights", "average"), "--weights last")
    (file,) = (tmp_path / "run" / "checkpoints").rglob("model-00001.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    assert_refused(akorn_here("export", "run"), "damaged")


def test_without_an_average_the_last_weights_are_taken_and_that_is_said(akorn_here: Akorn, tmp_path: Path) -> None:
    """As in a run that was stopped before its average began."""
    words = ["train", "tetrominoes_akorn", *TINY, "--train.ema.after", 100, "--out", "run"]
    assert akorn_here(*words).returncode == 0
    done = akorn_here("export", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert "no average of the weights yet, so the last weights are exported" in done.stderr
    told = json.loads(done.stdout)
    assert (told["weights"], told["model"]) == ("last", "run/model-last")
    weights = load_model(tmp_path / told["model"]).state_dict()
    for name, value in checkpoint.load_newest(tmp_path / "run").groups["model"].items():
        torch.testing.assert_close(weights[name], value, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("weights", ["best", ""])
def test_unknown_weights(akorn_here: Akorn, weights: str) -> None:
    assert_refused(akorn_here("export", "run", "--weights", weights), "weights")
