"""Carried states: who stays, who leaves, and that a resumed run continues with the same samples and states."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_toy import CONFIG, ToyTask
from torch import Tensor, nn

from akorn.engine import CarryConfig, Interrupted, train
from akorn.engine.carried import Carried, Segment, carry_on, empty
from akorn.errors import AkornError


class Counting(ToyTask):
    """A toy whose state counts the segments of its sample; samples with a large first feature are soon done."""

    def begin(self, model: nn.Module, batch: tuple[Tensor, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        noise = torch.rand(len(batch[0]), 1, generator=generator)
        return torch.zeros(len(batch[0]), dtype=torch.int64), noise + model(batch[0])

    def segment(
        self,
        model: nn.Module,
        batch: tuple[Tensor, ...],
        state: tuple[Tensor, ...],
        generator: torch.Generator,
        choice: object,
    ) -> Segment:
        x, y = batch
        count, walk = state
        walk = 0.5 * walk + model(x)
        loss = (walk - y).square().mean()
        return Segment(loss, (count + 1, walk), x[:, 0] > 1, {"walk": walk.mean()})


CARRIED = replace(CONFIG, carry=CarryConfig(segments=(2, 5)))


def steps(count: int, config: CarryConfig, samples: int = 64) -> tuple[list[Carried], list[dict[str, Tensor]]]:
    """The slots after each of some training steps, without an optimiser."""
    torch.manual_seed(0)
    task, generator = Counting(random=False), torch.Generator().manual_seed(0)
    model = task.build_model()
    seen, logged = [], []
    carried: Carried | None = None
    for step in range(count):
        x = torch.randn(samples, 5, generator=generator)
        fresh = (x, torch.full((samples, 1), float(step)))  # y tells in which step a sample came
        carried = empty(task, model, fresh, generator) if carried is None else carried
        _, scalars, carried = carry_on(task, model, fresh, carried, config, generator, None)
        seen.append(carried)
        logged.append(scalars)
    return seen, logged


def test_a_sample_stays_for_as_many_steps_as_were_drawn() -> None:
    seen, _ = steps(40, CarryConfig(segments=(2, 5), halt=False))
    lengths = set()
    for slot in range(64):
        born = torch.stack([carried.batch[1][slot, 0] for carried in seen])
        stays = torch.unique_consecutive(born, return_counts=True)[1][:-1]  # the last one may still stay
        lengths |= set(stays.tolist())
    assert lengths == {2, 3, 4, 5}


def test_the_state_goes_with_the_sample() -> None:
    seen, _ = steps(30, CarryConfig(segments=(2, 5)))
    for step, carried in enumerate(seen):
        born = carried.batch[1][:, 0].long()
        assert torch.equal(carried.state[0], step - born + 1)  # as many segments as training steps


def test_what_is_done_leaves_early_only_if_it_may() -> None:
    for halt in (True, False):
        seen, logged = steps(30, CarryConfig(segments=(5, 5), halt=halt))
        ages = torch.cat([carried.state[0][carried.batch[0][:, 0] > 1] for carried in seen])
        assert ages.max() == (1 if halt else 5)
        assert max(scalars["done"] for scalars in logged) > 0
        assert logged[0]["fresh"] == 1


def test_no_gradient_comes_from_the_segments_before() -> None:
    seen, _ = steps(3, CarryConfig(segments=(5, 5)))
    assert not any(part.requires_grad for carried in seen for part in carried.state)


def test_one_segment_each_is_training_without_carrying() -> None:
    seen, logged = steps(5, CarryConfig(segments=(1, 1)))
    assert all(scalars["fresh"] == 1 for scalars in logged)
    assert all((carried.state[0] == 1).all() for carried in seen)


def test_empty_slots_draw_nothing() -> None:
    task, generator = Counting(), torch.Generator().manual_seed(3)
    before = generator.get_state()
    empty(task, task.build_model(), (torch.randn(4, 5), torch.randn(4, 1)), generator)
    assert torch.equal(generator.get_state(), before)


class Stopping(Counting):
    """A task that asks to stop once."""

    def segment(self, *given: object) -> Segment:
        self.calls += 1
        if self.calls == self.hold_at:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)
        return super().segment(*given)  # type: ignore[arg-type]


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_a_stopped_and_resumed_run_is_bit_identical(tmp_path: Path, optimiser: str) -> None:
    config = replace(CARRIED, optimiser=replace(CARRIED.optimiser, name=optimiser))
    width = 40  # wide enough for Muon
    whole = train(Counting(width=width), config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(Stopping(width=width, hold_at=23), config, tmp_path / "two")
    again = train(Counting(width=width), config, tmp_path / "two", resume=True)
    for ours, theirs in zip(again.model.state_dict().values(), whole.model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    logs = [(tmp_path / name / "scalars.jsonl").read_text().splitlines() for name in ("whole", "two")]
    losses = [[line.split('"loss"')[1] for line in log if '"loss"' in line] for log in logs]
    assert losses[0] == losses[1]


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    for segments in ((0, 3), (4, 2)):
        with pytest.raises(AkornError, match=r"carry\.segments is .*expected two numbers of at least 1"):
            train(Counting(), replace(CONFIG, carry=CarryConfig(segments=segments)), tmp_path / "a")
    with pytest.raises(AkornError, match="drop_last"):
        train(Counting(), replace(CARRIED, drop_last=False), tmp_path / "b")
    with pytest.raises(AkornError, match="toy has no states to carry"):
        train(ToyTask(), CARRIED, tmp_path / "c")


def test_other_segments_are_another_run(tmp_path: Path) -> None:
    train(Counting(), replace(CARRIED, steps=12), tmp_path / "run")
    other = replace(CARRIED, steps=12, carry=CarryConfig(segments=(1, 5)))
    with pytest.raises(AkornError, match=r"carry\.segments was \[2, 5\], now \[1, 5\]"):
        train(Counting(), other, tmp_path / "run", resume=True)
