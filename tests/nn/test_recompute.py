"""Recomputation in the backward pass: the same gradients, memory that does not grow, and what cannot be repeated."""

from functools import partial

import pytest
import torch
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.checkpoint import checkpoint

from akorn import nn as ann
from akorn import oscillators as osc
from akorn.bench.measure import measure

from .conftest import make, state


@pytest.mark.parametrize("steps", [1, 2, 7, 20])
@pytest.mark.parametrize("in_time", [False, True])
def test_recomputation_changes_nothing(kind: str, steps: int, in_time: bool) -> None:
    results = []
    for recompute in (False, True):
        layer = make(kind, learn_gamma=True, bias=True, gradients=ann.Recompute() if recompute else ann.Store())
        x = state(kind).requires_grad_()
        c = torch.stack([state(kind, seed=s) for s in range(steps)]) if in_time else state(kind, seed=2)
        c = c.clone().requires_grad_()
        run = layer.evolve(x, c, steps, energy=osc.energy)
        weights = torch.linspace(0, 1, x.numel(), dtype=torch.float64).reshape(x.shape)
        ((run.x * weights).sum() + run.energies.square().sum() / 100).backward()
        results.append([run.x, run.energies, x.grad, c.grad, *(p.grad for p in layer.parameters())])
    for plain, again in zip(*results, strict=True):
        torch.testing.assert_close(plain, again)


def test_recomputation_stores_no_more_with_more_steps() -> None:
    """Counts the bytes that the graph saves for the backward pass, forward and while it runs."""

    def most_saved(recompute: bool, steps: int) -> int:
        layer = make("attention-gta", gradients=ann.Recompute() if recompute else ann.Store())
        alive, most = 0, 0

        class Held:
            def __init__(self, tensor: torch.Tensor) -> None:
                nonlocal alive, most
                self.tensor = tensor
                alive += tensor.nbytes
                most = max(most, alive)

            def __del__(self) -> None:
                nonlocal alive
                alive -= self.tensor.nbytes

        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
            layer(state("attention-gta"), state("attention-gta", seed=2), steps).sum().backward()
        return most

    assert most_saved(True, 64) <= 1.1 * most_saved(True, 16)
    assert most_saved(False, 64) > 3 * most_saved(False, 16)


def test_recomputation_under_autocast_stores_no_more_with_more_steps() -> None:
    """What autocast keeps counts too: it would hold a copy of every state that is a leaf until the end."""
    layer = ann.KuramotoLayer(8, 4, torch.nn.Linear(8, 8), gradients=ann.Recompute())
    x, c = torch.randn(512, 8), torch.randn(512, 8)

    def train(steps: int) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            last = layer(x, c, steps)
        last.sum().backward()

    works = {str(steps): partial(train, steps) for steps in (16, 64)}
    found = measure(works, x.device, repeats=1)
    assert found["64"].peak_bytes <= 1.25 * found["16"].peak_bytes


@pytest.mark.parametrize(("steps", "again"), [(9, 1.0), (16, 1.4), (64, 2.4), (512, 4.2)])
def test_how_often_a_step_is_computed_again(steps: int, again: float) -> None:
    """The figures of docs/layers.md."""

    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    layer = ann.KuramotoLayer(4, 4, Counting(), learn_gamma=True, gradients=ann.Recompute())
    layer(torch.randn(1, 4), torch.randn(1, 4), steps).sum().backward()
    assert round((layer.coupling.calls - steps) / steps, 1) == again


