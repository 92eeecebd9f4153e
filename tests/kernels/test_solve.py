"""The fused steps against the layer's own loop, and when they are used."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from solving import run, why_not
from update_cases import RULES

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc


def a_layer(n=4, channels=32, grid=(3, 4), expansion=0, rule=None, **options):
    torch.manual_seed(0)
    coupling = akn.AttentionCoupling(channels, 2, grid=grid, **options)
    if expansion:
        coupling = akn.FeedForwardCoupling(coupling, channels, expansion=expansion)
    omega = akn.PairwiseFrequency(n, init=0.5) if n % 2 == 0 else None
    layer = akn.KuramotoLayer(channels, n, coupling, omega=omega, gamma=0.6, learn_gamma=True, bias=True, rule=rule)
    if expansion:
        with torch.no_grad():  # the MLP as training leaves it: its last map starts at zero
            for parameter in (*coupling.norm.parameters(), *coupling.expand.parameters(), coupling.contract.weight):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def inputs(batch, layer, tokens=12):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, tokens, layer.channels, generator=generator) for _ in range(2)]


@pytest.mark.parametrize(
    ("n", "energy", "fuse_output", "lanes", "expansion", "rule"),
    [
        (4, "eq3", True, 1, 0, akn.Kuramoto()),
        (4, "published", True, 2, 0, akn.Kuramoto()),
        (4, None, False, 1, 0, akn.Kuramoto()),
        (2, "published", False, 2, 0, akn.Kuramoto()),
        (3, "eq3", True, 2, 0, akn.Kuramoto()),
        (5, None, True, 1, 0, akn.Kuramoto()),
        (4, "eq3", None, 2, 2, akn.Kuramoto()),
        (2, "published", True, 1, 1, akn.Kuramoto()),
        (4, "eq3", True, 2, 0, akn.WithoutProjection()),
        (2, "published", False, 1, 0, akn.WithoutProjection()),
        (5, None, None, 1, 0, akn.WithoutProjection()),
        (4, "eq3", None, 1, 2, akn.WithoutProjection()),
    ],
)
def test_same_as_the_layer(device, n, energy, fuse_output, lanes, expansion, rule):
    from akorn.kernels import solve

    layer = a_layer(n, channels={3: 48, 5: 40}.get(n, 32), expansion=expansion, rule=rule).to(device)
    x, c = (a.to(device) for a in inputs(5, layer))
    state, energies = run(
        solve.fused_steps, layer, x, c, 9, energy, torch.float32, chunk=3, lanes=lanes, fuse_output=fuse_output
    )
    function = {"eq3": osc.energy, "published": osc.published_energy, None: None}[energy]
    with torch.no_grad():
        expected = copy.deepcopy(layer).double().evolve(x.double(), c.double(), 9, energy=function)
    torch.testing.assert_close(state.double(), expected.x, rtol=1e-4, atol=1e-4)
    if function is None:
        assert energies is None
    else:
        assert energies.shape == (9, 5)
        torch.testing.assert_close(energies.double(), expected.energies, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("fuse_output", [None, False])
def test_cuts_and_lengths_of_graphs_change_nothing(device, monkeypatch, fuse_output):
    """7 steps are three graphs of different lengths; energies come in parts of another size if the update is
    separate.
    """
    from akorn.kernels import solve, solve_run

    monkeypatch.setattr(solve_run, "BLOCKS", (4, 2, 1))
    layer = a_layer(channels=16, grid=(1, 3)).to(device)
    x, c = (a.to(device) for a in inputs(3, layer, tokens=3))
    with torch.no_grad():
        expected = copy.deepcopy(layer).double().evolve(x.double(), c.double(), 7, energy=osc.energy)
    for chunk, lanes in ((None, None), (2, 1), (3, 2)):
        state, energies = run(
            solve.fused_steps, layer, x, c, 7, "eq3", torch.float32, chunk=chunk, lanes=lanes, fuse_output=fuse_output
        )
        torch.testing.assert_close(state.double(), expected.x, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(energies.double(), expected.energies, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "position",
    [
        None,
        akn.Position((3, 4)),
        akn.RotaryPosition((3, 4), 16),
        akn.RotaryPosition((3, 4), 16, learn=True),
        akn.GTA((3, 4), 16, symmetric=True),
    ],
)
def test_positions(device, position):
    from akorn.kernels import solve

    layer = a_layer(grid=None, position=position).to(device)
    x, c = (a.to(device) for a in inputs(2, layer))
    assert why_not(solve, layer, x, c) is None
    with torch.no_grad():
        expected = layer(x, c, 3)
    torch.testing.assert_close(
        run(solve.fused_steps, layer, x, c, 3, None, torch.float32)[0], expected, rtol=1e-4, atol=1e-4
    )


def test_bfloat16_stays_near(device, project):
    from akorn.kernels import solve

    layer = a_layer(rule=RULES[project]).to(device)
    x, c = (a.to(device) for a in inputs(3, layer))
    state, energies = run(solve.fused_steps, layer, x, c, 4, "eq3", torch.bfloat16)
    with torch.no_grad():
        expected = layer.evolve(x, c, 4, energy=osc.energy)
    assert state.dtype == x.dtype
    torch.testing.assert_close(state, expected.x, rtol=0, atol=0.05)
    torch.testing.assert_close(energies, expected.energies, rtol=0.02, atol=0.2)


def test_changed_weights_are_seen(device):
    """A second call, which reuses what the first one made, uses the weights at that time."""
    from akorn.kernels import solve

    layer = a_layer().to(device)
    x, c = (a.to(device) for a in inputs(2, layer))
    before, _ = run(solve.fused_steps, layer, x, c, 2, None, torch.float32)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.data.mul_(1.5)  # past the version counter
    after, _ = run(solve.fused_steps, layer, x, c, 2, None, torch.float32)
    with torch.no_grad():
        expected = layer(x, c, 2)
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(before, after, atol=1e-2)


def test_a_changed_rule_is_seen(device):
    from akorn.kernels import solve

    layer = a_layer().to(device)
    x, c = (a.to(device) for a in inputs(2, layer))
    for rule in (*RULES.values(), *RULES.values()):
        layer.rule = rule
        state, _ = run(solve.fused_steps, layer, x, c, 2, None, torch.float32)
        with torch.no_grad():
            torch.testing.assert_close(state, layer(x, c, 2), rtol=1e-4, atol=1e-4)


def test_choices_by_timing_tell_the_rules_apart(device, monkeypatch):
    from akorn.kernels import solve, solve_output, solve_run

    keys = []
    for module in (solve_output, solve_run):
        monkeypatch.setattr(module, "best", lambda key, choices, *_, **__: keys.append(key) or choices[0])
    for rule in RULES.values():
        layer = a_layer(rule=rule).to(device)
        run(solve.fused_steps, layer, *(a.to(device) for a in inputs(2, layer)), 1, None)
    assert len(set(keys)) == len(keys) == 4


def test_same_bits_again(device):
    from akorn.kernels import solve

    layer = a_layer().to(device)
    x, c = (a.to(device) for a in inputs(4, layer))
    first = run(solve.fused_steps, layer, x, c, 3, "eq3")
    second = run(solve.fused_steps, layer, x, c, 3, "eq3")
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


def test_inference_mode_and_back(device):
    from akorn.kernels import solve

    layer = a_layer().to(device)
    with torch.inference_mode():
        x, c = (a.to(device) for a in inputs(2, layer))
        first, _ = run(solve.fused_steps, layer, x, c, 2, None)
    x, c = (a.to(device) for a in inputs(2, layer))
    assert torch.equal(run(solve.fused_steps, layer, x, c, 2, None)[0], first)


def test_what_is_not_fused(device):
    from akorn.kernels import solve

    layer = a_layer()
    x, c = inputs(2, layer)
    assert why_not(solve, layer, x, c) is None
    assert "c changes" in why_not(solve, layer, x, lambda t: c)
    assert "c changes" in why_not(solve, layer, x, torch.stack((c, c)))
    assert "float64" in why_not(solve, layer, x.double(), c.double())
    assert "unconstrained maps" in why_not(solve, a_layer(symmetric=True), x, c)
    assert "masked" in why_not(solve, a_layer(mask=torch.ones(12, 12, dtype=torch.bool)), x, c)
    for rule in (akn.Residual(), type("Own", (akn.WithoutProjection,), {})()):
        assert "rule" in why_not(solve, a_layer(rule=rule), x, c)
    other = a_layer()
    other.omega = akn.NaturalFrequency(4)
    assert "natural" in why_not(solve, other, x, c)
    other = a_layer(grid=None, position=akn.AbsolutePosition((3, 4), 32))
    assert "positions" in why_not(solve, other, x, c)


class _Other(torch.Tensor):
    """An array that may mean anything."""


def test_arrays_that_are_not_fused(device):
    """Fused steps would accept weights of any type, and would not see what a transform does to a state."""
    from akorn.kernels import solve

    layer = a_layer()
    x, c = inputs(2, layer)
    assert why_not(solve, copy.deepcopy(layer).bfloat16(), x.bfloat16(), c.bfloat16()) is None
    assert "weights of torch.float64 on cpu" in why_not(solve, copy.deepcopy(layer).double(), x, c)
    assert "a stimulus of torch.float64" in why_not(solve, layer, x, c.double())
    assert "a stimulus of torch.float32 on meta" in why_not(solve, layer, x, c.to("meta"))
    assert "weights of torch.float32 on meta" in why_not(solve, copy.deepcopy(layer).to("meta"), x, c)
    assert "not a plain array" in why_not(solve, layer, x.as_subclass(_Other), c)
    assert "not a plain array" in why_not(solve, layer, x, c.as_subclass(_Other))
    assert "not tokens" in why_not(solve, layer, x[:, 0], c[:, 0])
    seen = []
    for transform in (torch.func.vmap, lambda f: lambda a: torch.func.jvp(f, (a,), (a,))):
        transform(lambda a: (seen.append(why_not(solve, layer, a, a)), a)[1])(x[None])
    assert len(seen) == 2
    assert all("function transforms" in reason for reason in seen)


def test_falls_back_without_a_gpu_or_with_gradients():
    layer = a_layer()
    x, c = inputs(2, layer)
    state, energies = akn.solve_steps(layer, x, c, 3)
    expected = layer.evolve(x, c, 3, energy=osc.energy)
    assert torch.equal(state, expected.x)
    assert torch.equal(energies, expected.energies)
    assert state.requires_grad


def test_unknown_options_are_refused():
    layer = a_layer()
    with pytest.raises(ValueError, match="'free'"):
        akn.solve_steps(layer, *inputs(1, layer), 1, "free")
    with pytest.raises(ValueError, match="float64"):
        akn.solve_steps(layer, *inputs(1, layer), 1, dtype=torch.float64)


def test_switches():
    was = kernels.enabled()
    kernels.enable(False)
    assert not kernels.enabled()
    kernels.enable(was)
    code = "from akorn import kernels; print(kernels.enabled())"
    env = {**os.environ, "AKORN_KERNELS": "0"}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        *((word, False) for word in ("0", " 0 ", "false", "False", "OFF", "no")),
        *((word, True) for word in (None, "", " ", "1", "true", "On", "YES")),
    ],
)
def test_the_environment_switches(monkeypatch, caplog, told, wanted):
    monkeypatch.delenv("AKORN_KERNELS", raising=False)
    if told is not None:
        monkeypatch.setenv("AKORN_KERNELS", told)
    assert kernels._wanted() is wanted
    assert not caplog.records


@pytest.mark.parametrize("told", ["00", "2", "nope"])
def test_an_unknown_word_in_the_environment_is_told(monkeypatch, caplog, told):
    monkeypatch.setenv("AKORN_KERNELS", told)
    assert kernels._wanted()
    (record,) = caplog.records
    assert record.getMessage() == f"AKORN_KERNELS={told} is neither 0 nor 1: fused kernels stay on"


@pytest.mark.gpu
@pytest.mark.parametrize("expansion", [0, 2])
def test_graphs_on_the_gpu(device, monkeypatch, project, expansion):
    """`solve_steps` takes the graphs, and agrees with the layer over 20 steps: two graphs of 8 and four of 1."""
    from akorn.kernels import solve

    layer = a_layer(channels=64, grid=(9, 9), expansion=expansion, rule=RULES[project]).to(device)
    x, c = (a.to(device) for a in inputs(37, layer, tokens=81))
    calls = []
    fused = solve.fused_steps
    monkeypatch.setattr(solve, "fused_steps", lambda *a, **k: calls.append(1) or fused(*a, **k))
    with torch.no_grad():
        state, energies = akn.solve_steps(layer, x, c, 20, dtype=torch.float32)
        expected = layer.double().evolve(x.double(), c.double(), 20, energy=osc.energy)
    assert calls
    torch.testing.assert_close(state.double(), expected.x, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(energies.double(), expected.energies, rtol=1e-4, atol=1e-2)


@pytest.mark.gpu
def test_a_cut_is_chosen_for_large_batches(device, project):
    from akorn.kernels import solve, tune

    before = set(tune.chosen())
    layer = a_layer(channels=64, grid=(9, 9), rule=RULES[project]).to(device)
    x, c = (a.to(device) for a in inputs(1030, layer, tokens=81))
    state, energies = run(solve.fused_steps, layer, x, c, 4, "eq3", torch.float32)
    assert "cut" in {key[0] for key in set(tune.chosen()) - before}
    usual = run(solve.fused_steps, layer, x, c, 4, "eq3", torch.float32, chunk=solve.CUTS[0].chunk)
    torch.testing.assert_close(state, usual[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(energies, usual[1], rtol=1e-4, atol=1e-2)
