"""What a run sets in torch while it lasts: cuDNN's search for the fastest algorithm, not where bits must repeat."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import ToyTask

from akorn.engine import TrainConfig, train
from akorn.engine.devices import numerics

CONFIG = TrainConfig(steps=2, batch_size=8, device="cpu", tensorboard=False)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
def test_cudnn_searches_in_training_unless_deterministic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, deterministic: bool
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before)
    seen: list[bool] = []

    class Peek(ToyTask):
        def loss(self, model, batch, generator, choice):  # type: ignore[no-untyped-def]
            seen.append(torch.backends.cudnn.benchmark)
            return super().loss(model, batch, generator, choice)

    train(Peek(), replace(CONFIG, deterministic=deterministic), tmp_path / "run")
    assert seen
    assert set(seen) == {not deterministic}
    assert torch.backends.cudnn.benchmark == before


def test_without_a_search_it_is_off_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation meets many shapes once: a search for each would cost more than it brings."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with numerics(CONFIG):
        assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark
