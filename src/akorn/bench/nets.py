"""Whole networks at the sizes that are compared with the published implementation, by name.

`sudoku` and `vote` are the Sudoku model; the others are untrained stacks of layers from `akorn.nn`, with the losses
of their tasks: `shapes` (Table 9), `clevrtex` (Table 10) and `cifar`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.bench.work import Form, Forward, Inputs, Loss, Mode, Piece, Precision, step_traffic, usual_forms
from akorn.nn.convolution import Conv2d
from akorn.sudoku.config import SudokuConfig


@dataclass(frozen=True)
class Setup:
    """How networks are measured."""

    size: str
    device: torch.device
    itemsize: int
    compiled: bool
    recompute: bool
    precision: Precision
    network: bool = False
    """Also measure networks compiled by torch.compile."""


def sudoku(setup: Setup) -> Iterator[Piece]:
    """A training step of the Sudoku model: batch 100, T = 16, with loss, gradients and Adam."""
    from akorn.sudoku.model import SudokuModel

    batch, steps = (100, 16) if setup.size == "full" else (3, 3)
    net = SudokuModel(_sudoku_config(setup.size)).to(setup.device)
    puzzle = torch.randint(0, 10, (batch, 81), device=setup.device)
    solution = torch.randint(0, 9, (batch, 81), device=setup.device)
    x0 = torch.randn(batch, 81, net.config.channels, device=setup.device)

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        assert isinstance(net, SudokuModel)
        return net(inputs[0], steps, x0=inputs[2])

    def loss(logits: Tensor, inputs: Inputs) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), inputs[1].flatten())

    yield _training(
        setup, "sudoku", f"batch {batch}", 4, steps, net, (puzzle, solution, x0), forward, loss,
        [(_layers(net)[0], x0.numel(), steps)],
    )  # fmt: skip


def vote(setup: Setup) -> Iterator[Piece]:
    """The energy vote with K = 100 and T = 128, per board in a full batch: from the puzzles to the answers."""
    from akorn.sudoku import voting
    from akorn.sudoku.model import SudokuModel

    boards, votes, steps = (40 if setup.device.type == "cuda" else 2, 100, 128) if setup.size == "full" else (2, 2, 3)
    net = SudokuModel(_sudoku_config(setup.size)).to(setup.device).eval()
    puzzle = torch.randint(0, 2, (boards, 81), device=setup.device) * torch.randint(1, 10, (81,), device=setup.device)
    x0 = torch.randn(boards * votes, 81, net.config.channels, device=setup.device)
    config = voting.VoteConfig(steps, votes, precision=setup.precision, squares=False)

    def answers(puzzles: Tensor, x0: Tensor) -> object:
        return net.evolve(puzzles, steps, x0=x0, energy=osc.energy)[:2]

    compiled = torch.compile(answers, mode="reduce-overhead", dynamic=False)

    def whole(form: Form) -> object:
        if not form.network:
            return voting.run(net, puzzle, config)
        with torch.autocast(setup.device.type, torch.bfloat16, enabled=setup.precision == "bf16"):
            return compiled(*inputs)

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        assert isinstance(net, SudokuModel)
        puzzles, x0 = inputs
        return net.evolve(puzzles, steps, x0=x0, energy=osc.energy).logits

    layer = _layers(net)[0]
    traffic = steps * step_traffic(layer, x0.numel(), setup.itemsize, "forward")
    forms = usual_forms(
        forward, setup.device, "forward", compiled=setup.compiled, recompute=False, solving=True, network=setup.network
    )
    inputs = (puzzle.repeat_interleave(votes, 0), x0)
    yield Piece(
        "vote", f"K={votes}, a board", f"{boards} boards", 4, steps, "forward", net, inputs, forms, traffic,
        whole=whole, per=boards,
    )  # fmt: skip


class Patches(nn.Module):
    """Object discovery: patches, L blocks of attention, and SimCLR's projection of the max-pooled feature."""

    def __init__(self, colours: int, patch: int, channels: int, side: int, blocks: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(colours, channels, patch, patch)
        self.stack = akn.KuramotoStack([_attentive(channels, side, heads) for _ in range(blocks)])
        wide = 4 * channels
        self.head = nn.Sequential(nn.Linear(channels, wide), nn.ReLU(), nn.Linear(wide, channels))

    def forward(self, pictures: Tensor, x: Tensor, steps: int) -> Tensor:
        """[B, colours, H, W] and the oscillators' start [B, tokens, C] → [B, C]."""
        c = self.patches(pictures).flatten(2).transpose(1, 2)  # [B, tokens, C]
        _, c = self.stack(x, c, steps)
        out: Tensor = self.head(c.amax(1))
        return out


def shapes(setup: Setup) -> Iterator[Piece]:
    """Shapes: 2×256 grey pictures of 40×40, patches of 2, 256 channels, L = 3, T = 4."""
    yield _objects(setup, "shapes", colours=1, side=40, patch=2, blocks=3, steps=4)


def clevrtex(setup: Setup) -> Iterator[Piece]:
    """CLEVRTex: 2×256 pictures of 128×128, patches of 8, 256 channels, L = 2, T = 8."""
    yield _objects(setup, "clevrtex", colours=3, side=128, patch=8, blocks=2, steps=8)


class Pictures(nn.Module):
    """AKOrN-conv for CIFAR-10: three blocks at half the resolution each, kernels 9, 7, 5."""

    def __init__(self, channels: tuple[int, ...], kernels: tuple[int, ...], n: int = 2) -> None:
        super().__init__()
        self.stem = Conv2d(3, channels[0], 3)
        blocks = [_convolutional(width, kernel, n) for width, kernel in zip(channels, kernels, strict=True)]
        self.stack = akn.KuramotoStack(blocks, transitions=[akn.Transition(a, b) for a, b in pairwise(channels)])
        self.head = nn.Linear(channels[-1], 10)

    def forward(self, pictures: Tensor, x: Tensor, steps: int) -> Tensor:
        """[B, 3, H, W] and the oscillators' start [B, C, H, W] → [B, 10]."""
        c = self.stem(pictures)
        _, c = self.stack(x.to(c.dtype), c, steps)  # the recipes draw it in the type of C
        out: Tensor = self.head(c.mean((2, 3)))
        return out


def cifar(setup: Setup) -> Iterator[Piece]:
    """A training step of AKOrN-conv: batch 128, T = 3, N = 2; channels last in memory, as the recipes have them."""
    full = setup.size == "full"
    batch, side, channels = (128, 32, (64, 128, 256)) if full else (2, 8, (4, 8, 8))
    last = torch.channels_last
    net = Pictures(channels, (9, 7, 5)).to(setup.device)
    net.to(memory_format=last)  # type: ignore[call-overload]  # torch's stub lacks it
    pictures = torch.randn(batch, 3, side, side, device=setup.device).contiguous(memory_format=last)
    labels = torch.randint(0, 10, (batch,), device=setup.device)
    x0 = torch.randn(batch, channels[0], side, side, device=setup.device).contiguous(memory_format=last)

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        out: Tensor = net(inputs[0], inputs[2], steps)
        return out

    def loss(logits: Tensor, inputs: Inputs) -> Tensor:
        return F.cross_entropy(logits, inputs[1])

    work = [(layer, x0.numel() // 2**index, 3) for index, layer in enumerate(_layers(net))]
    yield _training(setup, "cifar", f"batch {batch}", 2, 3, net, (pictures, labels, x0), forward, loss, work)


def _objects(setup: Setup, name: str, *, colours: int, side: int, patch: int, blocks: int, steps: int) -> Piece:
    batch, channels, heads = (512, 256, 8) if setup.size == "full" else (4, 32, 2)
    if setup.size != "full":
        side, steps = 4 * patch, 2
    grid = side // patch
    net = Patches(colours, patch, channels, grid, blocks, heads).to(setup.device)
    pictures = torch.randn(batch, colours, side, side, device=setup.device)
    x0 = torch.randn(batch, grid * grid, channels, device=setup.device)

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        out: Tensor = net(*inputs, steps)
        return out

    work = [(layer, x0.numel(), steps) for layer in _layers(net)]
    size = f"2×{batch // 2}"
    return _training(setup, name, f"{size}, L={blocks}", 4, steps, net, (pictures, x0), forward, nt_xent, work)


def nt_xent(features: Tensor, inputs: Inputs) -> Tensor:
    """SimCLR's loss of [2B, C], where view i belongs to view i + B; temperature 0.1."""
    wide = features if features.dtype == torch.float64 else features.float()
    unit = F.normalize(wide, dim=-1)
    count = len(unit)
    scores = (unit @ unit.mT / 0.1).masked_fill(torch.eye(count, dtype=torch.bool, device=unit.device), -torch.inf)
    return F.cross_entropy(scores, torch.arange(count, device=unit.device).roll(count // 2))


def _training(
    setup: Setup,
    case: str,
    size: str,
    n: int,
    steps: int,
    net: nn.Module,
    inputs: Inputs,
    forward: Forward,
    loss: Loss,
    work: list[tuple[akn.KuramotoLayer, int, int]],
) -> Piece:
    """A training step; `work` is, for each layer, the elements of its state and its steps."""
    mode: Mode = "training"
    traffic = sum(count * step_traffic(layer, elements, setup.itemsize, mode) for layer, elements, count in work)
    forms = usual_forms(
        forward, setup.device, mode, compiled=setup.compiled, recompute=setup.recompute, network=setup.network
    )
    return Piece(case, "training step", size, n, steps, mode, net, inputs, forms, traffic, loss, optimise=True)


def _layers(net: nn.Module) -> list[akn.KuramotoLayer]:
    return [module for module in net.modules() if isinstance(module, akn.KuramotoLayer)]


def _sudoku_config(size: str) -> SudokuConfig:
    return SudokuConfig() if size == "full" else SudokuConfig(channels=32, heads=2)


def _attentive(channels: int, side: int, heads: int) -> akn.KuramotoBlock:
    coupling = akn.AttentionCoupling(channels, heads, grid=(side, side))
    stimulus = akn.GroupNorm(channels // 4, channels)
    layer = akn.KuramotoLayer(channels, 4, coupling, gamma=0.5, stimulus=stimulus, bias=True)
    return akn.KuramotoBlock(layer, akn.Readout(channels, n_out=4))


class _Residual(nn.Module):
    """m + two times (BatchNorm, ReLU, 3×3 convolution) of m."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(*_norm_relu_conv(channels), *_norm_relu_conv(channels))

    def forward(self, m: Tensor) -> Tensor:
        return m + self.inside(m)


def _norm_relu_conv(channels: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU(), Conv2d(channels, channels, 3)]


def _convolutional(channels: int, kernel: int, n: int) -> akn.KuramotoBlock:
    layer = akn.KuramotoLayer(
        channels, n, akn.ConvCoupling(channels, kernel), omega=akn.PairwiseFrequency(n, init=1.0), gamma=1.0,
        stimulus=akn.GroupNorm(channels // n, channels), bias=True,
    )  # fmt: skip
    g = nn.Sequential(_Residual(channels), *_norm_relu_conv(channels))
    return akn.KuramotoBlock(layer, akn.Readout(channels, n_out=2, g=g, kernel_size=3, narrow=True))
