"""The parts of a Kuramoto step alone: the update, attention, the convolutional step, and steps without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.bench.work import Form, Inputs, Mode, Piece, step_traffic, usual_forms
from akorn.nn import AttentionCoupling, ConvCoupling, KuramotoLayer, PairwiseFrequency, solve_steps

MODES: tuple[Mode, ...] = ("forward", "training")

# (batch, channels, grid, steps): Sudoku's and CLEVRTex's tokens
_TOKENS = {"full": ((100, 512, (9, 9), 16), (512, 256, (16, 16), 8)), "tiny": ((2, 32, (3, 3), 2),)}
# (batch, channels, side, kernel, N): the three blocks of the CIFAR-10 model
PICTURES = {
    "full": ((128, 64, 32, 9, 2), (128, 128, 16, 7, 2), (128, 256, 8, 5, 2)),
    "tiny": ((2, 8, 6, 3, 2),),
}
_HEADS = {"full": 8, "tiny": 2}
_VOTE = {"full": (256, 512, (9, 9), 128), "tiny": (2, 32, (3, 3), 3)}


class _Given(nn.Module):
    """A coupling whose answer is known: what is left of a step is the update."""

    def __init__(self) -> None:
        super().__init__()
        self.jx: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        assert self.jx is not None
        return self.jx


def update(size: str, device: torch.device, itemsize: int, compiled: bool) -> Iterator[Piece]:
    """Eq. 4–5 with Jx given: x, Jx, c → x′."""
    for (batch, channels, grid, _), mode in product(_TOKENS[size], MODES):
        layer = KuramotoLayer(channels, 4, _Given(), omega=PairwiseFrequency(4, init=0.5), gamma=0.5, learn_gamma=True)
        shape = (batch, grid[0] * grid[1], channels)
        x, jx, c = _draw(3, shape, device, mode)
        with torch.no_grad():
            x.copy_(osc.ungroup(osc.normalize(osc.group(x, 4))))

        def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
            assert isinstance(net, KuramotoLayer)
            assert isinstance(net.coupling, _Given)
            x, net.coupling.jx, c = inputs
            return net.step(x, c)  # without the checks and the normalisation in front of the first

        traffic = 4.0 * x.numel() * itemsize * (3 if mode == "training" else 1)
        forms = usual_forms(forward, device, mode, compiled=compiled, recompute=False)
        yield Piece("update", "N=4", _named(shape), 4, 1, mode, layer.to(device), (x, jx, c), forms, traffic)


def attention(size: str, device: torch.device, itemsize: int, compiled: bool) -> Iterator[Piece]:
    """The attentive coupling with GTA: x → Jx."""

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        out: Tensor = net(inputs[0])
        return out

    for (batch, channels, grid, _), mode in product(_TOKENS[size], MODES):
        net = AttentionCoupling(channels, _HEADS[size], grid=grid).to(device)
        shape = (batch, grid[0] * grid[1], channels)
        inputs = _draw(1, shape, device, mode)
        forms = usual_forms(forward, device, mode, compiled=False, recompute=False)
        traffic = 10.0 * inputs[0].numel() * itemsize * (3 if mode == "training" else 1)
        yield Piece("attention", f"{_HEADS[size]} heads", _named(shape), 4, 1, mode, net, inputs, forms, traffic)


def conv_step(size: str, device: torch.device, itemsize: int, compiled: bool) -> Iterator[Piece]:
    """Steps with a convolution, channels first and last in memory."""

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        out: Tensor = net(*inputs, steps)
        return out

    def channels_last(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        return forward(net, tuple(part.contiguous(memory_format=torch.channels_last) for part in inputs), steps)

    for (batch, channels, side, kernel, n), mode in product(PICTURES[size], MODES):
        layer = KuramotoLayer(channels, n, ConvCoupling(channels, kernel), omega=PairwiseFrequency(n), gamma=1.0)
        shape = (batch, channels, side, side)
        inputs = _draw(2, shape, device, mode)
        forms = usual_forms(forward, device, mode, compiled=compiled, recompute=False)
        forms["channels-last"] = Form(channels_last, kernels=device.type == "cuda")
        traffic = 3 * step_traffic(layer, inputs[0].numel(), itemsize, mode)
        yield Piece(
            "conv-step", f"kernel {kernel}", _named(shape), n, 3, mode, layer.to(device), inputs, forms, traffic
        )


def solving(size: str, device: torch.device, itemsize: int, compiled: bool) -> Iterator[Piece]:
    """T steps without gradients, energies included, at the size of Sudoku."""
    batch, channels, grid, steps = _VOTE[size]
    coupling = AttentionCoupling(channels, _HEADS[size], grid=grid)
    layer = KuramotoLayer(channels, 4, coupling, omega=PairwiseFrequency(4, init=0.5), gamma=0.3).to(device)
    shape = (batch, grid[0] * grid[1], channels)
    inputs = _draw(2, shape, device, "forward")

    def forward(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
        assert isinstance(net, KuramotoLayer)
        x, c = inputs
        half = torch.is_autocast_enabled(x.device.type)
        dtype = torch.bfloat16 if half else torch.float32
        return solve_steps(net, x, c, steps, dtype=None if x.dtype == torch.float64 else dtype)[0]

    forms = usual_forms(forward, device, "forward", compiled=compiled, recompute=False, solving=True)
    traffic = steps * step_traffic(layer, inputs[0].numel(), itemsize, "forward")
    yield Piece("solve", "attention-gta", _named(shape), 4, steps, "forward", layer, inputs, forms, traffic)


def _draw(count: int, shape: tuple[int, ...], device: torch.device, mode: Mode) -> Inputs:
    """Arrays as they come from the step before: in training gradients go back through them."""
    return tuple(torch.randn(shape, device=device, requires_grad=mode == "training") for _ in range(count))


def _named(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
