"""A full disk, a folder that is gone, NaN: one line, and the last checkpoint is whole."""

import errno
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_launch import assert_same_run, launch
from engine_toy import CONFIG, ToyTask
from torch import nn

from akorn.engine import OptimiserConfig, checkpoint, train
from akorn.engine.scalars import ScalarLog
from akorn.engine.tensorboard import TensorBoardLog
from akorn.errors import AkornError
from akorn.nn import AttentionCoupling, KuramotoLayer


@pytest.mark.slow
@pytest.mark.parametrize("largest", [900, 2200, 3400])
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path, largest: int) -> None:
    """No file may grow beyond this many bytes: curves, events or checkpoints fail, whichever comes first."""
    config = replace(CONFIG, log_every=1, tensorboard=True)
    train(ToyTask(), config, tmp_path / "whole")
    codes = launch(1, tmp_path / "full", "log_every=1", "tensorboard=1", f"largest_file={largest}")
    log = (tmp_path / "full-0.log").read_text()
    assert "Traceback" not in log
    assert "Exception" not in log
    assert codes == [2]
    (line,) = [line for line in log.splitlines() if line.startswith("refused:")]
    assert "cannot be written" in line or "cannot be created" in line
    folder = tmp_path / "full" / checkpoint.FOLDER
    for path in checkpoint.existing(folder):
        checkpoint.load(path)  # whole
    assert len(list(folder.iterdir())) == len(checkpoint.existing(folder))  # and nothing half written
    train(ToyTask(), config, tmp_path / "full", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "full")


class Removing(ToyTask):
    """Removes a folder in the middle of a run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def choose(self) -> None:
        if self.calls == 12:
            _remove(self.folder)


@pytest.mark.parametrize(("name", "kept"), [("", False), ("tensorboard", True)])
def test_a_folder_that_is_gone(tmp_path: Path, name: str, kept: bool, capfd: pytest.CaptureFixture[str]) -> None:
    config = replace(CONFIG, tensorboard=True, log_every=1)
    hook = threading.excepthook
    with pytest.raises(AkornError, match=r"removed|cannot be written"):
        train(Removing(tmp_path / "run" / name), config, tmp_path / "run")
    assert threading.excepthook is hook
    assert "Traceback" not in capfd.readouterr().err
    last = checkpoint.newest(tmp_path / "run" / checkpoint.FOLDER)
    assert (last is not None) == kept
    if last is not None:
        checkpoint.load(last)


def test_only_errors_of_the_disk_are_kept_from_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    with TensorBoardLog(tmp_path, 0):
        for error in (OSError(errno.ENOSPC, "No space left on device"), RuntimeError("something else")):
            threading.excepthook(threading.ExceptHookArgs((type(error), error, None, None)))
    assert [told.exc_type for told in shown] == [RuntimeError]  # type: ignore[attr-defined]


def test_curves_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        close = flush = lambda self: self.write("")

    log = ScalarLog(tmp_path, 0)
    log._handle.close()
    monkeypatch.setattr(log, "_handle", Full())
    with pytest.raises(AkornError, match=r"scalars\.jsonl: the curves cannot be written \(No space left"):
        log.write(1, 0.0, {"loss": 1.0})
    with pytest.raises(AkornError, match="cannot be written"), log:
        pass


class Oscillating(ToyTask):
    """A layer that refuses NaN."""

    def build_model(self) -> nn.Module:
        return KuramotoLayer(8, n=4, coupling=AttentionCoupling(8, heads=2, grid=(1, 1)))

    def loss(self, model, batch, generator, choice):  # type: ignore[no-untyped-def]
        self.calls += 1
        x = torch.nn.functional.pad(batch[0], (0, 3))[:, None]  # [B, 1, 8]
        if self.nan_at and self.calls >= self.nan_at:
            x = x * float("nan")
        return model(x, x, steps=2).square().mean(), {}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {}


def test_nan_inside_a_layer_is_told_as_a_loss_that_is_nan(tmp_path: Path) -> None:
    config = replace(CONFIG, optimiser=OptimiserConfig(learning_rate=1e-3))
    with pytest.raises(AkornError, match=r"loss is nan at step 13: training stopped.*step-00000010.*x of shape"):
        train(Oscillating(nan_at=13), config, tmp_path / "late")
    with pytest.raises(AkornError, match=r"loss is nan at step 2: training stopped, there is no checkpoint yet"):
        train(Oscillating(nan_at=2), config, tmp_path / "early")
    with pytest.raises(ValueError, match="something else"):
        train(Failing(), config, tmp_path / "other")


class Failing(ToyTask):
    """Has a different error, which must not be taken for NaN."""

    def choose(self) -> None:
        raise ValueError("something else")


def _remove(folder: Path) -> None:
    """Remove a folder into which a thread may just be writing."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
