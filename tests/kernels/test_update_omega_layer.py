"""Layers with any natural frequencies: Ω goes into the fused update, and chains go backward through it."""

import copy

import pytest
import torch
from update_cases import RULES, replayed, with_gradients

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc

F32, F64, F16 = torch.float32, torch.float64, torch.float16


@pytest.fixture
def fused(device, monkeypatch):
    """The device on which layers take the fused update, in the interpreter if there is no GPU."""
    monkeypatch.setattr(kernels, "_interpreted", True)
    return device


@pytest.fixture
def calls(fused, monkeypatch):
    """What each fused update was given for Ω; rotating outside of it is an error."""
    from akorn.execution import fused_step as step

    given = []
    for name in ("update", "update_twice"):
        plain = getattr(step, name)
        monkeypatch.setattr(step, name, lambda *a, plain=plain: given.append(a[4]) or plain(*a))
    for kind in (akn.NaturalFrequency, akn.PairwiseFrequency):
        forward = kind.forward
        monkeypatch.setattr(kind, "forward", lambda self, *a, forward=forward: _allowed(forward(self, *a)))
    return given


def _allowed(result):
    assert not kernels.enabled(), "Ωx was computed outside of the update"
    return result


OMEGAS = {
    "rates": lambda n, **options: akn.PairwiseFrequency(n, 12 // n, init=0.5, **options),
    "matrix": lambda n, **options: akn.NaturalFrequency(n, **options),
    "matrices": lambda n, **options: akn.NaturalFrequency(n, 12 // n, **options),
}


def a_layer(kind, n=3, dtype=F64, *, learn=True, coupling="dense", **options):
    torch.manual_seed(0)
    coupling = akn.ConvCoupling(12, 3) if coupling.startswith("conv") else akn.DenseCoupling(12)
    omega = OMEGAS[kind](n, learn=learn)
    if kind == "rates":
        torch.nn.init.normal_(omega.rate)
    return akn.KuramotoLayer(12, n, coupling, omega=omega, gamma=0.6, **options).to(dtype)


def a_state(device, dtype=F64, coupling="dense"):
    generator = torch.Generator().manual_seed(1)
    shape = (2, 12, 4, 5) if coupling.startswith("conv") else (2, 7, 12)
    x, c = (torch.randn(*shape, generator=generator, dtype=F64).to(device, dtype) for _ in range(2))
    if coupling == "conv, channels last":
        x, c = (a.contiguous(memory_format=torch.channels_last) for a in (x, c))
    return x, c


def run(layer, x, c, *, energy=osc.energy, steps=3, autocast=False, compiled=False):
    """The last state, the energies, and the gradients of x, c and all parameters."""
    layer = copy.deepcopy(layer).to(x.device)
    if compiled:
        layer.compile_step(backend="aot_eager")
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    with torch.autocast(x.device.type, F16, enabled=autocast):
        found = layer.evolve(x, c, steps, energy=energy)
    return with_gradients(found, x, c, layer)


def close(found, expected, tolerance=1e-9):
    for result, wanted in zip(found, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert not result.isnan().any()
        scale = max(1.0, float(wanted.detach().abs().max()))
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance * scale)


def expected_of(monkeypatch, layer, *state, **options):
    """The same without kernels and without recomputation."""
    layer.gradients = akn.Store()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "_enabled", False)
        return run(layer, *state, **options)


@pytest.mark.parametrize("coupling", ["dense", "conv", "conv, channels last"])
@pytest.mark.parametrize(("kind", "n"), [("rates", 4), ("matrix", 3), ("matrices", 3), ("matrices", 6)])
def test_omega_goes_inside(fused, calls, monkeypatch, project, kind, n, coupling):
    layer = a_layer(kind, n, coupling=coupling, rule=RULES[project])
    state = a_state(fused, coupling=coupling)
    found = run(layer, *state)
    assert len(calls) == 3
    assert all(omega is not None for omega in calls)
    close(found, expected_of(monkeypatch, layer, *state))


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("learn_gamma", [True, False])
@pytest.mark.parametrize(("kind", "n"), [("rates", 4), ("matrix", 3), ("matrices", 4)])
def test_chains(fused, calls, monkeypatch, project, kind, n, learn, learn_gamma):
    """Recomputed chains go backward without the update forward, whatever is learned."""
    options = {"learn_gamma": learn_gamma, "rule": RULES[project], "gradients": akn.Recompute()}
    layer, state = a_layer(kind, n, learn=learn, **options), a_state(fused)
    found = run(layer, *state, steps=5)
    assert len(calls) == 5
    close(found, expected_of(monkeypatch, layer, *state, steps=5))


@pytest.mark.parametrize("energy", [None, osc.published_energy])
def test_chains_with_other_energies(fused, calls, monkeypatch, project, energy):
    layer = a_layer("matrices", coupling="conv", rule=RULES[project], gradients=akn.Recompute())
    state = a_state(fused, coupling="conv")
    found = run(layer, *state, energy=energy)
    assert len(calls) == 3
    close(found, expected_of(monkeypatch, layer, *state, energy=energy))


@pytest.mark.parametrize("kind", ["rates", "matrix"])
def test_chains_under_autocast(fused, calls, project, kind):
    """The same values as without recomputation; the gradients of weights it adds up in another precision."""
    layer, state = a_layer(kind, 4, F32, rule=RULES[project], gradients=akn.Recompute()), a_state(fused, F32)
    found = run(layer, *state, autocast=True)
    layer.gradients = akn.Store()
    expected = run(layer, *state, autocast=True)
    assert {omega.dtype for omega in calls} == {F32}
    close(found[:4], expected[:4], 1e-5)
    close(found[4:], expected[4:], 1e-2)


@pytest.mark.parametrize("kind", ["matrix", "matrices"])
def test_compiled_step(fused, monkeypatch, kind):
    """fullgraph=True: nothing breaks the graph, forward or backward."""
    torch._dynamo.reset()
    layer, state = a_layer(kind), a_state(fused)
    close(run(layer, *state, compiled=True), expected_of(monkeypatch, layer, *state))


@pytest.mark.parametrize("recompute", [False, True])
def test_hooks_on_omega_run(fused, monkeypatch, project, recompute):
    gradients = akn.Recompute() if recompute else akn.Store()
    layer, state = a_layer("matrices", rule=RULES[project], gradients=gradients), a_state(fused)
    layer.omega.register_forward_hook(lambda module, inputs, output: 2 * output)
    close(run(layer, *state), expected_of(monkeypatch, layer, *state))


class Double(torch.nn.Module):
    """A parametrisation."""

    def forward(self, values):
        return 2 * values


def test_chains_reach_what_gamma_is_made_of(fused, calls, monkeypatch):
    layer, state = a_layer("matrix", learn_gamma=True, gradients=akn.Recompute()), a_state(fused)
    torch.nn.utils.parametrize.register_parametrization(layer, "gamma", Double())
    found = run(layer, *state)
    assert len(calls) == 3
    close(found, expected_of(monkeypatch, layer, *state))


@pytest.mark.parametrize("gradients", [akn.Store(), akn.Recompute(2)])
def test_a_damped_step_and_the_gradient_of_its_gamma(fused, monkeypatch, gradients):
    """The step γ/(1 + γ) is fused, and its gradient reaches γ."""
    torch.manual_seed(0)
    options = {"gamma": 1.0, "learn_gamma": True, "damped": True, "gradients": gradients}
    layer, state = akn.KuramotoLayer(12, 3, akn.DenseCoupling(12), **options).to(F64), a_state(fused)
    from akorn.execution import fused_step as step

    taken, plain = [], step.update
    monkeypatch.setattr(step, "update", lambda *a: taken.append(a[3].item()) or plain(*a))
    found = run(layer, *state)
    assert taken[:3] == [0.5] * 3
    close(found, expected_of(monkeypatch, layer, *state))
    smaller = akn.KuramotoLayer(12, 3, layer.coupling, gamma=0.5).to(F64)
    close(found[:1], run(smaller, *state)[:1])


@pytest.mark.parametrize("made", [False, True])
def test_chains_refuse_a_gamma_that_is_no_parameter(fused, made):
    layer, (x, c) = a_layer("matrix", gradients=akn.Recompute()).to(fused), a_state(fused)
    layer.gamma = torch.tensor(0.6, device=fused, dtype=F64, requires_grad=True)
    if made:
        layer.gamma = 2 * layer.gamma
    with pytest.raises(RuntimeError, match=r"shape \[\] that is not a parameter"):
        layer(x, c, 3).sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kind", ["matrix", "matrices"])
def test_recorded_as_a_graph(fused, project, kind, recompute):
    """Forward and backward in a CUDA graph, replayed on other values."""
    gradients = akn.Recompute() if recompute else akn.Store()
    layer = a_layer(kind, dtype=F32, rule=RULES[project], gradients=gradients).to(fused)
    x, c = a_state(fused, F32)
    parameters = list(layer.parameters())

    def work(x, c):
        found = layer.evolve(x, c, 3, energy=osc.energy)
        return [found.x, *torch.autograd.grad(found.x.pow(3).sum() + found.energies.sum(), parameters)]

    close(replayed(work, x, c), work(x, c), 1e-5)
