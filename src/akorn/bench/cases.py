"""Layers of every coupling, and the same layer as a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.bench.work import Form, Inputs, Mode, Piece, step_traffic
from akorn.errors import AkornError
from akorn.nn import (
    AttentionCoupling,
    ConvCoupling,
    DenseCoupling,
    KuramotoLayer,
    NaturalFrequency,
    PairwiseFrequency,
    ScalarCoupling,
    SparseCoupling,
)


@dataclass(frozen=True)
class Size:
    """One size of a state: `grid` positions with `channels` channels each."""

    batch: int
    channels: int
    grid: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.batch}×{self.channels}×{self.grid[0]}×{self.grid[1]}"

    @property
    def tokens(self) -> int:
        """Positions in the grid."""
        return self.grid[0] * self.grid[1]


HEADS = 8


def _ring(size: Size, n: int) -> nn.Module:
    """Each token attends to its four nearest neighbours on a ring."""
    nodes = torch.arange(size.tokens)
    edges = torch.cat([torch.stack((nodes, (nodes + step) % size.tokens)) for step in (-2, -1, 1, 2)], 1)
    return SparseCoupling(edges, size.tokens, n, torch.randn(edges.shape[1], n, n) / 4)


# name → (the coupling for a size and N, whether its states are pictures)
COUPLINGS: dict[str, tuple[Callable[[Size, int], nn.Module], bool]] = {
    "dense": (lambda size, n: DenseCoupling(size.channels), False),
    "dense-symmetric": (lambda size, n: DenseCoupling(size.channels, symmetric=True), False),
    "scalar": (lambda size, n: ScalarCoupling(size.channels // n, n), False),
    "scalar-symmetric": (lambda size, n: ScalarCoupling(size.channels // n, n, symmetric=True), False),
    "sparse": (_ring, False),
    "conv1d-9": (lambda size, n: ConvCoupling(size.channels, 9, dims=1), False),
    "conv2d-5": (lambda size, n: ConvCoupling(size.channels, 5), True),
    "conv2d-5-symmetric": (lambda size, n: ConvCoupling(size.channels, 5, symmetric=True), True),
    "conv2d-9": (lambda size, n: ConvCoupling(size.channels, 9), True),
    "attention": (lambda size, n: AttentionCoupling(size.channels, HEADS), False),
    "attention-gta": (lambda size, n: AttentionCoupling(size.channels, HEADS, grid=size.grid), False),
    "attention-gta-symmetric": (
        lambda size, n: AttentionCoupling(size.channels, HEADS, grid=size.grid, symmetric=True),
        False,
    ),
}


def default_channels(n: int, *, tiny: bool = False) -> tuple[int, ...]:
    """64 and 256, or 32, or the next numbers that N, the heads and GTA can divide."""
    unit = math.lcm(4 * HEADS, n)
    return tuple(unit * math.ceil(channels / unit) for channels in ((32,) if tiny else (64, 256)))


def check_names(names: Sequence[str]) -> None:
    """AkornError for the first unknown coupling."""
    for name in names:
        if name not in COUPLINGS:
            raise AkornError(f"unknown coupling {name!r}: the known ones are {', '.join(COUPLINGS)}")


def build(
    name: str, size: Size, n: int, device: torch.device, dtype: torch.dtype
) -> tuple[KuramotoLayer, Tensor, Tensor]:
    """A layer with learned γ and Ω, a start and a stimulus."""
    make, pictures = COUPLINGS[name]
    osc.check_grouping(size.channels, n)
    omega = NaturalFrequency(n, init=0.5) if n % 2 else PairwiseFrequency(n, init=0.5)
    layer = KuramotoLayer(size.channels, n, make(size, n), omega=omega, gamma=0.5, learn_gamma=True).to(device, dtype)
    shape = (size.batch, size.channels, *size.grid) if pictures else (size.batch, size.tokens, size.channels)
    x, c = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))
    return layer, x, c


def plain_loop(layer: KuramotoLayer, x: Tensor, c: Tensor, steps: int) -> list[Tensor]:
    """The update as a plain loop that keeps every state, as a first implementation would."""
    n, dim = layer.n, -1 if x.ndim == 3 else -3
    x = x.unflatten(dim, (-1, n))
    x = x / x.norm(dim=dim, keepdim=True)
    states = [x]
    for _ in range(steps):
        y = (layer.coupling(x.flatten(dim - 1, dim)) + c).unflatten(dim, (-1, n))
        y = y - (y * x).sum(dim, keepdim=True) * x
        if layer.omega is not None:
            y = y + layer.omega(x, dim)
        x = x + layer.gamma * y
        x = x / x.norm(dim=dim, keepdim=True)
        states.append(x)
    return states


def layers(
    couplings: Sequence[str],
    sizes: Sequence[Size],
    steps: Sequence[int],
    n: int,
    device: torch.device,
    dtype: torch.dtype,
    compiled: bool,
) -> Iterator[Piece]:
    """Each coupling, size and number of steps, forward and in training: the plain loop, and the layer as it is."""
    check_names(couplings)
    modes: tuple[Mode, ...] = ("forward", "training")
    for name in couplings:
        for size in sizes:
            layer, x, c = build(name, size, n, device, dtype)
            for count in steps:
                for mode in modes:
                    forms = {"plain": Form(_plain), "layer": Form(_layer, kernels=True)}
                    if mode == "training":
                        forms["recompute"] = Form(_layer, kernels=True, recompute=True)
                    if compiled:
                        forms["compiled"] = Form(_layer, compiled=True)
                    traffic = count * step_traffic(layer, x.numel(), dtype.itemsize, mode)
                    yield Piece("layers", name, str(size), n, count, mode, layer, (x, c), forms, traffic)


def _layer(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
    out: Tensor = net(*inputs, steps)
    return out


def _plain(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
    assert isinstance(net, KuramotoLayer)
    x, c = inputs
    return plain_loop(net, x, c, steps)[-1].reshape(x.shape)
