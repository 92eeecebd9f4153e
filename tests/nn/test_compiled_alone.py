"""A step is compiled for one layer: others of the same class neither use up its limit nor share its sizes."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from akorn import nn as ann
from akorn.baselines import EnergyTransformer
from akorn.baselines.attention import ItrSABlock


class Steps(nn.Module):
    """A Kuramoto layer on tokens, called as the baselines are."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer = ann.KuramotoLayer(channels, 4, ann.DenseCoupling(channels))

    def compile_step(self, **options: object) -> None:
        self.layer.compile_step(**options)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        return self.layer(x, x, steps)


KINDS: dict[str, Callable[[int], nn.Module]] = {
    "layer": Steps,
    "iterated block": lambda channels: ItrSABlock(channels, 2),
    "energy transformer": lambda channels: EnergyTransformer(channels, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_layer_has_its_own_limit_of_compilations(kind: str) -> None:
    torch.compiler.reset()
    with torch._dynamo.config.patch(recompile_limit=4):
        for channels in (4, 8, 12, 16, 20):  # in and out of training: more than 4 in all
            model = KINDS[kind](channels)
            x = torch.randn(2, 3, channels)
            wanted = model(x, 2)
            model.compile_step(backend="eager")
            with torch.no_grad():
                torch.testing.assert_close(model(x, 2), wanted)
            model(x, 3).square().sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_one_layer_do_not_matter_to_another(kind: str) -> None:
    """The second has other sizes than the first, so with a record shared by both it would be compiled for any."""
    torch.compiler.reset()
    graphs: list[torch.fx.GraphModule] = []
    for tokens in (3, 5):
        model = KINDS[kind](8)
        model.compile_step(backend=lambda graph, _: graphs.append(graph) or graph.forward)
        with torch.no_grad():
            model(torch.randn(2, tokens, 8), 2)
    inputs = [node for graph in graphs for node in graph.graph.nodes if node.op == "placeholder"]
    assert len(graphs) == 2
    assert not any("Sym" in node.type.__name__ for node in inputs if isinstance(node.type, type))


@pytest.mark.parametrize("kind", ["iterated block", "energy transformer"])
def test_a_copy_of_a_compiled_baseline_has_its_own_weights(kind: str) -> None:
    torch.compiler.reset()
    model, x = KINDS[kind](8), torch.randn(2, 3, 8)
    model.compile_step(backend="eager")
    first = model.iterate(x)
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter.data.add_(1)
    torch.testing.assert_close(other.iterate(x), other._iterate(x))
    assert not torch.allclose(other.iterate(x), first)
