"""T steps as one operator under torch.compile: the same values and gradients, in graphs that do not grow with T."""

import copy
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from akorn import kernels
from akorn import nn as ann
from akorn import oscillators as osc
from akorn.execution import operator
from akorn.execution.recompute import kept_states, planned

F32, F64 = torch.float32, torch.float64


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch.compiler.reset()


class Own(nn.Module):
    """A coupling of one's own, with a parameter, a buffer and a shape of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Linear(channels, 2 * channels)
        self.outer = nn.Linear(2 * channels, channels)
        self.register_buffer("scale", torch.full((channels,), 0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.outer(torch.tanh(self.inner(x)))


COUPLINGS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "dense": (lambda: ann.DenseCoupling(16), (2, 16)),
    "own": (lambda: Own(16), (2, 5, 16)),
    "conv": (lambda: ann.ConvCoupling(16, 3), (2, 16, 4, 5)),
    "attention": (lambda: ann.AttentionCoupling(16, 2, grid=(2, 3)), (2, 6, 16)),
    "sparse": (lambda: ann.SparseCoupling(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3, 4, torch.randn(3)), (2, 3, 16)),
}


def a_layer(kind: str = "dense", dtype: torch.dtype = F64, **options: Any) -> ann.KuramotoLayer:
    torch.manual_seed(0)
    options = {"omega": ann.NaturalFrequency(4), "gamma": 0.5, "learn_gamma": True, "bias": True} | options
    return ann.KuramotoLayer(16, 4, COUPLINGS[kind][0](), **options).to(dtype)


def arrays(kind: str = "dense", dtype: torch.dtype = F64, batch: int | None = None) -> tuple[Tensor, Tensor]:
    shape = COUPLINGS[kind][1]
    shape = shape if batch is None else (batch, *shape[1:])
    generator = torch.Generator().manual_seed(1)
    x, c = (torch.randn(shape, generator=generator, dtype=F64).to(dtype) for _ in range(2))
    return x, c


def results(layer: nn.Module, call: Callable[..., Any], x: Tensor, c: Tensor) -> list[Tensor]:
    """States and energies, and the gradients of x, c and all parameters."""
    layer.zero_grad()
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    found = [part for part in call(x, c) if part is not None]
    loss = sum((part * torch.linspace(-1, 1, part.numel()).to(part).view(part.shape)).sum() for part in found)
    loss.backward()  # type: ignore[union-attr]
    grads = [x.grad, c.grad, *(p.grad for p in layer.parameters())]
    return [part.detach() for part in found] + [torch.zeros(()) if g is None or not g.any() else g for g in grads]


def agree(layer: ann.KuramotoLayer, x: Tensor, c: Tensor, steps: int = 5, backend: Any = "aot_eager", **options: Any):
    """The same with and without the compiler, which makes one graph of it."""

    def call(x: Tensor, c: Tensor) -> tuple[Tensor | None, ...]:
        return layer.evolve(x, c, steps, **options)[:2]

    expected = results(layer, call, x, c)
    found = results(layer, torch.compile(call, fullgraph=True, backend=backend), x, c)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def last(layer: ann.KuramotoLayer, steps: int, x: Tensor, c: Tensor) -> tuple[Tensor]:
    return (layer(x, c, steps),)


class Graphs:
    """A backend that counts the nodes of the graphs it is given, forward and backward."""

    def __init__(self) -> None:
        self.traced: list[list[str]] = []
        self.lowered: list[list[str]] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        self.traced.append([str(node.target) for node in graph.graph.nodes])

        def lower(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            self.lowered.append([str(node.target) for node in graph.graph.nodes])
            return graph

        return aot_autograd(fw_compiler=lower)(graph, inputs)


@pytest.mark.parametrize("gradients", [ann.Store(), ann.Recompute(), ann.LastSteps(1)])
def test_the_graph_does_not_grow_with_the_steps(gradients: ann.Gradients) -> None:
    sizes = []
    for steps in (2, 64):
        torch.compiler.reset()
        graphs, layer = Graphs(), a_layer("attention", gradients=gradients)
        call = partial(last, layer, steps)
        results(layer, torch.compile(call, fullgraph=True, backend=graphs), *arrays("attention"))
        assert len(graphs.traced) == 1
        assert len(graphs.lowered) == 2  # forward and backward
        operators = [target for graph in graphs.lowered for target in graph if "akorn.steps" in target]
        assert operators[-1] == "akorn.steps_backward.default"
        assert len(operators) == (3 if isinstance(gradients, ann.LastSteps) else 2)
        sizes.append([len(graph) for graph in (*graphs.traced, *graphs.lowered)])
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("kind", COUPLINGS)
@pytest.mark.parametrize("energy", [None, osc.energy, osc.published_energy])
def test_values_and_gradients_are_those_without_the_compiler(kind: str, energy: Any) -> None:
    agree(a_layer(kind), *arrays(kind), energy=energy)


@pytest.mark.parametrize(
    "gradients", [ann.Recompute(), ann.Recompute(1), ann.LastSteps(2), ann.LastSteps(2, ann.Recompute(1))]
)
def test_all_ways_of_gradients(gradients: ann.Gradients) -> None:
    agree(a_layer("attention", gradients=gradients), *arrays("attention"), steps=11, energy=osc.energy)
    agree(a_layer("attention", gradients=gradients).eval(), *arrays("attention"), steps=3)


OPTIONS = {
    "no omega": {"omega": None},
    "damped": {"omega": None, "damped": True},
    "pairs": {"omega": ann.PairwiseFrequency(4)},
    "fixed gamma": {"learn_gamma": False},
    "residual": {"rule": ann.Residual()},
    "stimulus": {"stimulus": ann.GroupNorm(4, 16)},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_all_kinds_of_layers(case: str) -> None:
    agree(a_layer("conv", **copy.deepcopy(OPTIONS[case])), *arrays("conv"))


@pytest.mark.parametrize("gradients", [ann.Store(), ann.LastSteps(2)])
def test_a_stimulus_for_each_step(gradients: ann.Gradients) -> None:
    x, c = arrays()
    agree(a_layer(gradients=gradients), x, torch.stack([c, -c, 2 * c, c + 1]), steps=4, energy=osc.energy)


def test_channels_last_stay_last() -> None:
    x, c = (array.contiguous(memory_format=torch.channels_last) for array in arrays("conv"))
    layer = a_layer("conv")
    agree(layer, x, c)
    last = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, c, 3)
    assert last.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
def test_by_inductor() -> None:
    agree(a_layer("conv"), *arrays("conv"), backend="inductor", energy=osc.energy)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast_is_that_of_the_call(backend: str) -> None:
    """Not that of the compiled graph, in which it is off."""
    layer, (x, c) = a_layer("own", F32), arrays("own", F32)
    seen: list[torch.dtype] = []
    layer.coupling.inner.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))

    def call(x: Tensor, c: Tensor) -> tuple[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            return (layer(x, c, 4),)

    expected = results(layer, call, x, c)
    found = results(layer, torch.compile(call, fullgraph=True, backend=backend), x, c)
    assert set(seen) == {torch.bfloat16}
    assert found[0].dtype == expected[0].dtype == F32
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)  # weights' gradients are added up in other types
    seen.clear()
    compiled = torch.compile(lambda x, c: layer(x, c, 4), fullgraph=True, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):  # around the call
        assert torch.equal(compiled(x, c), expected[0])
    assert set(seen) == {torch.bfloat16}
    seen.clear()
    compiled(x, c)
    assert set(seen) == {F32}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_state_is_kept(mode: Callable[[], Any]) -> None:
    layer, (x, c) = a_layer(), arrays()
    graphs: list[Any] = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.extend(node for node in graph.graph.nodes if "akorn.steps" in str(node.target))
        return graph

    with mode():
        found = torch.compile(layer, fullgraph=True, backend=keep)(x, c, 7)
        torch.testing.assert_close(found, layer(x, c, 7))
    assert graphs[0].args[5] == 0  # snapshots


def test_parametrised_and_frozen_parameters() -> None:
    class Soft(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return nn.functional.softplus(values)

    layer = a_layer("attention")
    parametrize.register_parametrization(layer, "gamma", Soft())
    parametrize.register_parametrization(layer.coupling.maps.output, "weight", Soft())
    layer.coupling.maps.qkv.requires_grad_(False)
    agree(layer, *arrays("attention"), energy=osc.energy)
    layer.requires_grad_(False)
    agree(layer, *arrays("attention"))


def test_parameters_that_are_handed_over() -> None:
    """Steps go by the parameters of the call, not by those that the layer holds when they run."""
    layer, (x, c) = a_layer(), arrays()
    others = {name: 1.5 * value.detach() for name, value in layer.named_parameters()}

    def call(x: Tensor, c: Tensor, others: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, others, (x, c, 4))

    found = torch.compile(call, fullgraph=True, backend="aot_eager")(x, c, others)
    torch.testing.assert_close(found, call(x, c, others))
    assert not torch.allclose(found, layer(x, c, 4))


def test_networks_of_several_layers_train_alike() -> None:
    """A few steps of an optimiser: the same losses, by one compilation."""

    def net() -> nn.Module:
        torch.manual_seed(0)
        blocks = [
            ann.KuramotoBlock(ann.KuramotoLayer(16, 4, ann.ConvCoupling(16, 3)), ann.Readout(16)) for _ in range(3)
        ]
        return ann.KuramotoStack.with_group_norm(blocks).double()

    x, c = arrays("conv")
    losses, graphs = [], Graphs()
    for backend in (None, graphs):
        model = net()
        call = model if backend is None else torch.compile(model, fullgraph=True, backend=backend)
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        found = []
        for _ in range(4):
            optimiser.zero_grad()
            loss = call(x, c, 6)[1].square().mean()
            loss.backward()
            optimiser.step()
            found.append(float(loss.detach()))
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert losses[0][-1] < losses[0][0]
    assert [sum("akorn.steps" in target for target in graph) for graph in graphs.lowered] == [3, 3]


def test_other_batches_are_not_compiled_each_anew() -> None:
    layer, graphs = a_layer(), Graphs()
    compiled = torch.compile(layer, fullgraph=True, backend=graphs)
    for batch in (2, 3, 5, 8, 13):
        x, c = arrays(batch=batch)
        torch.testing.assert_close(compiled(x, c, 4), layer(x, c, 4))
    assert len(graphs.traced) <= 2  # one size, then any


@pytest.mark.parametrize("gradients", [ann.Store(), ann.Recompute(3)])
def test_other_numbers_of_steps_are_not_compiled_each_anew(gradients: ann.Gradients) -> None:
    layer, graphs, (x, c) = a_layer(gradients=gradients), Graphs(), arrays()
    c.requires_grad_()
    compiled = torch.compile(layer, fullgraph=True, backend=graphs)
    for steps in (4, 6, 9, 7, 12, 20):
        (found,) = torch.autograd.grad(compiled(x, c, steps).pow(3).sum(), c)
        (expected,) = torch.autograd.grad(layer(x, c, steps).pow(3).sum(), c)
        torch.testing.assert_close(found, expected)
    assert len(graphs.lowered) <= 4  # one number, then any


def test_how_many_states_are_kept() -> None:
    for steps in range(1, 60):
        for snapshots in range(1, 12):
            assert len(planned(steps, snapshots)) == kept_states(steps, snapshots)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are used, in Triton's interpreter on a CPU; a list that grows with every fused update."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from akorn.execution import fused_step

    calls: list[str] = []

    def counted(name: str) -> None:
        run = getattr(fused_step, name)
        monkeypatch.setattr(fused_step, name, lambda *a, **k: (calls.append(name), run(*a, **k))[1])

    for name in ("update", "update_twice", "launch_backward"):
        counted(name)
    monkeypatch.setattr(kernels, "_interpreted", True)
    return calls


@pytest.mark.parametrize("last_in_memory", [False, True])
@pytest.mark.parametrize("kind", ["own", "conv", "attention"])
def test_kernels_run_inside(kind: str, last_in_memory: bool, fused: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, with the values of the plain form; that they are switched off is seen at once."""
    dtype = F32 if kind == "attention" else F64
    layer, graphs, (x, c) = a_layer(kind, dtype, omega=ann.PairwiseFrequency(4)), Graphs(), arrays(kind, dtype)
    if last_in_memory:
        if kind != "conv":
            pytest.skip("no pictures")
        x, c = (array.contiguous(memory_format=torch.channels_last) for array in (x, c))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer, x, c = layer.to(device), x.to(device), c.to(device)
    compiled = torch.compile(partial(last, layer, 3), fullgraph=True, backend=graphs)
    found = results(layer, compiled, x, c)
    assert fused == ["update"] * 3 + ["launch_backward"] * 3
    monkeypatch.setattr(kernels, "_enabled", False)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == F32 else {"rtol": 1e-9, "atol": 1e-10}
    expected = results(layer, partial(last, layer, 3), x, c)
    torch.testing.assert_close(found, expected, **near)
    assert found[0].stride() == x.stride()
    torch.testing.assert_close(results(layer, compiled, x, c), expected, **near)
    assert len(fused) == 6


