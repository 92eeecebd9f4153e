"""A disk that is full at any operation of a run: one line, status 2, nothing half written, and a run that can be
resumed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from akorn.cli import main, train
from akorn.engine import checkpoint, scalars

from .failing_disk import FullDisk

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
WORDS = (
    *("train", "sudoku_akorn", "--data", "boards.csv", "--valid", "boards.csv", "--results", "records"),
    *("--model.channels", "16", "--model.heads", "2", "--model.steps", "1", "--train.compile", "no"),
    *("--train.steps", "6", "--train.batch-size", "2", "--train.checkpoint-every", "2", "--train.log-every", "1"),
    *("--train.eval-every", "3", "--train.ema.after", "1", "--device", "cpu"),
)


def run(*more: str) -> int:
    """The exit status of a run in this process."""
    try:
        main([*WORDS, *more])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else -1
    return 0


def left(out: Path) -> dict[str, object]:
    """Everything that a run leaves, except for times: every tensor of its checkpoints, the curves, the model's
    files.
    """
    folder = out / checkpoint.FOLDER
    found: dict[str, object] = {path.name: path.read_bytes() for path in (out / "model").iterdir()}
    found["curves"] = [{k: v for k, v in row.items() if k != "seconds"} for row in scalars.read(out)]
    for path in checkpoint.existing(folder)[-2:]:  # a full disk may have kept older ones, too
        for group, tensors in checkpoint.load(path).groups.items():
            found |= {f"{path.name} {group} {name}": t.numpy().tobytes() for name, t in tensors.items()}
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parsed = cache(lambda words, real=train.parse: real(list(words)))  # hundreds of runs have one of three lines
    monkeypatch.setattr(train, "parse", lambda words: parsed(tuple(words)))
    Path("boards.csv").write_text(f"puzzle,solution\n{PUZZLE},{SOLUTION}\n{PUZZLE},{SOLUTION}\n")
    return tmp_path


@pytest.mark.parametrize("every", [pytest.param(3, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]), 23])
def test_a_full_disk_at_any_operation(here: Path, capsys: pytest.CaptureFixture[str], every: int) -> None:
    """Every third operation, or every 23rd, is the first without room, until a run needs fewer of them.

    Which one comes first is drawn anew in each run of the tests, so all have their turn.
    """
    assert run("--out", "whole") == 0
    expected = left(Path("whole"))
    refused = 0
    for first in count(1 + random.SystemRandom().randrange(every), every):
        for name in ("run", "records"):
            shutil.rmtree(name, ignore_errors=True)
        capsys.readouterr()
        with FullDisk(first) as disk:
            status = run("--out", "run")
        told = capsys.readouterr().err
        where = f"operation {first}: {told}"
        if disk.count < first:
            assert status == 0, where
            break
        assert status == 2, where
        refused += 1
        (line,) = [line for line in told.splitlines() if line.startswith("akorn: ")]
        assert told.rstrip().endswith(line), where
        assert "No space left on device" in line, where
        assert "Traceback" not in told, where
        _check_what_is_left(disk, where)
        assert run("--out", "run", "--resume") == 0, where + capsys.readouterr().err
        assert left(Path("run")) == expected, where
        assert len(list(Path("records").glob("train-*.json"))) == 1, where
    assert refused >= 150 // every


def _check_what_is_left(disk: FullDisk, where: str) -> None:
    """Every checkpoint that was finished, the two newest at least, and no half file of any kind."""
    folder = Path("run", checkpoint.FOLDER)
    finished = [path.name for path in disk.renamed if path.name.startswith("step-")]
    kept = [path.name for path in checkpoint.existing(folder)]
    assert kept[-2:] == finished[-2:], where
    for path in checkpoint.existing(folder):
        checkpoint.load(path)
    half = [path for path in Path().rglob("*") if path.name.startswith(".tmp-")]
    assert not half, where
    for path in (*Path("run").rglob("*.json"), *Path("records").glob("*.json")):
        json.loads(path.read_text())
    if os.path.exists("run/scalars.jsonl"):
        scalars.read(Path("run"))
    if os.path.exists("run/model/config.json"):
        assert os.path.exists("run/model/model.safetensors"), where
