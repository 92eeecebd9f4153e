"""A loss that uses the moving average of the weights as a teacher."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from engine_launch import assert_same_run
from engine_toy import CONFIG, ToyTask
from torch import Tensor, nn

from akorn.engine import EmaConfig, ScheduleConfig, TrainConfig, train
from akorn.engine.average import decay_at
from akorn.engine.config import check, differences
from akorn.errors import AkornError

TAUGHT = replace(CONFIG, ema=EmaConfig(decay=0.8, every=1, after=0, warmup=False, final=1.0))


class TaughtToy(ToyTask):
    """The toy, whose answers should also be its teacher's; remembers the weights that it has seen."""

    teacher: nn.Module | None = None

    def __init__(self, *, remember: bool = False) -> None:
        super().__init__()
        self.remember = remember
        self.seen: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []

    def taught_by(self, average: nn.Module) -> None:
        self.teacher = average

    def loss(
        self, model: nn.Module, batch: tuple[Tensor, ...], generator: torch.Generator, choice: object
    ) -> tuple[Tensor, dict[str, Tensor]]:
        assert self.teacher is not None
        if self.remember:
            self.seen.append((copy.deepcopy(model.state_dict()), copy.deepcopy(self.teacher.state_dict())))
        loss, found = super().loss(model, batch, generator, choice)
        return loss + (model(batch[0]) - self.teacher(batch[0])).square().mean(), found


def test_the_teacher_is_the_moving_average_from_the_first_step(tmp_path: Path) -> None:
    task = TaughtToy(remember=True)
    train(task, replace(TAUGHT, steps=9), tmp_path)
    (first, expected), *later = task.seen
    assert all(torch.equal(first[name], expected[name]) for name in first)  # both start alike
    for step, (weights, teacher) in enumerate(later, 1):
        decay = 1 - 0.2 * 0.5 * (1 + math.cos(math.pi * step / 9))
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * tensor
                torch.testing.assert_close(teacher[name], expected[name])
    assert task.teacher is not None
    assert all(p.grad is None and not p.requires_grad for p in task.teacher.parameters())
    assert not task.teacher.training


def test_a_taught_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    train(TaughtToy(), TAUGHT, tmp_path / "whole")
    seen: list[int] = []

    class Stopped(TaughtToy):
        def loss(self, *arguments: object) -> tuple[Tensor, dict[str, Tensor]]:  # type: ignore[override]
            seen.append(1)
            if len(seen) == 27:
                raise KeyboardInterrupt
            return super().loss(*arguments)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        train(Stopped(), TAUGHT, tmp_path / "piece")
    train(TaughtToy(), TAUGHT, tmp_path / "piece", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "piece")


def test_the_decay_grows_along_half_a_cosine() -> None:
    config = EmaConfig(decay=0.9, every=1, after=0, warmup=False, final=1.0)
    assert [decay_at(config, step, 100) for step in (0, 50, 100)] == pytest.approx([0.9, 0.95, 1.0])
    assert decay_at(replace(config, final=None), 50, 100) == 0.9
    assert decay_at(replace(config, warmup=True), 1, 100) == pytest.approx(1 - 2 ** (-2 / 3))


def test_impossible_final_decays_and_what_they_forbid() -> None:
    for wrong in (EmaConfig(final=1.0), EmaConfig(decay=0.9, final=0.5), EmaConfig(decay=0.9, final=1.1)):
        with pytest.raises(AkornError, match=r"ema.final is .*, expected None, or from ema.decay .not 0. to 1"):
            check(replace(TrainConfig(), ema=wrong))
    old = asdict(CONFIG)
    del old["ema"]["final"]  # as checkpoints are that do not know it
    assert differences(old, CONFIG) == []
    constant = replace(TAUGHT, schedule=ScheduleConfig())  # such a run may become longer, were it not for its teacher
    assert differences(asdict(constant), replace(constant, epochs=9)) == ["epochs was 5, now 9"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_graphs_see_how_the_teacher_changes(tmp_path: Path) -> None:
    plain = train(TaughtToy(), replace(TAUGHT, device="cuda"), tmp_path / "plain")
    graph = train(TaughtToy(), replace(TAUGHT, device="cuda", graph=True), tmp_path / "graph")
    for a, b in zip(plain.model.parameters(), graph.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
