"""benchmarks/common_protocol.py, tiny on a CPU: all architectures alike; the best trial is chosen for the final run."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from akorn.cli.train import Options, configured, parse
from akorn.errors import AkornError
from akorn.robustness.recipes import RECIPES
from akorn.robustness.task import make_task

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "common_protocol.py"
TINY = [
    *("--device", "cpu", "--train.precision", "float32", "--train.no-graph", "--train.no-tensorboard"),
    *("--train.steps", "2", "--train.batch-size", "10", "--model.channels", "8", "8", "8"),
    *("--model.kernels", "3", "3", "3", "--model.steps", "1", "1", "1"),
]
ROWS = {"akorn-conv", "no-proj", "no-omega", "no-c", "no-m", "no-norm", "stacked", "itrconv", "vit", "resnet18",
        "akorn-mix-n2", "akorn-mix-n4"}  # fmt: skip


@pytest.fixture
def script() -> ModuleType:
    if not SCRIPT.is_file():
        pytest.skip("the repository's folder benchmarks/ is not here")
    spec = importlib.util.spec_from_file_location("common_protocol", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["common_protocol"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    """40 training pictures of noise, and no test pictures."""
    import pickle

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(1, 6):
        batch = {b"data": rng.integers(0, 256, (20, 3072), dtype=np.uint8), b"labels": [k % 10 for k in range(20)]}
        (folder / f"data_batch_{number}").write_bytes(pickle.dumps(batch))
    return folder


def planned(script: ModuleType, capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    assert script.main([*words, "--dry-run"]) == 0
    return [shlex.split(line)[2:] for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]


def test_every_architecture_has_the_same_trials(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = planned(script, capsys, "trials", "--data", "c10", "--results", str(tmp_path / "none"))
    recipes = [configured(parse(words)) for words in commands]
    tried: dict[str, set[tuple[object, ...]]] = {}
    for recipe in recipes:
        t = recipe.train
        make_task(recipe)  # refuses what cannot be
        assert recipe.data.split == "train"
        assert recipe.data.augmix_operations == "thirteen"
        assert t.epochs == 20
        tried.setdefault(recipe.name, set()).add((t.optimiser.learning_rate, t.schedule.name))
    assert set(script.tomllib.loads(script.PROTOCOL.read_text())["rows"]) == ROWS
    assert len(tried) == len(ROWS)
    assert set(tried) < set(RECIPES)
    assert all(pairs == {(r, s) for r in (1e-4, 1e-3) for s in ("constant", "linear")} for pairs in tried.values())


def test_a_trial_that_diverges_is_not_chosen_and_stops_no_other(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--data", "c10", "--rows", "vit", "--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    ran: list[str] = []

    def run(options: Options) -> int:
        assert options.out is not None
        options.out.mkdir(parents=True)
        ran.append(options.out.name)
        raise AkornError("the loss is nan at step 7")

    monkeypatch.setattr(script.command, "run", run)
    assert script.main(["trials", *words]) == 0
    assert len(ran) == 4
    assert "# vit: the loss is nan at step 7" in capsys.readouterr().out
    assert planned(script, capsys, "trials", *words) == []
    with pytest.raises(AkornError, match="vit: all trials diverged"):
        script.main(["final", *words])


def test_the_best_trial_is_trained_on_all_pictures(
    script: ModuleType, cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    words = ["--data", str(cifar), "--rows", "itrconv", "--runs", str(tmp_path / "runs"), "--results", str(results)]
    with pytest.raises(AkornError, match=r"has no record of the trial with rate 0\.0001, constant"):
        script.main(["final", *words, *TINY])
    assert script.main(["trials", *words, *TINY]) == 0
    records = [json.loads(path.read_text()) for path in results.iterdir()]
    assert len(records) == 4
    assert all(set(record["metrics"]) == {"valid_clean", "valid_ece", "loss"} for record in records)
    capsys.readouterr()
    assert planned(script, capsys, "trials", *words, *TINY) == []  # all are done
    assert len(planned(script, capsys, "trials", *words)) == 4  # a rehearsal counts for nothing else
    best = ("0.001", "constant")
    for path in results.iterdir():
        record = json.loads(path.read_text())
        config = record["config"]
        chosen = (str(config["optimiser"]["learning_rate"]), config["schedule"]["name"]) == best
        record["metrics"]["valid_clean"] = 70.0 if chosen else 60.0
        path.write_text(json.dumps(record))
    (final,) = planned(script, capsys, "final", *words, *TINY, "--seed", "3")
    recipe = configured(parse(final))
    assert (recipe.train.optimiser.learning_rate, recipe.train.schedule.name) == (1e-3, "constant")
    assert (recipe.train.epochs, recipe.train.seed, recipe.data.split) == (100, 3, "all")
    assert script.main(["final", *words, *TINY]) == 0
    model = tmp_path / "runs" / "itrconv-final-0.001-constant-seed0" / "model"
    assert json.loads((model / "training.json").read_text())["recipe"] == "cifar10_itrconv"
    capsys.readouterr()
    assert planned(script, capsys, "final", *words, *TINY) == []
