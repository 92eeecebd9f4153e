"""What cannot be one operator under torch.compile: it is unrolled, or refused with the reason."""

import pytest
import torch
from compiled_layers import F32, a_layer, agree, arrays
from torch import Tensor, nn

from akorn import nn as ann

pytestmark = pytest.mark.usefixtures("forget_compiled")


class Noisy(nn.Module):
    """Draws random numbers in an unknown way."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class Counting(nn.Module):
    """Changes a buffer in an unknown way."""

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
    """A trajectory, a custom energy, C as a function of the step."""

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
