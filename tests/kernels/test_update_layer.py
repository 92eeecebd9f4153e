"""Layers that use the fused update by themselves: same gradients as the plain form, and where they must not use it."""

import copy
import logging

import pytest
import torch
from nearness import close as close_within
from torch.utils.checkpoint import checkpoint
from update_cases import BF16, F16, F32, F64, RULES, replayed, with_gradients

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc

TOLERANCE = {F64: 1e-10, F32: 1e-5, F16: 4e-3, BF16: 3e-2}  # the narrow ones are rounded several times


@pytest.fixture
def fused(device, monkeypatch):
    """The device on which layers take the fused update, in the interpreter if there is no GPU."""
    monkeypatch.setattr(kernels, "_interpreted", True)
    return device


def close(found, expected, dtype):
    close_within(found, expected, TOLERANCE[dtype])


OMEGAS = {
    "none": lambda n, count: None,
    "one rate": lambda n, count: akn.PairwiseFrequency(n, init=0.5),
    "a rate each": lambda n, count: akn.PairwiseFrequency(n, count, init=0.5),
    "one matrix": lambda n, count: akn.NaturalFrequency(n),
    "a matrix each": lambda n, count: akn.NaturalFrequency(n, count),
}


def a_layer(kind, omega="one rate", n=4, dtype=F64, channels=12, **options):
    torch.manual_seed(0)
    coupling = akn.ConvCoupling(channels, 3) if kind.startswith("conv") else akn.DenseCoupling(channels)
    options = {"gamma": 0.6, "learn_gamma": True, "bias": True, **options}
    return akn.KuramotoLayer(channels, n, coupling, omega=OMEGAS[omega](n, channels // n), **options).to(dtype)


def a_state(kind, device, dtype=F64, channels=12):
    generator = torch.Generator().manual_seed(1)
    shape = (2, channels, 4, 5) if kind.startswith("conv") else (2, 7, channels)
    x, c = (torch.randn(*shape, generator=generator, dtype=F64).to(device, dtype) for _ in range(2))
    if kind == "conv, channels last":
        x, c = (a.contiguous(memory_format=torch.channels_last) for a in (x, c))
    return x, c


def run(layer, x, c, energy=osc.energy, steps=3, through=None):
    """The last state, the energies, and the gradients of x, c and all parameters."""
    layer = copy.deepcopy(layer).to(x.device)
    if through == "compiled":
        layer.compile_step(backend="aot_eager")
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    if through == "checkpoint":
        found = checkpoint(lambda x, c: layer.evolve(x, c, steps, energy=energy), x, c, use_reentrant=False)
    else:
        found = layer.evolve(x, c, steps, energy=energy)
    return with_gradients(found, x, c, layer)


@pytest.fixture
def calls(fused, monkeypatch):
    """How often the fused update was called."""
    from akorn.execution import fused_step as step

    count = []
    for name in ("update", "update_twice"):
        fused = getattr(step, name)
        monkeypatch.setattr(step, name, lambda *a, fused=fused: count.append(1) or fused(*a))
    return count


def compare(calls, monkeypatch, layer, x, c, dtype=F64, **options):
    found = run(layer, x, c, **options)
    assert calls
    monkeypatch.setattr(kernels, "_enabled", False)
    before = len(calls)
    expected = run(layer, x, c, **{**options, "through": None})
    assert len(calls) == before
    close(found, expected, dtype)
    return found, expected


@pytest.mark.parametrize("omega", list(OMEGAS))
@pytest.mark.parametrize("kind", ["dense", "conv", "conv, channels last"])
def test_layers_take_it_by_themselves(fused, calls, monkeypatch, project, kind, omega):
    found, _ = compare(calls, monkeypatch, a_layer(kind, omega, rule=RULES[project]), *a_state(kind, fused))
    assert len(calls) == 3
    if kind == "conv, channels last":
        assert found[0].is_contiguous(memory_format=torch.channels_last)


def own_energy(x, jx, c):
    return (x * (jx - c)).pow(3).flatten(1).sum(1)


@pytest.mark.parametrize("energy", [None, osc.published_energy, own_energy])
def test_energies(fused, calls, monkeypatch, project, energy):
    layer = a_layer("dense", "one matrix", rule=RULES[project])
    compare(calls, monkeypatch, layer, *a_state("dense", fused), energy=energy)


@pytest.mark.parametrize("kind", ["dense", "conv"])
@pytest.mark.parametrize("through", ["recompute", "checkpoint"])
def test_computed_again(fused, calls, monkeypatch, project, kind, through):
    layer = a_layer(kind, rule=RULES[project], gradients=akn.Recompute() if through == "recompute" else None)
    compare(calls, monkeypatch, layer, *a_state(kind, fused), through=through, steps=5)
    assert len(calls) == (5 if through == "recompute" else 10)  # a chain goes backward without the update forward


@pytest.mark.parametrize("kind", ["dense", "conv, channels last"])
def test_compiled_step(fused, monkeypatch, project, kind):
    """fullgraph=True: nothing of the fused step breaks the graph, and switching kernels off is seen."""
    torch._dynamo.reset()
    layer, (x, c) = a_layer(kind, rule=RULES[project]), a_state(kind, fused)
    found = run(layer, x, c, through="compiled")
    monkeypatch.setattr(kernels, "_enabled", False)
    close(found, run(layer, x, c), F64)
    compiled = copy.deepcopy(layer).to(fused)
    graphs = []
    compiled.compile_step(backend=lambda graph, _: graphs.append(graph) or graph.forward)
    for enabled in (True, False):
        monkeypatch.setattr(kernels, "_enabled", enabled)
        compiled(x, c, 1)
    assert ["akorn.update" in str(graph.code) for graph in graphs] == [True, False]


def test_mixed_memory_orders_become_one(fused, calls, monkeypatch):
    x, c = a_state("conv", fused)
    found, _ = compare(calls, monkeypatch, a_layer("conv"), x, c.contiguous(memory_format=torch.channels_last))
    assert found[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("omega", ["one rate", "one matrix"])
def test_autocast(fused, calls, monkeypatch, project, omega):
    """Jx comes in bfloat16, the state stays float32 as in the plain form, gradients have their array's type."""
    layer, (x, c) = a_layer("dense", omega, dtype=F32, rule=RULES[project]), a_state("dense", fused, F32)
    types = []
    layer.coupling.register_forward_hook(lambda module, inputs, output: types.append(output.dtype))
    with torch.autocast(fused.type, BF16):
        found, expected = compare(calls, monkeypatch, layer, x, c, BF16)
    assert set(types) == {BF16}
    assert [f.dtype for f in found] == [e.dtype for e in expected]


@pytest.mark.parametrize("dtype", [F32, BF16, F16])
def test_narrow_layers_stay_near_float64(fused, calls, project, dtype):
    layer, (x, c) = a_layer("dense", dtype=dtype, rule=RULES[project]), a_state("dense", fused, dtype)
    found = run(layer, x, c, steps=1)
    expected = run(copy.deepcopy(layer).double(), x.double(), c.double(), steps=1)
    close(found, expected, dtype)
    assert found[0].dtype == dtype


class Own(akn.WithoutProjection):
    """A rule that may do anything."""


def test_where_it_is_not_taken(fused, calls, monkeypatch):
    from akorn.execution import fused_step as step

    layer, (x, c) = a_layer("dense"), a_state("dense", fused)
    layer = layer.to(fused)
    x = osc.ungroup(osc.normalize(osc.group(x, 4)))
    assert step.why_not(layer.one_step(), x, x, c) is None
    assert "float64" in step.why_not(layer.one_step(), x, x.float(), c)
    assert "int64" in step.why_not(layer.one_step(), x, x, c.long())
    assert "shape" in step.why_not(layer.one_step(), x, x, c[:1])
    for changed, reason in (
        ({"rule": akn.Residual()}, "rule: Residual"),
        ({"rule": Own()}, "rule: Own"),
        ({"omega": torch.nn.Identity()}, "natural"),
        ({"n": 17}, "N = 17"),
        ({"gamma": torch.ones(3)}, "γ"),
    ):
        other = a_layer("dense", learn_gamma=False).to(fused)
        for name, value in changed.items():
            setattr(other, name, value)
        assert reason in step.why_not(other.one_step(), x, x, c)
    layer.step(x, c[:1])  # broadcasts, as it always did
    assert not calls
    layer.step(x, c)
    assert len(calls) == 1


def test_function_transforms_take_the_plain_form(fused, calls):
    layer, (x, c) = a_layer("dense").to(fused), a_state("dense", fused)
    each = torch.vmap(lambda x, c: layer.step(x[None], c[None])[0])(x, c)
    torch.func.jvp(lambda x: layer.step(x, c), (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        layer.step(torch.autograd.forward_ad.make_dual(x, x), c)
    assert not calls
    torch.testing.assert_close(each, layer.step(x, c))
    assert len(calls) == 1


def test_usable(fused, monkeypatch):
    x = torch.ones(2, device=fused)
    assert kernels.usable(x)
    assert kernels.usable(torch.nn.Parameter(x))
    monkeypatch.setattr(kernels, "_enabled", False)
    assert not kernels.usable(x)
    monkeypatch.setattr(kernels, "_enabled", True)
    monkeypatch.setattr(kernels, "_interpreted", False)
    assert kernels.usable(x) == x.is_cuda


def test_says_once_that_triton_is_missing(monkeypatch, caplog):
    monkeypatch.setattr(kernels, "_interpreted", True)
    monkeypatch.setattr(kernels, "_enabled", True)
    monkeypatch.setattr(kernels, "_missing", "Triton is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    kernels.available.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "akorn.kernels"):
            layer, (x, c) = a_layer("dense"), a_state("dense", "cpu")
            layer(x, c, 3)
        assert [record.message for record in caplog.records] == [
            "Triton is not installed: Kuramoto steps run unfused, which is slower"
        ]
    finally:
        kernels.available.cache_clear()


@pytest.fixture
def exact(monkeypatch):
    """Convolutions without TF32, whose rounding would blow up differences in the last bit."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["dense", "conv, channels last"])
@pytest.mark.parametrize("recompute", [False, True])
def test_recorded_as_a_graph(fused, exact, project, kind, recompute):
    """Forward and backward in a CUDA graph, replayed on other values."""
    gradients = akn.Recompute() if recompute else akn.Store()
    layer = a_layer(kind, dtype=F32, rule=RULES[project], gradients=gradients).to(fused)
    x, c = a_state(kind, fused, F32)
    parameters = list(layer.parameters())

    def work(x, c):
        found = layer.evolve(x, c, 3, energy=osc.energy)
        return [found.x, *torch.autograd.grad(found.x.pow(3).sum() + found.energies.sum(), parameters)]

    close(replayed(work, x, c), work(x, c), F32)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["dense", "conv, channels last"])
def test_compiled_by_inductor(fused, exact, project, kind):
    torch._dynamo.reset()
    layer, (x, c) = a_layer(kind, dtype=F32, rule=RULES[project]).to(fused), a_state(kind, fused, F32)
    expected = run(layer, x, c)
    layer.compile_step()
    compiled = layer.evolve(x, c, 3, energy=osc.energy)
    close([compiled.x, compiled.energies], expected[:2], F32)
    loss = compiled.x.pow(2).cumsum(-1).sum()
    grads = torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True, materialize_grads=True)
    layer.use_compiled_step(False)
    plain_loss = layer(x, c, 3).pow(2).cumsum(-1).sum()
    wanted = torch.autograd.grad(plain_loss, list(layer.parameters()), allow_unused=True, materialize_grads=True)
    close(grads, wanted, F32)
