"""Average, schedule, order, random states and config against values worked out by hand."""

import random
from dataclasses import asdict, replace
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

from akorn.engine import EmaConfig, OptimiserConfig, ScheduleConfig, TrainConfig, optimiser
from akorn.engine.average import Average, decay_at
from akorn.engine.config import check, differences
from akorn.engine.order import Order
from akorn.engine.schedule import factor
from akorn.errors import AkornError
from akorn.runtime import randomness
from akorn.runtime.randomness import derive_seed

CPU = torch.device("cpu")


def test_ema_first_copy_then_every_second_step() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.register_buffer("count", torch.tensor(0))
    ema = Average(model, EmaConfig(decay=0.75, every=2, after=3, warmup=False))
    seen = []
    for step in range(1, 9):
        with torch.no_grad():
            model.weight.fill_(float(step))
            model.count.fill_(step)
        ema.update(model, step)
        seen.append((ema.started, ema.model.weight.item(), int(ema.model.count)))
    # first copy after step 3; then 0.75 · old + 0.25 · new at steps 4, 6 and 8
    assert [s for s, _, _ in seen] == [False, False, True, True, True, True, True, True]
    assert [w for _, w, _ in seen[2:]] == [3.0, 3.25, 3.25, 3.9375, 3.9375, 4.953125]
    assert [c for _, _, c in seen[2:]] == [3, 4, 4, 6, 6, 8]
    assert not ema.model.weight.requires_grad


def test_the_average_of_a_short_run_forgets_its_first_copy() -> None:
    config = EmaConfig(decay=0.998, every=10, after=200)
    decays = [decay_at(config, step) for step in (200, 210, 1200, 11_500, 20_000)]
    expected = [0.0, 1 - 11 ** (-2 / 3), 1 - 1001 ** (-2 / 3), 0.998, 0.998]
    assert decays == pytest.approx(expected)  # 0.998 is reached only after some 11,000 steps
    model = nn.Linear(1, 1, bias=False)
    ages = {}
    for warmup in (True, False):
        average = Average(model, EmaConfig(decay=0.998, every=10, after=200, warmup=warmup))
        for step in range(1, 2341):  # ten epochs of Tetrominoes
            with torch.no_grad():
                model.weight.fill_(0.0 if step <= 200 else 1.0)
            average.update(model, step)
        ages[warmup] = 1 - average.model.weight.item()
    assert ages[True] < 0.05
    assert ages[False] > 0.6  # of the first copy is left where the decay is constant


def test_schedules() -> None:
    def values(name: str, warmup: int, final: float = 0.0) -> list[float]:
        return [factor(ScheduleConfig(name, warmup, final), step, 8) for step in range(8)]

    assert values("constant", 0) == [1.0] * 8
    assert values("constant", 4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert values("linear", 4, 0.2) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.8, 0.6, 0.4])
    half = 2**-0.5
    assert values("cosine", 4) == pytest.approx([0.25, 0.5, 0.75, 1, 1, (1 + half) / 2, 0.5, (1 - half) / 2])
    assert factor(ScheduleConfig("cosine", 0, 0.1), 8, 8) == pytest.approx(0.1)


def test_an_epoch_has_every_sample_once_and_processes_share_the_same_batches() -> None:
    one = Order(20, 4, seed=3, device=CPU)
    shares = [Order(20, 4, seed=3, device=CPU, process=p, processes=2) for p in range(2)]
    batches = [one.indices(step).tolist() for step in range(10)]
    assert one.steps_per_epoch == 5
    for epoch in (batches[:5], batches[5:]):
        assert sorted(chain(*epoch)) == list(range(20))
    assert batches[:5] != batches[5:]
    for step in range(10):
        assert list(chain(*(o.indices(step).tolist() for o in shares))) == batches[step]
    assert Order(20, 4, seed=4, device=CPU).indices(0).tolist() != batches[0]


