"""What a run sets in torch while it lasts: cuDNN's search for the fastest algorithm, except if results must be
repeatable bit by bit.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import ToyTask

from akorn.engine import TrainConfig, train

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
