"""Gradients through the last steps only: what they are, and where they are not cut."""

import pytest
import torch
from torch import Tensor

from akorn import nn as ann
from akorn import oscillators as osc

from .conftest import make, state


def gradients(layer: ann.KuramotoLayer, x: Tensor, c: Tensor, steps: int) -> dict[str, Tensor | None]:
    """Of a weighted sum of the last state: for x, c and all parameters."""
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    after = layer(x, c, steps)
    weights = torch.linspace(-1, 1, after.numel(), dtype=after.dtype).view_as(after)
    named = {"x": x, "c": c, **dict(layer.named_parameters())}
    found = torch.autograd.grad((after * weights).sum(), list(named.values()), allow_unused=True)
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("last", [1, 2])
def test_the_state_before_the_last_steps_is_given(kind: str, last: int, recompute: bool) -> None:
    layer, x, c = (
        make(kind, gradients=ann.LastSteps(last, ann.Recompute() if recompute else ann.Store()), bias=True),
        state(kind),
        state(kind, seed=2),
    )
    plain = make(kind, bias=True)
    with torch.no_grad():
        before = plain(x, c, 5 - last)
    found, wanted = gradients(layer, x, c, 5), gradients(plain, before, c, last)
    assert found.pop("x") is None
    assert wanted.pop("x") is not None
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(layer(x, c, 5), plain(x, c, 5), rtol=0, atol=0)


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_reach_the_stimuli_of_the_last_steps(recompute: bool) -> None:
    layer = make("conv2d", gradients=ann.LastSteps(2, ann.Recompute() if recompute else ann.Store()))
    x, c = state("conv2d"), torch.stack([state("conv2d", seed=s) for s in range(2, 7)])
    found, wanted = gradients(layer, x, c, 5)["c"], gradients(make("conv2d"), x, c, 5)["c"]
    assert found is not None
    assert wanted is not None
    torch.testing.assert_close(found[3:], wanted[3:])  # each step's c acts through the steps from there on
    assert not found[:3].any()
    assert wanted[:3].any()


def test_nothing_is_cut_outside_training_nor_in_few_steps() -> None:
    layer, plain = make("dense", gradients=ann.LastSteps(3)), make("dense")
    x, c = state("dense"), state("dense", seed=2)
    torch.testing.assert_close(gradients(layer, x, c, 3), gradients(plain, x, c, 3))
    assert gradients(layer, x, c, 4)["x"] is None
    torch.testing.assert_close(gradients(layer.eval(), x, c, 4), gradients(plain, x, c, 4))


@pytest.mark.parametrize("recompute", [False, True])
def test_energies_and_the_trajectory_are_whole(recompute: bool) -> None:
    layer, x, c = (
        make("dense", gradients=ann.LastSteps(1, ann.Recompute() if recompute else ann.Store())),
        state("dense"),
        state("dense", seed=2),
    )
    found = layer.evolve(x, c, 4, energy=osc.energy)
    wanted = make("dense").evolve(x, c, 4, energy=osc.energy)
    assert found.energies is not None
    torch.testing.assert_close(found.energies, wanted.energies)
    assert layer.evolve(x, c, 4, trajectory=True).trajectory.shape == (5, *x.shape)


@pytest.mark.parametrize("some", ["conv2d", "attention", "dense"])
def test_under_autocast_weights_get_the_gradients_of_the_last_step(some: str) -> None:
    """Autocast may cache a weight that it cast in the steps without gradients: that copy has none."""
    layer, plain = (make(some, gradients=way, bias=True).float() for way in (ann.LastSteps(1), None))
    x, c = state(some).float(), state(some, seed=2).float()
    with torch.no_grad():
        before = plain(x, c, 2)
    wanted = gradients(plain, before, c, 1)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(layer, x, c, 3)
    for name in ("c", *dict(layer.named_parameters())):
        mine, its = found[name], wanted[name]
        assert mine is not None
        assert its is not None
        assert (mine - its).norm() < 0.05 * its.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_fused_steps_cut_gradients_likewise(precision: torch.dtype) -> None:
    layer = make("conv2d", 2, gradients=ann.LastSteps(1), omega=ann.PairwiseFrequency(2)).float().cuda()
    plain = make("conv2d", 2, omega=ann.PairwiseFrequency(2)).float().cuda()
    x, c = (state("conv2d", 2, seed).float().cuda() for seed in (1, 2))
    with torch.autocast("cuda", torch.bfloat16, precision == torch.bfloat16):
        with torch.no_grad():
            before = plain(x, c, 2)
        weights = torch.linspace(-1, 1, x.numel(), device="cuda").view_as(x)
        (found,) = torch.autograd.grad((layer(x, c, 3) * weights).sum(), layer.coupling.free_weight)
        (wanted,) = torch.autograd.grad((plain(before, c, 1) * weights).sum(), plain.coupling.free_weight)
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_impossible_numbers_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="gradient_steps must be"):
        make("dense", gradient_steps=wrong)
