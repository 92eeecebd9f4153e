"""What is compiled once: for other batches, other numbers of steps and other layers of the same kind."""

import copy
import gc
from functools import partial

import pytest
import torch
from compiled_layers import Graphs, a_layer, arrays, last, results

from akorn import nn as ann
from akorn.execution import operator

pytestmark = pytest.mark.usefixtures("forget_compiled")


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