def test_recomputation_refuses_what_it_cannot_repeat() -> None:
    x, c = torch.randn(2, 8), torch.randn(2, 8)
    drops = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    with pytest.raises(ValueError, match="draw random numbers"):
        ann.KuramotoLayer(8, 4, drops, gradients=ann.Recompute())(x, c, 3)

    scale = torch.ones(8, requires_grad=True)

    class Outside(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scale * x  # no parameter of the module

    with pytest.raises(RuntimeError, match=r"shape \[8\] that is not a parameter"):
        ann.KuramotoLayer(8, 4, Outside(), gradients=ann.Recompute(), bias=True)(x, c, 3).sum().backward()
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8), learn_gamma=True, gradients=ann.Recompute())
    last = layer(x, c, 3)
    with torch.no_grad():
        layer.coupling.free_weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place"):
        last.sum().backward()
    gamma = torch.tensor(0.5, requires_grad=True)
    last = torch.func.functional_call(layer, {"gamma": gamma}, (x, c, 3))
    with pytest.raises(RuntimeError, match="the same parameters"):
        last.sum().backward()


class Replaces(torch.nn.Module):
    """Steps on a running mean that is a new array each time, two of which may lie at the same address."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


CHANGING = {
    "batch norm": (lambda: torch.nn.Sequential(ann.DenseCoupling(8), torch.nn.BatchNorm1d(8)), "num_batches_tracked"),
    "spectral norm": (lambda: spectral_norm(torch.nn.Linear(8, 8)), "_u"),
    "replaced": (Replaces, "coupling.mean"),
}


@pytest.mark.parametrize("case", CHANGING)
def test_recomputation_refuses_steps_that_change_buffers(case: str) -> None:
    build, name = CHANGING[case]
    layer = ann.KuramotoLayer(8, 4, build(), learn_gamma=True, gradients=ann.Recompute())
    x, c = torch.randn(3, 8), torch.randn(3, 8)
    with pytest.raises(ValueError, match=f"change buffers.*{name}"):
        layer(x, c, 4)
    if case != "replaced":
        layer.eval()  # where they change nothing
        layer(x, c, 4).sum().backward()


def test_a_stimulus_may_change_its_buffers() -> None:
    """It acts once, before the steps."""
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8), stimulus=torch.nn.BatchNorm1d(8), gradients=ann.Recompute())
    layer(torch.randn(3, 8), torch.randn(3, 8), 4).sum().backward()
    assert layer.stimulus.num_batches_tracked == 1


def test_recomputation_has_no_second_derivatives_and_says_so() -> None:
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8), stimulus=ann.GroupNorm(2, 8), gradients=ann.Recompute())
    x, c = torch.randn(2, 8), torch.randn(2, 8, requires_grad=True)
    last = layer(x, c, 3)
    with pytest.raises(RuntimeError, match=r"gradients=Recompute\(\) has no second derivatives"):
        torch.autograd.grad((last * x).sum(), c, create_graph=True)


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_gradients_may_be_asked_for_twice_and_within_checkpoints(reentrant: bool | None) -> None:
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8), gradients=ann.Recompute())
    x, c = torch.randn(2, 8), torch.randn(2, 8, requires_grad=True)
    (wanted,) = torch.autograd.grad((layer(x, c, 3) * x).sum(), c)
    run = layer if reentrant is None else lambda *a: checkpoint(layer, *a, use_reentrant=reentrant)
    loss = (run(x, c, 3) * x).sum()
    if not reentrant:
        loss.backward(retain_graph=True)
        torch.testing.assert_close(c.grad, wanted)
        c.grad = None
    loss.backward()
    torch.testing.assert_close(c.grad, wanted)


@pytest.mark.parametrize("kind", ["dense", "conv2d", "attention-pictures"])
def test_what_a_recomputed_layer_gives_may_be_changed_in_place(kind: str) -> None:
    found = []
    for recompute in (False, True):
        layer, x, c = (
            make(kind, gradients=ann.Recompute() if recompute else ann.Store()),
            state(kind),
            state(kind, seed=2).requires_grad_(),
        )
        last = layer(x, c, 3)
        last += 1
        torch.nn.functional.relu_(last).square().sum().backward()
        found.append((last.detach(), c.grad))
    torch.testing.assert_close(*found)
