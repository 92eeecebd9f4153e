"""A coupling of every kind, small, with a state it takes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from akorn import nn as ann

RING = torch.stack((torch.arange(6), torch.arange(6).roll(-1)))


def _sparse(n: int, symmetric: bool, blocks: bool) -> nn.Module:
    edges = torch.cat((RING, torch.tensor([[2], [2]])), 1)  # a ring, and a loop on node 2
    weight = torch.randn(edges.shape[1], n, n) if blocks else torch.randn(edges.shape[1])
    return ann.SparseCoupling(edges, 6, n, weight, symmetric=symmetric)


def _with_mlp(channels: int, symmetric: bool) -> nn.Module:
    inner = ann.AttentionCoupling(channels, 2, symmetric=symmetric)
    whole = ann.FeedForwardCoupling(inner, channels)
    nn.init.normal_(whole.contract.weight, std=0.1)  # which starts at zero
    return whole


# name → (coupling of n and symmetric, the shape of a state as a function of the channels)
COUPLINGS: dict[str, tuple[Callable[[int, bool], nn.Module], Callable[[int], tuple[int, ...]]]] = {
    "dense": (lambda n, s: ann.DenseCoupling(4 * n, symmetric=s), lambda c: (2, c)),
    "dense-tokens": (lambda n, s: ann.DenseCoupling(4 * n, symmetric=s), lambda c: (2, 6, c)),
    "dense-pictures": (lambda n, s: ann.DenseCoupling(4 * n, symmetric=s), lambda c: (2, c, 3, 4)),
    "scalar": (lambda n, s: ann.ScalarCoupling(4, n, symmetric=s), lambda c: (2, c)),
    "scalar-pictures": (lambda n, s: ann.ScalarCoupling(4, n, symmetric=s), lambda c: (2, c, 3, 4)),
    "sparse": (lambda n, s: _sparse(n, s, False), lambda c: (2, 6, c)),
    "sparse-blocks": (lambda n, s: _sparse(n, s, True), lambda c: (2, 6, c)),
    "conv1d": (lambda n, s: ann.ConvCoupling(4 * n, 3, dims=1, symmetric=s), lambda c: (2, 6, c)),
    "conv2d": (lambda n, s: ann.ConvCoupling(4 * n, 3, symmetric=s), lambda c: (2, c, 4, 5)),
    "conv2d-periodic": (lambda n, s: ann.ConvCoupling(4 * n, 3, symmetric=s, periodic=True), lambda c: (2, c, 4, 5)),
    "attention": (lambda n, s: ann.AttentionCoupling(4 * n, 2, symmetric=s), lambda c: (2, 6, c)),
    "attention-gta": (lambda n, s: ann.AttentionCoupling(4 * n, 1, grid=(2, 3), symmetric=s), lambda c: (2, 6, c)),
    "attention-mlp": (lambda n, s: _with_mlp(4 * n, s), lambda c: (2, 6, c)),
    "attention-pictures": (
        lambda n, s: ann.AttentionCoupling(4 * n, 1, grid=(2, 3), symmetric=s),
        lambda c: (2, c, 2, 3),
    ),
}


@pytest.fixture(params=COUPLINGS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def make(kind: str, n: int = 4, *, symmetric: bool = False, seed: int = 0, **options) -> ann.KuramotoLayer:
    """A float64 layer with that coupling and a full Ω for each oscillator."""
    torch.manual_seed(seed)
    coupling = COUPLINGS[kind][0](n, symmetric)
    options = {"omega": ann.NaturalFrequency(n, 4), "gamma": 0.5} | options
    return ann.KuramotoLayer(4 * n, n, coupling, **options).double()


def state(kind: str, n: int = 4, seed: int = 1) -> Tensor:
    shape = COUPLINGS[kind][1](4 * n)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
