"""The layer: the sphere, the equation, time-dependent C, compilation, and its errors."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn import nn as ann
from akorn import oscillators as osc

from .conftest import COUPLINGS, make, state

NS = [2, 3, 4, 5, 8]


@pytest.mark.parametrize("n", NS)
def test_states_stay_on_the_sphere(kind: str, n: int) -> None:
    layer, x, c = make(kind, n), state(kind, n), state(kind, n, 2)
    dim = osc.channel_axis(x)
    for after in layer.evolve(x, c, 5, trajectory=True).trajectory:
        length = osc.group(after, n, dim).norm(dim=dim)
        torch.testing.assert_close(length, torch.ones_like(length))


@pytest.mark.parametrize("n", NS)
def test_a_step_is_the_equation(kind: str, n: int) -> None:
    layer, x, c = make(kind, n), state(kind, n), state(kind, n, 2)
    dim = osc.channel_axis(x)
    x = osc.group(x, n, dim)
    x = x / x.norm(dim=dim, keepdim=True)
    y = osc.group(layer.coupling(osc.ungroup(x, dim)) + c, n, dim)
    tangent = y - (y * x).sum(dim, keepdim=True) * x
    rotation = layer.omega(x, dim)
    for part in (tangent, rotation):
        assert (part * x).sum(dim).abs().max() < 1e-12
    moved = x + 0.5 * (rotation + tangent)
    wanted = osc.ungroup(moved / moved.norm(dim=dim, keepdim=True), dim)
    torch.testing.assert_close(layer.step(osc.ungroup(x, dim), c), wanted)
    torch.testing.assert_close(layer(3 * osc.ungroup(x, dim), c, steps=1), wanted)  # x need not be normalised


def test_steps_compose(kind: str) -> None:
    layer, x, c = make(kind), state(kind), state(kind, seed=2)
    torch.testing.assert_close(layer(x, c, 5), layer(layer(x, c, 2), c, 3))


def test_a_state_on_the_sphere_need_not_be_put_there_again(kind: str) -> None:
    first, second, c = make(kind), make(kind), state(kind, seed=2)
    found = []
    for on_sphere in (False, True):
        x = state(kind).requires_grad_()
        after = second.evolve(first(x, c, 2), c, 2, on_sphere=on_sphere).x
        (gradient,) = torch.autograd.grad((after * c).sum(), x)
        found.append((after.detach(), gradient))
    for given, promised in zip(*found, strict=True):
        torch.testing.assert_close(given, promised)


def test_evolution_is_what_happened(kind: str) -> None:
    layer, x, c = make(kind), state(kind), state(kind, seed=2)
    run = layer.evolve(x, c, 4, energy=osc.energy, trajectory=True)
    assert run.trajectory.shape == (5, *x.shape)
    torch.testing.assert_close(run.trajectory[-1], run.x)
    wanted = torch.stack([layer.energy(before, c) for before in run.trajectory[:-1]])
    torch.testing.assert_close(run.energies, wanted)
    plain = layer.evolve(x, c, 4)
    assert plain.energies is None
    assert plain.trajectory is None
    torch.testing.assert_close(plain.x, run.x)


def test_c_may_change_with_time(kind: str) -> None:
    layer, x = make(kind, bias=True), state(kind)
    c = torch.stack([state(kind, seed=seed) for seed in range(3)])
    wanted = x
    for now in c:
        wanted = layer(wanted, now, 1)
    torch.testing.assert_close(layer(x, c, 3), wanted)
    torch.testing.assert_close(layer(x, lambda t: c[t], 3), wanted)
    torch.testing.assert_close(layer(x, c[:1].expand_as(c), 3), layer(x, c[0], 3))


def test_stimulus_and_bias_act_on_c() -> None:
    x, c = state("conv2d"), state("conv2d", seed=2)
    norm = ann.GroupNorm(4, 16).double()
    layer = make("conv2d", stimulus=norm, bias=True)
    layer.bias.data.normal_()
    plain = make("conv2d")
    torch.testing.assert_close(layer(x, c, 3), plain(x, norm(c) + layer.bias[:, None, None], 3))
    many = torch.stack((c, -2 * c, c + 1))
    torch.testing.assert_close(layer(x, many, 3), layer(x, lambda t: many[t], 3))


def test_hooks_on_the_stimulus_see_it_without_the_bias() -> None:
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8), stimulus=ann.GroupNorm(2, 8), bias=True)
    torch.nn.init.ones_(layer.bias)
    x, c = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    energy = layer.energy(x, c)
    layer.stimulus.register_forward_hook(lambda module, inputs, output: 0 * output)
    torch.testing.assert_close(layer.energy(x, c), osc.energy(x, layer.coupling(x), torch.ones_like(c)))
    assert not torch.allclose(layer.energy(x, c), energy)


@pytest.mark.parametrize("kind", ["attention-gta", "conv2d"])
def test_rules_are_the_ablations(kind: str) -> None:
    x, c = state(kind), state(kind, seed=2)
    dim = osc.channel_axis(x)
    free = make(kind, rule=ann.Residual())
    change = 0.5 * (free.coupling(x) + c + osc.ungroup(free.omega(osc.group(x, 4, dim), dim), dim))
    torch.testing.assert_close(free(x, c, 1), x + change)
    sphere = make(kind, rule=ann.WithoutProjection())
    start = osc.ungroup(osc.normalize(osc.group(x, 4, dim), dim), dim)
    wanted = osc.ungroup(osc.normalize(osc.group(free(start, c, 1), 4, dim), dim), dim)
    torch.testing.assert_close(sphere(x, c, 1), wanted)
    assert not torch.allclose(sphere(x, c, 1), make(kind)(x, c, 1))


@pytest.mark.parametrize("rule", [ann.Kuramoto(), ann.WithoutProjection()])
def test_a_damped_layer_adds_its_state_in_place_of_the_rotation(rule: ann.UpdateRule) -> None:
    x, c = state("conv2d"), state("conv2d", seed=2)
    layer = make("conv2d", omega=None, gamma=0.5, learn_gamma=True, damped=True, rule=rule)
    dim = osc.channel_axis(x)
    x = osc.normalize(osc.group(x, 4, dim), dim)
    force = osc.group(layer.coupling(osc.ungroup(x, dim)) + c, 4, dim)
    wanted = rule.step(x, force, x, torch.tensor(0.5), dim)  # x where Ωx would be
    torch.testing.assert_close(layer(osc.ungroup(x, dim), c, 1), osc.ungroup(wanted, dim))
    assert "damped" in repr(layer)
    with pytest.raises(ValueError, match="without Ω"):
        make("conv2d", damped=True)


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("kind", ["dense", "sparse-blocks", "conv1d", "conv2d", "attention-gta"])
def test_gradients(kind: str, n: int) -> None:
    layer = make(kind, n, learn_gamma=True, bias=True)
    x, c = state(kind, n)[:1].requires_grad_(), state(kind, n, 2)[:1].requires_grad_()

    def run(x: torch.Tensor, c: torch.Tensor, gamma: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = torch.func.functional_call(layer, {"gamma": gamma}, (x, c, 2))
        return (result,)

    assert torch.autograd.gradcheck(run, (x, c, layer.gamma), fast_mode=True)
    weights = torch.linspace(0, 1, x.numel(), dtype=torch.float64).reshape(x.shape)
    (layer(x, c, 2) * weights).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_saving_a_compiled_layer_and_numpy_steps(tmp_path: Path) -> None:
    layer, x, c = make("dense"), state("dense"), state("dense", seed=2)
    layer.compile_step(backend="aot_eager")
    torch.save(layer, tmp_path / "layer.pt")
    again = torch.load(tmp_path / "layer.pt", weights_only=False)
    torch.testing.assert_close(again(x, c, np.int64(2)), layer(x, c, 2))


def test_the_state_keeps_its_type_under_autocast(kind: str) -> None:
    layer = make(kind).float()
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(state(kind).to(dtype), state(kind, seed=2).to(dtype), 2).dtype == dtype


def test_vmap_and_meta() -> None:
    layer, x, c = make("dense"), state("dense"), state("dense", seed=2)
    many = torch.func.vmap(lambda x, c: layer(x, c, 2))(torch.stack((x, c)), torch.stack((c, x)))
    torch.testing.assert_close(many[0], layer(x, c, 2))
    nowhere = layer.to("meta")
    assert nowhere(x.to("meta"), c.to("meta"), 2).shape == x.shape
    assert "gamma=?" in repr(nowhere)


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_step_compiles_without_a_break(kind: str, symmetric: bool) -> None:
    layer, x, c = make(kind, symmetric=symmetric), state(kind), state(kind, seed=2)
    x = layer(x, c, 1)
    torch.compiler.reset()
    compiled = torch.compile(layer.step, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, c), layer.step(x, c))
    layer.compile_step(backend="aot_eager")
    x = x.detach().clone().requires_grad_()
    result = layer.evolve(x, c, 3, energy=osc.energy)
    result.energies.sum().backward()
    layer.use_compiled_step(False)
    again = x.detach().clone().requires_grad_()
    wanted = layer.evolve(again, c, 3, energy=osc.energy)
    wanted.energies.sum().backward()
    torch.testing.assert_close(result.x, wanted.x)
    torch.testing.assert_close(x.grad, again.grad)


def test_a_single_step_is_the_compiled_one() -> None:
    torch._dynamo.reset()
    layer = ann.KuramotoLayer(8, 4, ann.DenseCoupling(8))
    x, c, runs = torch.randn(2, 8), torch.randn(2, 8), []
    expected = layer.step(x, c)
    layer.compile_step(backend=lambda graph, _: runs.append(graph) or graph.forward)
    torch.testing.assert_close(layer.step(x, c), expected)
    assert len(runs) == 1


def test_a_copy_of_a_compiled_layer_has_its_own_weights() -> None:
    layer, x, c = make("dense"), state("dense"), state("dense", seed=2)
    torch.compiler.reset()
    layer.compile_step(backend="aot_eager")
    layer(x, c, 2)
    other = copy.deepcopy(layer)
    other.coupling.free_weight.data.zero_()
    got = other(x, c, 2)
    other.use_compiled_step(False)
    torch.testing.assert_close(got, other(x, c, 2))
    assert not torch.allclose(got, layer(x, c, 2))


@pytest.mark.slow
def test_the_default_compiler_agrees() -> None:
    layer, x, c = (
        make("attention-gta").float(),
        state("attention-gta").float(),
        state("attention-gta", seed=2).float(),
    )
    wanted = layer(x, c, 4)
    torch.compiler.reset()
    layer.compile_step()
    torch.testing.assert_close(layer(x, c, 4), wanted)


def test_oscillators_compile_without_a_break() -> None:
    def everything(x: torch.Tensor, y: torch.Tensor, omega: torch.Tensor) -> tuple[torch.Tensor, ...]:
        u = osc.normalize(osc.group(x, 3, -3), -3)
        z = osc.project(osc.group(y, 3, -3), u, -3) + osc.rotate(u, omega, -3)
        return osc.ungroup(z, -3), osc.energy(x, y, y), osc.published_energy(x, y, y), osc.order_parameter(u, -3)

    x, y, omega = torch.randn(2, 12, 4, 4), torch.randn(2, 12, 4, 4), torch.randn(3, 3)
    torch.compiler.reset()
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")
    for got, wanted in zip(compiled(x, y, omega), everything(x, y, omega), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_is_close(kind: str, dtype: torch.dtype) -> None:
    layer, x, c = make(kind), state(kind), state(kind, seed=2)
    wanted = layer(x, c, 3)
    got = layer.to(dtype)(x.to(dtype), c.to(dtype), 3)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), wanted, atol=1e-4 if dtype == torch.float32 else 0.15, rtol=0)


def test_autocast_keeps_the_state_in_float32() -> None:
    layer, x, c = (
        make("attention-gta").float(),
        state("attention-gta").float(),
        state("attention-gta", seed=2).float(),
    )
    with torch.autocast("cpu", torch.bfloat16):
        run = layer.evolve(x, c, 3, energy=osc.energy)
    assert run.x.dtype == run.energies.dtype == torch.float32
    torch.testing.assert_close(run.x, layer(x, c, 3), atol=0.1, rtol=0)


def test_gamma_is_learned_only_if_asked() -> None:
    assert "gamma" not in dict(make("dense").named_parameters())
    assert "gamma" in dict(make("dense").named_buffers())
    assert "gamma" in dict(make("dense", learn_gamma=True).named_parameters())


def with_dense(**options: object) -> ann.KuramotoLayer:
    return ann.KuramotoLayer(**{"channels": 16, "n": 4, "coupling": ann.DenseCoupling(16)} | options)


def test_gamma_may_be_a_tensor_of_one_number() -> None:
    for gamma in (torch.tensor(0.5, dtype=torch.float64), torch.full((1,), 0.5), torch.tensor(0.5, device="meta")):
        layer = with_dense(gamma=gamma)
        assert layer.gamma.shape == gamma.shape
        assert layer.gamma.dtype == gamma.dtype


X = torch.zeros(2, 6, 16)
BAD = {
    "omega a number": (lambda: with_dense(omega=0.5), "omega must be a module such as NaturalFrequency or None.* 0.5"),
    "omega a tensor": (lambda: with_dense(omega=torch.zeros(4, 4)), r"omega must be.*a tensor of shape \[4, 4\]"),
    "no coupling": (lambda: with_dense(coupling=None), "coupling must be a module that maps.*got None"),
    "a coupling's class": (lambda: with_dense(coupling=ann.DenseCoupling), "coupling must be.*the class DenseCoupling"),
    "a rule's class": (lambda: with_dense(rule=ann.Residual), r"rule must be an UpdateRule.*instantiate it"),
    "stimulus a number": (lambda: with_dense(stimulus=1.0), "stimulus must be a module such as GroupNorm or None"),
    "many gammas": (lambda: with_dense(gamma=torch.ones(16)), r"gamma must be a single number.* shape \[16\]"),
    "gamma NaN": (lambda: with_dense(gamma=float("nan")), "gamma must be finite, got nan"),
    "gamma infinite": (lambda: with_dense(gamma=torch.tensor(torch.inf)), "gamma must be finite, got inf"),
    "no gamma": (lambda: with_dense(gamma=None), "gamma must be a single number, got None"),
    "n a fraction": (lambda: with_dense(n=4.0), "n must be a whole number, got 4.0"),
    "channels a fraction": (lambda: with_dense(channels=16.0), "channels must be a whole number, got 16.0"),
    "channels not divisible by n": (lambda: ann.KuramotoLayer(10, 4, ann.DenseCoupling(10)), "10 channels.*n=4"),
    "n below 2": (lambda: ann.KuramotoLayer(10, 1, ann.DenseCoupling(10)), "at least 2.*n=1"),
    "no steps": (lambda: make("dense-tokens")(X, X, 0), "at least 1, got 0"),
    "half a step": (lambda: make("dense-tokens")(X, X, 1.5), "whole number, got 1.5"),
    "steps not a number": (lambda: make("dense-tokens")(X, X, "4"), "whole number, got '4'"),
    "other channels": (lambda: make("dense-tokens")(X[..., :8], X[..., :8], 1), "16 channels.* has 8"),
    "x and c differ": (lambda: make("dense-tokens")(X, X[:1], 1), r"shape of x, \[2, 6, 16\].*got \[1, 6, 16\]"),
    "too few c in time": (lambda: make("dense-tokens")(X, X.expand(2, 2, 6, 16), 3), "each of the 3 steps"),
    "NaN": (lambda: make("dense-tokens")(X * float("nan"), X, 1), "x of shape.*192 NaN or infinite values"),
    "infinite c": (lambda: make("dense-tokens")(X, X + torch.inf, 1), "c of shape.*192 NaN or infinite values"),
    "whole numbers": (lambda: make("dense-tokens")(X.long(), X, 1), "floating-point type, got torch.int64"),
    "True steps": (lambda: make("dense-tokens")(X, X, True), "whole number, got True"),
    "no c": (lambda: make("dense-tokens")(X, None, 1), "c must be a tensor, or a function of the step, got None"),
    "an array of NumPy": (lambda: make("dense-tokens")(X.numpy(), X, 1), "x must be a tensor, got ndarray"),
    "float64 x, float32 weights": (
        lambda: ann.KuramotoLayer(16, 4, ann.AttentionCoupling(16, 2))(X.double(), X.double(), 1),
        r"x has the type torch.float64, but the weights have torch.float32: .*x.to\(torch.float32\)",
    ),
    "x on another device": (
        lambda: make("dense-tokens")(X.double().to("meta"), X.double(), 1),
        r'x has the device meta, but the weights have cpu: .*x.to\("cpu"\)',
    ),
    "energy not a function": (
        lambda: make("dense-tokens").evolve(X, X, 1, energy=True),
        "energy must be a function such as akorn.oscillators.energy, got True",
    ),
    "c(t) forgets to return": (lambda: make("dense-tokens")(X, lambda t: None, 1), "c at step 0 must be a tensor"),
    "gamma a word": (lambda: with_dense(gamma="1"), "gamma must be a single number, got '1'"),
    "coupling returns nothing": (
        lambda: ann.KuramotoLayer(16, 4, lambda x: None)(X, X, 1),
        r"maps a state of shape \[2, 6, 16\] to NoneType, not to a tensor",
    ),
    "c(t) of another shape": (lambda: make("dense-tokens")(X, lambda t: X[:1], 1), r"c at step 0 has the shape \[1"),
    "coupling of another width": (
        lambda: make("dense", omega=None) and ann.KuramotoLayer(8, 4, ann.DenseCoupling(16)),
        "coupling is for 16 channels, but the layer has 8",
    ),
    "coupling of another n": (lambda: ann.KuramotoLayer(16, 4, ann.ScalarCoupling(8, 2)), "coupling has n=2"),
    "omega of another n": (
        lambda: make("dense", omega=ann.NaturalFrequency(3)),
        "omega has n=3, but the layer has n=4",
    ),
    "omega of others": (lambda: make("dense", omega=ann.NaturalFrequency(4, 3)), "for 3 oscillators.* are 4"),
    "coupling of another shape": (
        lambda: ann.KuramotoLayer(16, 4, torch.nn.Linear(16, 8))(X, X, 1),
        r"the coupling maps a state of shape \[2, 6, 16\] to \[2, 6, 8\]",
    ),
    "recompute with a function": (
        lambda: make("dense-tokens", gradients=ann.Recompute())(X.double(), lambda t: X.double(), 2),
        r"gradients=Recompute\(\) needs c as an array",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_other_errors_of_torch_stay_as_they_are() -> None:
    """The types differ, which this coupling allows: what fails in it has another reason."""

    class Failing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("the file of my own is locked")

    with pytest.raises(RuntimeError, match="locked"):
        ann.KuramotoLayer(16, 4, Failing())(X.double(), X.double(), 1)


def test_forward_mode_through_attention() -> None:
    """Torch's fused attention has no forward-mode derivatives; they agree with central differences."""
    layer = ann.KuramotoLayer(16, 4, ann.AttentionCoupling(16, 2), gamma=0.3).double()
    x, c, v = torch.randn(3, 2, 6, 16, dtype=torch.float64)
    moved = torch.func.jvp(lambda x: layer(x, c, 3), (x,), (v,))[1]
    expected = (layer(x + 1e-5 * v, c, 3) - layer(x - 1e-5 * v, c, 3)) / 2e-5
    torch.testing.assert_close(moved, expected, atol=1e-7, rtol=1e-5)


def test_any_module_of_the_right_shape_is_a_coupling() -> None:
    layer = ann.KuramotoLayer(
        16, 4, torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))
    )
    assert layer(torch.randn(2, 16), torch.randn(2, 16), 3).shape == (2, 16)


def test_every_kind_is_tested() -> None:
    exported = {getattr(ann, name) for name in ann.__all__ if name.endswith("Coupling")}
    assert {type(make(kind).coupling) for kind in COUPLINGS} == exported