def test_states_are_handed_on_inside(fused: list[str]) -> None:
    """Under autocast the fused update also writes the state in the type that the next step multiplies."""
    layer, (x, c) = a_layer("dense", F32, omega=None), arrays(dtype=F32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layer, x, c = layer.to(device), x.to(device), c.to(device)

    def call(x: Tensor, c: Tensor) -> tuple[Tensor]:
        with torch.autocast(device, torch.float16):
            return (layer(x, c, 3),)

    expected = results(layer, call, x, c)
    fused.clear()
    found = results(layer, torch.compile(call, fullgraph=True, backend="aot_eager"), x, c)
    assert fused == ["update_twice"] * 2 + ["update"] + ["launch_backward"] * 3
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


class Noisy(nn.Module):
    """Draws random numbers in a way that no one knows of."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class Counting(nn.Module):
    """Changes a buffer in a way that no one knows of."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


@pytest.mark.parametrize(("coupling", "why"), [(Noisy, "cannot draw random numbers"), (Counting, "change buffers")])
def test_what_cannot_be_repeated_is_refused_or_unrolled(coupling: type[nn.Module], why: str) -> None:
    layer, (x, c) = ann.KuramotoLayer(16, 4, coupling()), arrays(dtype=F32)
    with pytest.raises(ValueError, match=why):
        torch.compile(layer, backend="aot_eager", fullgraph=True)(x, c, 3)
    layer.one_operator = False
    assert torch.compile(layer, backend="aot_eager", fullgraph=True)(x, c, 3).shape == x.shape


def test_dropout_is_unrolled_in_training() -> None:
    drops = nn.Sequential(ann.DenseCoupling(16), nn.Dropout(0.5))
    layer, (x, c) = ann.KuramotoLayer(16, 4, drops), arrays(dtype=F32)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert not torch.equal(compiled(x, c, 3), compiled(x, c, 3))
    layer.eval()
    torch.testing.assert_close(compiled(x, c, 3), layer(x, c, 3))


@pytest.mark.slow
def test_what_is_unrolled_is_right() -> None:
    """A trajectory, an energy of one's own, C as a function of the step."""

    def own(x: Tensor, jx: Tensor, c: Tensor) -> Tensor:
        return (x * (jx - c)).flatten(1).sum(1)

    layer, (x, c) = a_layer(), arrays()
    agree(layer, x, c, steps=3, energy=own)
    compiled = torch.compile(lambda x, c: layer.evolve(x, c, 3, trajectory=True).trajectory, backend="aot_eager")
    torch.testing.assert_close(compiled(x, c), layer.evolve(x, c, 3, trajectory=True).trajectory)
    compiled = torch.compile(lambda x, c: layer(x, lambda t: t * c, 3), backend="aot_eager")
    torch.testing.assert_close(compiled(x, c), layer(x, lambda t: t * c, 3))


def test_function_transforms_are_unrolled() -> None:
    layer, (x, c) = a_layer(), arrays()
    each = torch.compile(torch.vmap(lambda x, c: layer(x[None], c[None], 3)[0]), backend="aot_eager")
    torch.testing.assert_close(each(x, c), layer(x, c, 3))


def test_exported_programs_have_no_operator_of_ours() -> None:
    layer, (x, c) = a_layer(), arrays()
    program = torch.export.export(layer, (x, c, 3))
    assert not any("akorn" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x, c, 3), layer(x, c, 3))


