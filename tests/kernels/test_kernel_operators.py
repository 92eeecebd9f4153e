"""Operators: eager calls take the short way, and give what the custom operator gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from akorn.kernels.operators import operator

CALLS: list[str] = []


@operator("akorn_test::scaled")
def scaled(x: Tensor, weight: Tensor | None, power: int) -> Tensor:
    """x^power · weight."""
    CALLS.append("real")
    y = x**power
    return y if weight is None else y * weight


@scaled.register_fake
def _(x: Tensor, weight: Tensor | None, power: int) -> Tensor:
    CALLS.append("fake")
    return torch.empty_like(x)


def _keep(ctx, inputs, output) -> None:
    x, weight, ctx.power = inputs
    ctx.save_for_backward(x, weight)


def _differentiate(ctx, grad):
    x, weight = ctx.saved_tensors
    plain = ctx.power * x ** (ctx.power - 1)
    for_weight = grad * x**ctx.power if ctx.needs_input_grad[1] else None
    return grad * plain * (1.0 if weight is None else weight), for_weight, None


scaled.register_autograd(_differentiate, setup_context=_keep)


@pytest.mark.parametrize("with_weight", [True, False])
def test_both_ways_give_the_same(with_weight: bool) -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, dtype=torch.float64, requires_grad=True) if with_weight else None
    inputs = [part for part in (x, weight) if part is not None]
    short, long = scaled(x, weight, 3), scaled.custom(x, weight, 3)
    assert torch.equal(short, long)
    for a, b in zip(torch.autograd.grad(short.sum(), inputs), torch.autograd.grad(long.sum(), inputs), strict=True):
        assert torch.equal(a, b)
    assert "scaled_function" in type(short.grad_fn).__name__


def test_without_gradients_nothing_is_kept() -> None:
    x = torch.randn(5)
    assert scaled(x, None, 2).grad_fn is None
    with torch.no_grad():
        assert scaled(x.requires_grad_(), None, 2).grad_fn is None


def test_compilers_and_fake_arrays_see_the_custom_operator() -> None:
    seen: list[str] = []

    def listening(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    compiled = torch.compile(lambda x: scaled(x, None, 2) + 1, fullgraph=True, backend=listening)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert any("akorn_test.scaled" in target for target in seen)
    CALLS.clear()
    with FakeTensorMode():
        scaled(torch.ones(3), None, 2)
    assert CALLS == ["fake"]


def test_it_keeps_its_documentation() -> None:
    assert scaled.__doc__ == "x^power · weight."
    assert scaled.__name__ == "scaled"
