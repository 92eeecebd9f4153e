"""T steps as one operator under torch.compile: the same values and gradients, in graphs that do not grow with T."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from compiled_layers import COUPLINGS, F32, Graphs, a_layer, agree, arrays, last, results
from torch import Tensor, nn
from torch.nn.utils import parametrize

from akorn import nn as ann
from akorn import oscillators as osc
from akorn.execution.recompute import kept_states, planned

pytestmark = pytest.mark.usefixtures("forget_compiled")


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
    """Steps use the parameters of the call, not those that the layer holds when they run."""
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


def test_how_many_states_are_kept() -> None:
    for steps in range(1, 60):
        for snapshots in range(1, 12):
            assert len(planned(steps, snapshots)) == kept_states(steps, snapshots)


def test_no_second_derivatives() -> None:
    layer, (x, c) = a_layer(), arrays()
    c.requires_grad_()
    last = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, c, 3)

    def twice() -> None:
        (grad,) = torch.autograd.grad(last.square().sum(), c, create_graph=True)
        grad.sum().backward()

    with pytest.raises(RuntimeError, match=r"double backward|create_graph"):  # torch's own words
        twice()