def test_layers_of_one_kind_share_what_was_compiled() -> None:
    """More layers than the compiler would compile for."""
    graphs, (x, c) = Graphs(), arrays()
    for scale in range(1, 11):
        layer = a_layer()
        with torch.no_grad():
            layer.coupling.free_weight.mul_(scale)
        found = results(layer, torch.compile(partial(last, layer, 3), fullgraph=True, backend=graphs), x, c)
        torch.testing.assert_close(found, results(layer, partial(last, layer, 3), x, c))
    assert len(graphs.lowered) <= 4


def test_copies_are_layers_of_their_own() -> None:
    layer, (x, c) = a_layer(), arrays()
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.coupling.free_weight.mul_(2)
    for each in (layer, other):
        found = torch.compile(each, backend="aot_eager", fullgraph=True)(x, c, 3)
        torch.testing.assert_close(found, each(x, c, 3))


def test_layers_are_not_kept_alive() -> None:
    gc.collect()
    before = len(operator._layers)
    layer = a_layer()
    assert len(operator._layers) == before + 1
    del layer
    gc.collect()
    assert len(operator._layers) == before


def test_no_second_derivatives() -> None:
    layer, (x, c) = a_layer(), arrays()
    c.requires_grad_()
    last = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, c, 3)

    def twice() -> None:
        (grad,) = torch.autograd.grad(last.square().sum(), c, create_graph=True)
        grad.sum().backward()

    with pytest.raises(RuntimeError, match=r"double backward|create_graph"):  # torch's own words
        twice()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["conv", "attention", "own"])