def test_the_last_partial_batch_is_dropped_or_kept() -> None:
    dropped, kept = Order(10, 4, 0, CPU), Order(10, 4, 0, CPU, drop_last=False)
    assert [dropped.steps_per_epoch, kept.steps_per_epoch] == [2, 3]
    assert [len(kept.indices(s)) for s in range(4)] == [4, 4, 2, 4]
    assert sorted(chain(*(kept.indices(s).tolist() for s in range(3)))) == list(range(10))
    halves = [Order(11, 4, 0, CPU, drop_last=False, process=p, processes=2) for p in range(2)]
    assert [[len(h.indices(s)) for s in range(3)] for h in halves] == [[2, 2, 1]] * 2


def test_orders_that_cannot_be() -> None:
    with pytest.raises(AkornError, match="5 cannot be shared equally among 2"):
        Order(20, 5, 0, CPU, processes=2)
    with pytest.raises(AkornError, match=r"3 samples do not fill one batch of 4: choose a smaller --train.batch-size"):
        Order(3, 4, 0, CPU)


def draw() -> list[float]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(()).item()]  # noqa: NPY002


def test_random_states_come_back() -> None:
    randomness.seed_everything(1, "a")
    draw()  # leaves half a pair of Gaussian numbers behind in Python and NumPy
    states = randomness.capture(CPU)
    first, second = draw(), draw()
    randomness.restore(states, CPU)
    assert [draw(), draw()] == [first, second]
    with randomness.undisturbed(CPU):
        a = draw()
    assert draw() == a
    randomness.seed_everything(1, "b")
    assert draw() != first
    assert derive_seed(1, 23) != derive_seed(12, 3)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"keep": 0}, "keep is 0"),
        ({"precision": "int8"}, "precision is 'int8'"),
        ({"compile": True}, "compile is True, expected auto, yes or no"),
        ({"optimiser": OptimiserConfig(learning_rate=float("nan"))}, "optimiser.learning_rate is nan"),
        ({"optimiser": OptimiserConfig(name="lion")}, "optimiser.name is 'lion'"),  # type: ignore[arg-type]
        ({"ema": EmaConfig(decay=1.0)}, r"ema.decay is 1.0, expected in \[0, 1\)"),
    ],
)
def test_impossible_settings_are_refused_by_name(change: dict[str, object], name: str) -> None:
    check(TrainConfig())
    with pytest.raises(AkornError, match=name):
        check(replace(TrainConfig(), **change))  # type: ignore[arg-type]


def test_what_may_change_when_a_run_goes_on() -> None:
    config = TrainConfig()
    saved = asdict(config)
    assert differences(saved, config) == []
    assert differences(saved, replace(config, keep=7, log_every=3, epochs=9)) == []
    assert differences(saved, replace(config, batch_size=7)) == ["batch_size was 100, now 7"]
    cosine = replace(config, schedule=ScheduleConfig("cosine"))
    assert differences(asdict(cosine), replace(cosine, epochs=9)) == ["epochs was 100, now 9"]
    assert differences(saved, replace(config, ema=EmaConfig(decay=0.5))) == ["ema.decay was 0.0, now 0.5"]


def test_an_optimisers_state_comes_back_in_its_parameters_layout() -> None:
    """Fused optimisers refuse a moment whose memory layout differs from its parameter's."""
    model = nn.Linear(3, 2)
    model.weight = nn.Parameter(torch.randn(3, 2).T)  # not contiguous
    made = optimiser.build(OptimiserConfig(), model)
    model(torch.randn(4, 3)).square().sum().backward()
    made.step()
    kept = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in _state(made, model).items()}
    again = optimiser.build(OptimiserConfig(), model)
    optimiser.load_state_tensors(again, model, kept)
    name = next(name for name in kept if name.startswith("step/"))
    with pytest.raises(AkornError, match=f"the optimiser's state lacks '{name}'"):
        optimiser.load_state_tensors(again, model, {key: value for key, value in kept.items() if key != name})
    for name, tensor in _state(again, model).items():
        torch.testing.assert_close(tensor, kept[name])
    assert again.state[model.weight]["exp_avg"].stride() == model.weight.stride()


def _state(made: torch.optim.Optimizer, model: nn.Module) -> dict[str, torch.Tensor]:
    return optimiser.state_tensors(made, model)
