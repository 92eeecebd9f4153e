"""T Kuramoto steps with attention, without gradients: three kernels a step, recorded as CUDA graphs.

A step is the product with W^QKV (cuBLAS), the attention kernel, and the product with W^O with the update in its tail.
`akorn.kernels.solve_steps` comes here for the layers that `why_not` has nothing against. Needs Triton to import.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.kernels import attention, output, update
from akorn.kernels.tune import Config
from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.frequency import PairwiseFrequency
from akorn.nn.kuramoto import KuramotoLayer
from akorn.nn.position import GTA, Position, RotaryPosition
from akorn.nn.rules import Kuramoto

CHUNK = 256
"""Samples that run together. More gain nothing; few enough that a step's arrays stay in the GPU's cache gain some."""

BLOCK = 8  # steps a graph
_KEPT = 4  # graphs a layer: each owns its arrays
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(layer: KuramotoLayer, x: Tensor, c: object) -> str | None:
    """What keeps the fused steps from this layer and state, or None where they apply (devices aside)."""
    coupling = layer.coupling
    if type(coupling) is not AttentionCoupling or type(coupling.maps) is not _FreeMaps:
        return f"the coupling is no AttentionCoupling with free maps: {type(coupling).__name__}"
    if type(coupling.maps.qkv) is not nn.Linear or type(coupling.maps.output) is not nn.Linear:
        return "the coupling's maps were replaced by others"
    if coupling.mask is not None:
        return "the attention is masked"
    if type(coupling.position) not in (type(None), Position, GTA, RotaryPosition):
        return f"positions of another kind: {type(coupling.position).__name__}"
    if type(layer.rule) is not Kuramoto:
        return f"another update rule: {type(layer.rule).__name__}"
    omega = layer.omega
    if omega is not None and (type(omega) is not PairwiseFrequency or omega.oscillators is not None):
        return f"natural frequencies other than one rate for all pairs: {type(omega).__name__}"
    if not isinstance(c, Tensor) or c.shape != x.shape:
        return "c changes from step to step"
    if x.ndim != 3 or x.dtype not in _DTYPES:
        return f"the state is {x.dtype} of shape {list(x.shape)}, not tokens in float32 or less"
    if layer.n > update.MAX_N or not attention.supports(x.shape[1], layer.channels // coupling.heads):
        return f"N = {layer.n}, {x.shape[1]} tokens or heads of {layer.channels // coupling.heads} are too many"
    return None


def fused_steps(
    layer: KuramotoLayer,
    x: Tensor,
    c: Tensor,
    steps: int,
    energy: str | None,
    dtype: torch.dtype = torch.bfloat16,
    chunk: int = CHUNK,
    lanes: int = 1,
    fuse_output: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """The state after `steps` updates, like x, and the energies before each, [steps, B] float32.

    Args:
        layer: one that `why_not` passes.
        x: [B, tokens, C].
        c: like x.
        steps: T.
        energy: "eq3", "published" or None.
        dtype: of weights and states while they run; sums are float32.
        chunk: at most this many samples run together.
        lanes: parts of a chunk that run side by side, so that one multiplies while another waits for memory.
        fuse_output: whether the update is the tail of the product with W^O, where it can be.

    """
    device = torch.cuda.device(x.device) if x.is_cuda else nullcontext()  # Triton launches on the current one
    # Arrays made in inference mode could not be written outside it later.
    with device, torch.inference_mode(False), torch.no_grad():
        layer._check(x, c, steps)
        start = osc.ungroup(layer.rule.start(osc.group(x.float(), layer.n), -1))
        drive = layer._drive(c, x.ndim)(0)
        pieces = max(1, -(-x.shape[0] // chunk))
        size = -(-x.shape[0] // pieces)  # as even as it gets; a smaller last piece runs in the same graph
        run = _prepared(layer, (size, *x.shape[1:]), x.device, _Settings(dtype, energy, min(lanes, size), fuse_output))
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        energies = x.new_empty(steps, x.shape[0], dtype=torch.float32) if energy is not None else None
        for first in range(0, x.shape[0], size):
            piece = slice(first, first + size)
            run(start[piece], drive[piece], steps, out[piece], None if energies is None else energies[:, piece])
        return out, energies


@dataclass(frozen=True)
class _Settings:
    dtype: torch.dtype
    energy: str | None
    lanes: int
    fuse_output: bool


_RUNS: WeakKeyDictionary[KuramotoLayer, OrderedDict[Hashable, _Run]] = WeakKeyDictionary()


def _prepared(layer: KuramotoLayer, shape: tuple[int, ...], device: torch.device, settings: _Settings) -> _Run:
    """The graphs for this layer and shape, made at the first call, with the layer's weights of now."""
    weights = _weights(layer)
    key = (shape, device, settings, layer.n, tuple((name, w.shape) for name, w in weights.items()))
    runs = _RUNS.setdefault(layer, OrderedDict())
    if key not in runs:
        while len(runs) >= _KEPT:
            runs.popitem(last=False)
        runs[key] = _Run(layer, shape, device, settings)
    runs.move_to_end(key)
    runs[key].load(weights)
    return runs[key]