@pytest.mark.parametrize("gradients", [ann.Store(), ann.Recompute(2), ann.LastSteps(2)])
@pytest.mark.parametrize("autocast", [False, True])
def test_in_cuda_graphs_of_the_compiler(kind: str, gradients: ann.Gradients, autocast: bool) -> None:
    """mode="reduce-overhead": training goes as without the compiler, with other values in every replay."""
    losses = []
    for compiled in (False, True):
        layer = a_layer(kind, F32, gradients=gradients).cuda()

        def call(x: Tensor, c: Tensor, layer: ann.KuramotoLayer = layer) -> Tensor:
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                evolution = layer.evolve(x, c, 5, energy=osc.energy)
            return evolution.x.square().cumsum(-1).mean() + evolution.energies.float().mean()

        run = torch.compile(call, mode="reduce-overhead", fullgraph=True) if compiled else call
        optimiser = torch.optim.SGD(layer.parameters(), 1e-2)
        found = []
        for step in range(6):
            x, c = (array.cuda() * (1 + step) for array in arrays(kind, F32))
            loss = run(x, c)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            found.append(float(loss.detach()))
        losses.append(found)
    largest = max(map(abs, losses[0]))  # energies of both signs cancel, bf16's rounding does not
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=3e-2 * largest if autocast else 0.0)
    assert len(set(losses[0])) == 6
