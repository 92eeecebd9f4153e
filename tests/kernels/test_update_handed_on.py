"""What fused steps pass on: the state as autocast would cast it, and gradients that go backward without being added up.

float16 wherever bits are compared on the CPU: Triton's interpreter cuts bfloat16 off instead of rounding.
"""

import copy

import pytest
import torch
from update_cases import with_gradients

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16


@pytest.fixture
def fused(device, monkeypatch):
    """The device on which layers take the fused update, in the interpreter if there is no GPU."""
    monkeypatch.setattr(kernels, "_interpreted", True)
    return device


COUPLINGS = {
    "dense": lambda: akn.DenseCoupling(12),
    "scalar": lambda: akn.ScalarCoupling(3, 4),
    "conv": lambda: akn.ConvCoupling(12, 3),
    "conv, channels last": lambda: akn.ConvCoupling(12, 3, symmetric=True),
    "attention": lambda: akn.AttentionCoupling(12, 1, grid=(2, 3)),
    "attention of a set": lambda: akn.AttentionCoupling(12, 2),
}


class Own(torch.nn.Module):
    """A coupling that looks at x in its own precision before it multiplies."""

    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(12, 12, bias=False)

    def forward(self, x):
        return self.map(torch.sin(30 * x))


def a_layer(kind, device, dtype=F32, **options):
    torch.manual_seed(0)
    coupling = COUPLINGS[kind]() if isinstance(kind, str) else kind
    options = {"gamma": 0.6, "learn_gamma": True, "omega": akn.PairwiseFrequency(4, init=0.5), **options}
    return akn.KuramotoLayer(12, 4, coupling, **options).to(device, dtype)


def a_state(kind, device, dtype=F32):
    generator = torch.Generator().manual_seed(1)
    shape = (2, 12, 4, 5) if isinstance(kind, str) and kind.startswith("conv") else (2, 6, 12)
    x, c = (torch.randn(*shape, generator=generator, dtype=F64).to(device, dtype) for _ in range(2))
    if kind == "conv, channels last":
        x, c = (a.contiguous(memory_format=torch.channels_last) for a in (x, c))
    return x, c


def run(layer, x, c, *, autocast=None, energy=osc.energy, steps=4, start_learns=True, compiled=False, trajectory=False):
    """The last state, the energies, and the gradients of x, c and all parameters."""
    layer = copy.deepcopy(layer)
    if compiled:
        layer.compile_step(backend="aot_eager")
    x, c = x.clone().requires_grad_(start_learns), c.clone().requires_grad_()
    with torch.autocast(x.device.type, autocast or BF16, enabled=autocast is not None):
        found = layer.evolve(x, c, steps, energy=energy, trajectory=trajectory)
    results = [*with_gradients(found, x, c, layer), found.trajectory]
    return [result for result in results if result is not None]


def close(found, expected, tolerance):
    for result, wanted in zip(found, expected, strict=True):
        assert result.dtype == wanted.dtype
        assert not result.isnan().any()
        scale = max(1.0, float(wanted.detach().abs().max()))
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture
def seen(monkeypatch):
    """What couplings are given, by a patch of their classes: a hook would change what they are given."""
    arrays = []
    for kind in (akn.DenseCoupling, akn.ScalarCoupling, akn.ConvCoupling, akn.AttentionCoupling, Own):

        def forward(self, x, plain=kind.forward):
            arrays.append(x.detach())
            return plain(self, x)

        monkeypatch.setattr(kind, "forward", forward)
    return arrays


@pytest.mark.parametrize("kind", COUPLINGS)
def test_couplings_see_what_autocast_would_make(fused, seen, kind):
    layer, (x, c) = a_layer(kind, fused), a_state(kind, fused)
    with torch.autocast(fused.type, F16):
        states = layer.evolve(x, c, 4, trajectory=True).trajectory
    assert states.dtype == F32
    assert [x.dtype for x in seen] == [F32, F16, F16, F16]  # the first state comes from elsewhere
    assert all(torch.equal(got.to(F16), state.to(F16)) for got, state in zip(seen, states, strict=False))
    if kind == "conv, channels last":
        assert all(got.is_contiguous(memory_format=torch.channels_last) for got in seen)


