"""benchmarks/lyapunov.py, on a tiny model: kinds of layers, what a record says, and what is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from akorn.errors import AkornError
from akorn.robustness.config import AkornConfig, ResNetConfig
from akorn.robustness.data import Pictures
from akorn.robustness.model import build

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "lyapunov.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_lyapunov", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    images = torch.randint(0, 256, (5, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    pictures = Pictures(images, torch.arange(5), tuple("abcde"))
    monkeypatch.setattr(module, "load_split", lambda folder, split: pictures)
    return module


def saved(folder: Path, config: AkornConfig | ResNetConfig) -> str:
    torch.manual_seed(1)
    build(config).save_pretrained(folder)
    return str(folder)


def test_every_kind_of_layer_has_its_exponents(benchmark: ModuleType, tmp_path: Path) -> None:
    model = saved(tmp_path / "m", AkornConfig(channels=(4, 4, 4), kernels=(3, 3, 3)))
    words = ["--data", "x", "--model", model, "--pictures", "2", "--steps", "2", "--discard", "0"]
    benchmark.main([*words, "--record", str(tmp_path / "all")])
    benchmark.main([*words, "--kinds", "untrained without Proj", "--record", str(tmp_path / "one")])
    every, one = (json.loads(next((tmp_path / name).iterdir()).read_text()) for name in ("all", "one"))
    assert len(every["metrics"]) == 3 * 3 * 3
    assert {name.partition("/")[0] for name in one["metrics"]} == {"untrained without Proj"}
    assert one["metrics"].items() <= every["metrics"].items()  # whichever kinds are measured with it
    with_proj = {name: every["metrics"][name.replace(" without Proj", "")] for name in one["metrics"]}
    assert all(with_proj[name] != value for name, value in one["metrics"].items())
    assert one["config"] == {"model": model, "recipe": None, "pictures": 2, "steps": 2, "discard": 0}


def test_what_cannot_be_measured_is_said_in_a_line(benchmark: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="--pictures must be at least 2, since their spread is shown, got 1"):
        benchmark.main(["--data", "x", "--pictures", "1"])
    resnet = saved(tmp_path / "m", ResNetConfig())
    with pytest.raises(AkornError, match="not a classifier with Kuramoto layers"):
        benchmark.main(["--data", "x", "--model", resnet])