def _weights(layer: KuramotoLayer) -> dict[str, Tensor]:
    """Everything of the layer that a step reads, as the kernels read it."""
    coupling = cast(AttentionCoupling, layer.coupling)
    maps = cast(_FreeMaps, coupling.maps)
    weights = {"qkv": maps.qkv.weight, "output": maps.output.weight, "gamma": layer.gamma.reshape(1)}
    if maps.qkv.bias is not None:
        weights["bias"] = maps.qkv.bias
    if isinstance(layer.omega, PairwiseFrequency):
        weights["rate"] = layer.omega.rate
    place = coupling.position
    if isinstance(place, RotaryPosition):
        still = torch.eye(2).to(place.matrices).expand_as(place.matrices)
        weights["matrices"] = attention.pack_matrices(place.matrices, place.matrices, still, still)
    elif isinstance(place, GTA):
        key, undo = (place.query, place.value.mT) if place.symmetric else (place.key, place.output)
        weights["matrices"] = attention.pack_matrices(place.query, key, place.value, undo)
    return weights


class _Run:
    """The arrays and graphs of one layer, shape and setting."""

    def __init__(self, layer: KuramotoLayer, shape: tuple[int, ...], device: torch.device, settings: _Settings) -> None:
        batch, tokens, channels = shape
        place = cast(AttentionCoupling, layer.coupling).position
        if place is not None:
            place.check(tokens)
        self.heads = cast(AttentionCoupling, layer.coupling).heads
        self.n = layer.n
        self.pair_weight = update.ENERGIES[settings.energy] if settings.energy is not None else None
        self.fused = settings.fuse_output and output.can_fuse_output(channels, layer.n)
        self.weights = {
            name: torch.zeros(
                w.shape, dtype=torch.float32 if name in ("gamma", "rate") else settings.dtype, device=device
            )
            for name, w in _weights(layer).items()
        }

        def state(width: int) -> Tensor:
            return torch.zeros(batch, tokens, width, dtype=settings.dtype, device=device)

        self.x, self.c, self.qkv, self.o = state(channels), state(channels), state(3 * channels), state(channels)
        self.jx = None if self.fused else state(channels)
        self.config: Config | None = None
        if self.fused:  # the size of the tiles decides how many parts the energies come in
            self.config = output.choose_output(
                self.x, self.o, self.weights["output"], self.c, self.weights["gamma"], self.weights.get("rate"),
                layer.n, settings.energy is not None,
            )  # fmt: skip
            parts = tokens * (channels // self.config.columns)
        else:
            parts = update.update_parts(channels, tokens, layer.n)
        self.parts = torch.zeros(BLOCK, batch, parts, device=device) if self.pair_weight is not None else None
        self.energies = torch.zeros(BLOCK, batch, device=device)
        size = -(-batch // settings.lanes)
        self.lanes = [slice(first, min(first + size, batch)) for first in range(0, batch, size)]
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.free: torch.cuda.Event | None = None

    def load(self, weights: dict[str, Tensor]) -> None:
        """Copy the weights of now to where the graphs read them."""
        if self.free is not None:  # a call from another stream may still be at it
            torch.cuda.current_stream().wait_event(self.free)
        for name, weight in weights.items():
            self.weights[name].copy_(weight)

    def __call__(self, x: Tensor, c: Tensor, steps: int, out: Tensor, energies: Tensor | None) -> None:
        """Run the samples given, at most as many as there is room for, into `out` [b, ...], `energies` [steps, b]."""
        count = x.shape[0]
        blocks = [BLOCK] * (steps // BLOCK) + [1] * (steps % BLOCK)
        if x.is_cuda:  # recording runs steps, so before the state is written
            for size in sorted(set(blocks) - set(self.graphs)):
                self._record(size)
        self.x[:count].copy_(x)
        self.c[:count].copy_(c)
        done = 0
        for size in blocks:
            if size in self.graphs:
                self.graphs[size].replay()
            else:
                self._steps(size)
            if energies is not None:
                energies[done : done + size].copy_(self.energies[:size, :count])
            done += size
        out.copy_(self.x[:count])
        if x.is_cuda:
            self.free = torch.cuda.Event()
            self.free.record()

    def _record(self, steps: int) -> None:
        here = torch.cuda.current_stream(self.x.device)
        aside = torch.cuda.Stream(self.x.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(2):  # compile (for every alignment met), choose block sizes, let cuBLAS set itself up
                self._steps(steps)
        here.wait_stream(aside)
        torch.cuda.synchronize(self.x.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._steps(steps)
        self.graphs[steps] = graph

    def _steps(self, steps: int) -> None:
        """Some steps of every lane, and the sums of their energies."""
        if self.x.is_cuda and len(self.lanes) > 1:
            here = torch.cuda.current_stream(self.x.device)
            streams = [torch.cuda.Stream(self.x.device) for _ in self.lanes]
            for lane, stream in zip(self.lanes, streams, strict=True):
                stream.wait_stream(here)
                with torch.cuda.stream(stream):
                    for t in range(steps):
                        self._step(t, lane)
            for stream in streams:
                here.wait_stream(stream)
        else:
            for t in range(steps):
                for lane in self.lanes:
                    self._step(t, lane)
        if self.parts is not None:
            torch.sum(self.parts[:steps], 2, out=self.energies[:steps])

    def _step(self, t: int, lane: slice) -> None:
        """One step of a lane in place, and the parts of the energy before it."""
        w, x, c, qkv, o = self.weights, self.x[lane], self.c[lane], self.qkv[lane], self.o[lane]
        gamma, rate = w["gamma"], w.get("rate")
        parts = self.parts[t, lane] if self.parts is not None else None
        weight = self.pair_weight if self.pair_weight is not None else 0.0
        multiply(x, w["qkv"], w.get("bias"), qkv)
        attention.attention_into(o, qkv, w.get("matrices"), self.heads)
        if self.config is not None:
            output.output_update_into(x, parts, o, w["output"], x, c, gamma, rate, self.n, weight, self.config)
        else:
            jx = cast(Tensor, self.jx)[lane]
            multiply(o, w["output"], None, jx)
            update.update_into(x, parts, x, jx, c, gamma, rate, self.n, weight)


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Write x Wᵀ + b to `out`: [B, tokens, in] → [B, tokens, out]."""
    flat, target = x.flatten(0, 1), out.flatten(0, 1)
    if bias is None:
        torch.mm(flat, weight.T, out=target)
    else:
        torch.addmm(bias, flat, weight.T, out=target)