@pytest.mark.parametrize("autocast", [F16, pytest.param(BF16, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", COUPLINGS)
def test_not_a_bit_changes(fused, monkeypatch, kind, autocast):
    """States, energies and gradients under autocast, with the state passed on and with autocast's own casts.

    γ's gradient is one long sum: the two kernels are compiled separately, and may round its last bit differently.
    """
    from akorn.execution import step

    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    layer, (x, c) = a_layer(kind, fused), a_state(kind, fused)
    found = run(layer, x, c, autocast=autocast, trajectory=True)
    monkeypatch.setattr(step, "product_dtype", lambda layer, x: None)
    for result, wanted in zip(found, run(layer, x, c, autocast=autocast, trajectory=True), strict=True):
        if wanted.numel() == 1:
            torch.testing.assert_close(result, wanted, rtol=1e-6, atol=0)
        else:
            assert torch.equal(result, wanted)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("autocast", [None, F16, pytest.param(BF16, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", COUPLINGS)
def test_gradients_of_the_last_steps_alone(fused, kind, autocast, recompute):
    """The same as of a layer that is given the state before them; the state is passed on across the cut."""
    layer = a_layer(kind, fused, gradients=akn.LastSteps(2, akn.Recompute() if recompute else akn.Store()))
    whole, (x, c) = a_layer(kind, fused), a_state(kind, fused)
    with torch.no_grad(), torch.autocast(fused.type, autocast or BF16, enabled=autocast is not None):
        before = whole(x, c, 2)
    found = run(layer, x, c, autocast=autocast, energy=None, start_learns=False)
    wanted = run(whole, before, c, autocast=autocast, energy=None, steps=2, start_learns=False)
    close(found, wanted, 1e-4 if autocast is None else 2e-2)


def test_only_couplings_that_multiply_at_once_and_once_get_less(fused, seen):
    attentive = akn.AttentionCoupling(12, 1, position=akn.AbsolutePosition((2, 3), 12))
    hooked = akn.DenseCoupling(12)
    hooked.register_forward_pre_hook(lambda module, inputs: None)
    twice, wrapped = akn.AttentionCoupling(12, 2, symmetric=True), akn.ConvCoupling(12, 3, dims=1, periodic=True)
    for coupling in (Own(), attentive, hooked, twice, wrapped):
        layer, (x, c) = a_layer(coupling, fused), a_state("dense", fused)
        with torch.autocast(fused.type, F16):
            layer(x, c, 3)
    layer, (x, c) = a_layer("dense", fused), a_state("dense", fused)
    layer(x, c, 3)  # no autocast
    assert {x.dtype for x in seen} == {F32}
    seen.clear()
    with torch.autocast(fused.type, F16):
        a_layer("dense", fused, F16)(x.half(), c.half(), 3)
    assert {x.dtype for x in seen} == {F16}


@pytest.mark.parametrize(("kind", "steps"), [*((kind, 3) for kind in COUPLINGS), *(("dense", t) for t in (1, 2, 12))])
def test_chains(fused, monkeypatch, kind, steps):
    """Recomputed in float64: the plain form's gradients, with the gradients of x in two parts on the way."""
    layer, (x, c) = a_layer(kind, fused, F64, gradients=akn.Recompute()), a_state(kind, fused, F64)
    found = run(layer, x, c, steps=steps)
    monkeypatch.setattr(kernels, "_enabled", False)
    layer.gradients = akn.Store()
    close(found, run(layer, x, c, steps=steps), 1e-9)


@pytest.mark.parametrize("autocast", [F16, BF16])
@pytest.mark.parametrize("kind", [*COUPLINGS, "own"])
def test_chains_under_autocast(fused, kind, autocast):
    """The same values as without recomputation; those of weights it adds up in another precision."""
    kind = Own() if kind == "own" else kind
    layer, (x, c) = a_layer(kind, fused), a_state(kind, fused)
    layer.gradients = akn.Recompute()
    found = run(layer, x, c, autocast=autocast, steps=3)
    layer.gradients = akn.Store()
    expected = run(layer, x, c, autocast=autocast, steps=3)
    # In the interpreter a cast of torch's rounds bfloat16 and one of the kernel's cuts it off.
    near = autocast == F16 or fused.type == "cuda"
    close(found[:4], expected[:4], 1e-5 if near else 3e-2)
    close(found[4:], expected[4:], 1e-2 if near else 6e-2)


def own_energy(x, jx, c):
    return (x * (jx - c)).pow(3).flatten(1).sum(1)


CHANGES = {
    "published energy": {"energy": osc.published_energy},
    "no energy": {"energy": None},
    "an energy of one's own": {"energy": own_energy},
    "a matrix Ω": {"omega": akn.NaturalFrequency(4)},
    "no Ω": {"omega": None},
    "no Proj": {"rule": akn.WithoutProjection()},
    "no Proj, no Ω, no energy": {"rule": akn.WithoutProjection(), "omega": None, "energy": None},
    "fixed γ": {"learn_gamma": False},
    "fixed γ, no Ω": {"learn_gamma": False, "omega": None},
    "a start without gradient": {"start_learns": False},
    "c in time": {"in_time": True},
    "compiled": {"compiled": True},
}


@pytest.mark.parametrize("change", CHANGES)
def test_chains_of_all_kinds(fused, monkeypatch, change):
    torch._dynamo.reset()
    options = dict(CHANGES[change])
    in_time = options.pop("in_time", False)
    built = {name: options.pop(name) for name in ("omega", "rule", "learn_gamma") if name in options}
    layer, (x, c) = (
        a_layer("dense", fused, F64, gradients=akn.Recompute(), bias=True, **built),
        a_state("dense", fused, F64),
    )
    c = torch.stack([c, -c, 2 * c, c + 1]) if in_time else c
    found = run(layer, x, c, **options)
    monkeypatch.setattr(kernels, "_enabled", False)
    layer.gradients = akn.Store()
    close(found, run(layer, x, c, **{**options, "compiled": False}), 1e-9)


def test_chains_refuse_what_they_cannot_repeat(fused):
    scale = torch.ones(12, device=fused, requires_grad=True)

    class Outside(torch.nn.Module):
        def forward(self, x):
            return scale * x  # no parameter of the module

    layer, (x, c) = a_layer(Outside(), fused, gradients=akn.Recompute()), a_state("dense", fused)
    with pytest.raises(RuntimeError, match=r"shape \[12\] that is not a parameter"):
        layer(x, c, 3).sum().backward()


def test_chains_without_anything_to_learn(fused):
    """A coupling without parameters: gradients reach c, and x where it wants one."""

    class Same(torch.nn.Module):
        def forward(self, x):
            return x

    for start_learns in (False, True):
        layer, (x, c) = a_layer(Same(), fused, F64, omega=None, learn_gamma=False), a_state("dense", fused, F64)
        expected = run(layer, x, c, start_learns=start_learns)
        layer.gradients = akn.Recompute()
        close(run(layer, x, c, start_learns=start_learns), expected, 1e-9)


class Soft(torch.nn.Module):
    """A parametrisation."""

    def forward(self, values):
        return torch.nn.functional.softplus(values)


def test_chains_reach_what_gamma_is_made_of(fused, monkeypatch):
    layer, (x, c) = a_layer("dense", fused, F64, gradients=akn.Recompute()), a_state("dense", fused, F64)
    torch.nn.utils.parametrize.register_parametrization(layer, "gamma", Soft())
    found = run(layer, x, c)
    monkeypatch.setattr(kernels, "_enabled", False)
    layer.gradients = akn.Store()
    close(found, run(layer, x, c), 1e-9)


@pytest.mark.parametrize("recompute", [False, True])
def test_hooks_on_omega_run(fused, monkeypatch, recompute):
    layer, (x, c) = (
        a_layer("dense", fused, F64, gradients=akn.Recompute() if recompute else akn.Store()),
        a_state("dense", fused, F64),
    )
    layer.omega.register_forward_hook(lambda module, inputs, output: 2 * output)
    found = run(layer, x, c)
    monkeypatch.setattr(kernels, "_enabled", False)
    close(found, run(layer, x, c), 1e-9)


def test_maps_of_ones_own_see_the_state_as_it_is(fused):
    """Only nn.Linear is known to multiply its input immediately."""

    class Own(torch.nn.Linear):
        def forward(self, x):
            types.append(x.dtype)
            return super().forward(x)

    types = []
    layer, (x, c) = a_layer("attention", fused), a_state("attention", fused)
    layer.coupling.maps.qkv = Own(12, 36).to(fused)
    with torch.autocast(fused.type, F16):
        layer(x, c, 3)
    assert types == [F32] * 3
