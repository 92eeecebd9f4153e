"""A workload and its forms: plain, fused, compiled, as a CUDA graph."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from akorn import kernels
from akorn.execution import graphed, launches
from akorn.nn import AttentionCoupling, KuramotoLayer, Recompute, Store
from akorn.runtime.precision import numerics

Mode = Literal["forward", "training"]
Inputs = tuple[Tensor, ...]
Forward = Callable[[nn.Module, Inputs, int], Tensor]
"""(network, inputs with the batch first, steps T) → what is compared with float64."""

Loss = Callable[[Tensor, Inputs], Tensor]
"""(what `forward` returned, inputs) → a number."""

Precision = Literal["float32", "tf32", "bf16"]
_FEW = 16  # samples for counting errors and operations: batch norms of fewer would amplify rounding
_SHORT = 4  # steps after which errors are measured: later, chaos would dominate rounding


class Form(NamedTuple):
    """One way to do the work."""

    forward: Forward
    kernels: bool = False
    compiled: bool = False
    """One step by `layer.compile_step`."""
    network: bool = False
    """The whole network by `torch.compile(mode="reduce-overhead")`."""
    recompute: bool = False
    graph: bool = False
    """As a CUDA graph: a training step with an optimiser by `akorn.execution.graphed`, anything else as it is."""


@dataclass(frozen=True)
class Piece:
    """One piece of work."""

    case: str
    name: str
    size: str
    n: int
    steps: int
    mode: Mode
    net: nn.Module
    inputs: Inputs
    forms: Mapping[str, Form]
    """By variant; the others are compared with the first, which is also computed in float64."""
    traffic: float = 0.0
    """Bytes that must be moved at least, see `step_traffic`; 0 if unknown."""
    loss: Loss | None = None
    """By default a square and a sum."""
    optimise: bool = False
    """Whether Adam's step is part of the work."""
    whole: Callable[[Form], object] | None = None
    """What is timed instead of `forward`, if that is only a part of the work."""
    per: int = 1
    """The time is divided by this number."""
    compared: bool = True
    """Whether errors are measured: not where a network draws a random start of its own in every call."""


def usual_forms(
    forward: Forward,
    device: torch.device,
    mode: Mode,
    *,
    compiled: bool,
    recompute: bool,
    solving: bool = False,
    network: bool = False,
) -> dict[str, Form]:
    """Plain eager, a compiled step, fused, a compiled network, and fused as a CUDA graph, as the device allows."""
    again = recompute and mode == "training"
    forms = {"plain": Form(forward, recompute=again)}
    if compiled:
        forms["compiled"] = Form(forward, compiled=True, recompute=again)
    if device.type == "cuda" or solving:
        forms["fused"] = Form(forward, kernels=True, recompute=again)
    if network:
        forms["network"] = Form(forward, kernels=True, network=True)
    if device.type == "cuda" and not solving:  # solving records its own graphs
        forms["graph"] = Form(forward, kernels=True, recompute=again, graph=True)
    return forms


def step_traffic(layer: KuramotoLayer, elements: int, itemsize: int, mode: Mode) -> float:
    """Bytes of one step over a state of this many elements, if every product and the update read and write once.

    Attention: x → q, k, v (4 arrays), q, k, v → o (4), o, x, c → x (4). Others: x → Jx (2), Jx, x, c → x (4). Weights
    are added. The backward pass is counted as twice the forward pass.
    """
    arrays = 12 if isinstance(layer.coupling, AttentionCoupling) else 6
    weights = sum(parameter.numel() for parameter in layer.parameters())
    return float((arrays * elements + weights) * itemsize * (3 if mode == "training" else 1))


@dataclass(frozen=True)
class Recording:
    """Work as a CUDA graph; a call replays it."""

    replay: Callable[[], object]
    peak_bytes: int
    """Peak memory during the recording, in the graph's own pool, beyond what was allocated before. A replay uses the
    same addresses and allocates nothing."""

    def __call__(self) -> None:
        """Do the work once."""
        self.replay()


