"""Layers to compile, what they give with and without the compiler, and a backend that counts nodes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from akorn import nn as ann

F32, F64 = torch.float32, torch.float64


class Own(nn.Module):
    """A custom coupling with a parameter, a buffer and its own shape."""

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