class Runner:
    """Runs a piece of work in any of its forms, in one precision."""

    def __init__(self, piece: Piece, device: torch.device, precision: Precision) -> None:
        self.piece, self.device, self.precision = piece, device, precision
        self.first = next(iter(piece.forms.values()))
        self.layers = [module for module in piece.net.modules() if isinstance(module, KuramotoLayer)]
        self.start = copy.deepcopy(piece.net.state_dict())
        if any(form.compiled for form in piece.forms.values()):
            for layer in self.layers:
                layer.compile_step(dynamic=False)  # errors are measured at another size, which must not matter here
        self.network = torch.compile(piece.net._call_impl, mode="reduce-overhead", dynamic=False)
        self.optimiser: torch.optim.Optimizer | None = None
        if piece.optimise:
            on_gpu = device.type == "cuda"
            self.optimiser = torch.optim.Adam(piece.net.parameters(), 1e-4, fused=on_gpu, capturable=on_gpu)

    def call(self, form: Form) -> None:
        """Do the work once."""
        piece = self.piece
        if form.network:
            torch.compiler.cudagraph_mark_step_begin()
        with self._set(form), torch.set_grad_enabled(piece.mode == "training"):
            if piece.whole is not None:
                piece.whole(form)
                return
            self._pass(piece.net, form.forward, piece.inputs, piece.steps)
            if self.optimiser is not None:
                self.optimiser.step()
            piece.net.zero_grad(set_to_none=True)
            for part in piece.inputs:
                part.grad = None

    def recorded(self, form: Form) -> Recording:
        """The work as a CUDA graph, with its memory."""
        if self.optimiser is not None:
            return self._recorded_step(form, self.optimiser)
        aside = torch.cuda.Stream(self.device)
        aside.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(aside), launches.free():
            for _ in range(3):  # compile, choose algorithms, size buffers
                self.call(form)
        torch.cuda.current_stream(self.device).wait_stream(aside)
        gc.collect()  # otherwise reference cycles might be freed in the middle of the recording
        torch.cuda.synchronize(self.device)
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), launches.free():
            self.call(form)
        return Recording(graph.replay, torch.cuda.max_memory_allocated(self.device) - before)

    def _recorded_step(self, form: Form, optimiser: torch.optim.Optimizer) -> Recording:
        """A training step as users record it: forward and backward in the graph, the optimiser after it."""
        piece = self.piece

        def loss(*inputs: Tensor) -> Tensor:
            return self._loss(piece.net, form.forward, inputs, piece.steps)

        step = graphed(loss, piece.net)

        def replay() -> None:
            with self._set(form):
                step(*piece.inputs)
                optimiser.step()

        gc.collect()
        torch.cuda.synchronize(self.device)
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        replay()
        return Recording(replay, torch.cuda.max_memory_allocated(self.device) - before)

    def error(self, form: Form) -> float:
        """The deviation from float64: of the gradients in training, relative in norm; otherwise the largest, relative.

        The network is reset first, so that errors of different forms can be compared.
        """
        self.piece.net.load_state_dict(self.start)
        piece, training = self.piece, self.piece.mode == "training"
        few, steps = self._few(), min(self.piece.steps, _SHORT)
        exact = copy.deepcopy(piece.net).double()
        wide = tuple(part.double() if part.is_floating_point() else part for part in few)
        with self._set(self.first), torch.set_grad_enabled(training):
            want = self._pass(exact, self.first.forward, wide, steps)
        with self._set(form), torch.set_grad_enabled(training):
            got = self._pass(piece.net, form.forward, few, steps)
            gradients = _gradients(piece.net) if training else None
            piece.net.zero_grad(set_to_none=True)
        if gradients is not None:
            expected = _gradients(exact)
            return float((gradients - expected).norm() / expected.norm())
        return float((got.double() - want).abs().max() / want.abs().max())

    def flops(self) -> float:
        """Floating-point operations of the products of the whole work, counted by torch on a few samples."""
        piece, few, net = self.piece, self._few(), copy.deepcopy(self.piece.net)

        def count(steps: int) -> int:
            with FlopCounterMode(display=False) as counter:
                self._pass(net, self.first.forward, few, steps)
            return counter.get_total_flops()

        # Torch cannot count the products of fused attention on every device, so the plain form is counted.
        plain = Form(self.first.forward)
        with self._set(plain), sdpa_kernel(SDPBackend.MATH), torch.set_grad_enabled(piece.mode == "training"):
            total = count(1)
            if piece.steps > 1:  # every further step adds the same number
                total += (count(2) - total) * (piece.steps - 1)
        return float(total) * len(piece.inputs[0]) / len(few[0])

    def _few(self) -> Inputs:
        return tuple(part[:_FEW].detach().clone().requires_grad_(part.requires_grad) for part in self.piece.inputs)

    def _pass(self, net: nn.Module, forward: Forward, inputs: Inputs, steps: int) -> Tensor:
        exact = any(part.dtype == torch.float64 for part in inputs)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16" and not exact):
            out = forward(net, inputs, steps)
            if not torch.is_grad_enabled():
                return out
            loss = self._score(out, inputs)
        loss.backward()
        return out.detach()

    def _loss(self, net: nn.Module, forward: Forward, inputs: Inputs, steps: int) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return self._score(forward(net, inputs, steps), inputs)

    def _score(self, out: Tensor, inputs: Inputs) -> Tensor:
        return self.piece.loss(out, inputs) if self.piece.loss is not None else _plain_loss(out)

    @contextmanager
    def _set(self, form: Form) -> Iterator[None]:
        """Switch kernels, compiled steps, recomputation and precision for a form, temporarily."""
        was, net = kernels.enabled(), self.piece.net
        kernels.enable(form.kernels)
        net._compiled_call_impl = self.network if form.network else None
        for layer in self.layers:
            layer.gradients = Recompute() if form.recompute else Store()
            layer.use_compiled_step(form.compiled)
        try:
            with numerics(self.precision, search=True):
                yield
        finally:
            kernels.enable(was)
            net._compiled_call_impl = None
            for layer in self.layers:
                layer.gradients = Store()
                layer.use_compiled_step(False)


def _plain_loss(out: Tensor) -> Tensor:
    wide = out if out.dtype == torch.float64 else out.float()
    return wide.square().mul(0.5).sum() + wide.sum()


def _gradients(net: nn.Module) -> Tensor:
    found = [parameter.grad.double().flatten() for parameter in net.parameters() if parameter.grad is not None]
    return torch.cat(found)
