"""Recorded steps for `akorn.kernels.solve`: their weights, their arrays and their CUDA graphs.

Needs Triton to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from akorn.kernels import solve_attention, solve_output, update
from akorn.kernels.layer_norm import layer_norm
from akorn.kernels.solve_step import AttentiveStep
from akorn.kernels.tune import Config, best

_FLOAT32 = ("gamma", "rate", "scale", "shift")  # weights that keep their digits: no product reads them

BLOCKS = (32, 8, 1)
"""Numbers of steps that a graph may have, largest first: T steps are made up of as few graphs as possible."""


@dataclass(frozen=True)
class Settings:
    """How steps are run."""

    dtype: torch.dtype
    energy: str | None
    lanes: int
    fuse_output: bool | None


class Run:
    """The arrays and graphs of one step, shape and setting."""

    def __init__(
        self,
        step: AttentiveStep,
        shape: tuple[int, ...],
        device: torch.device,
        settings: Settings,
        weights: dict[str, Tensor],
    ) -> None:
        batch, tokens, channels = shape
        if any(matrices.shape[0] != tokens for matrices in step.matrices):
            raise ValueError(f"the positions are for {step.matrices[0].shape[0]} tokens, the state has {tokens}")
        self.heads = step.heads
        self.n, self.project = step.n, step.projects
        self.pair_weight = update.ENERGIES[settings.energy] if settings.energy is not None else None
        self.weights = {
            name: torch.zeros(w.shape, dtype=torch.float32 if name in _FLOAT32 else settings.dtype, device=device)
            for name, w in weights.items()
        }
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.free: torch.cuda.Event | None = None
        self.load(weights)
        # Timing should be like a real run, and zeros take less power: hence real weights, and noise.
        generator = torch.Generator(device).manual_seed(0)

        def state(width: int) -> Tensor:
            return torch.empty(batch, tokens, width, dtype=settings.dtype, device=device).normal_(generator=generator)

        self.x, self.c, self.qkv, self.o = state(channels), state(channels), state(3 * channels), state(channels)
        size = -(-batch // settings.lanes)
        self.hidden: Tensor | None = None
        self.eps = 0.0
        if step.mlp is not None:
            self.hidden, self.eps = state(len(step.mlp.bias)), step.mlp.eps
        self.lanes = [slice(first, min(first + size, batch)) for first in range(0, batch, size)]
        self.jx: Tensor | None = None
        self.config: Config | None = None
        self._choose_tail(settings.fuse_output)
        most = BLOCKS[0]
        self.parts = None if self.pair_weight is None else torch.zeros(most, batch, self._part_count(), device=device)
        self.energies = torch.zeros(most, batch, device=device)

    def _choose_tail(self, fuse: bool | None) -> None:
        """Decide whether the update is the tail of the product with W^O, and in tiles of which size."""
        w, lane, channels = self.weights, self.lanes[0], self.x.shape[-1]
        rate, energy = w.get("rate"), self.pair_weight is not None
        config = None
        if self.hidden is not None:
            fuse = False  # the product with W^O is not the last one
        if fuse is not False and solve_output.can_fuse_output(channels, self.n):
            config = solve_output.choose_output(
                self.x[lane], self.o[lane], w["output"], self.c[lane], w["gamma"], rate, self.n, self.project, energy
            )
        if config is None or fuse is None:
            self.jx = torch.empty_like(self.x)
        if config is not None and fuse is None:
            rows = self.x[lane].numel() // channels
            kind = (self.n, self.project, rate is not None, energy)
            key = ("tail", self.x.device, self.x.dtype, channels, *kind, rows.bit_length())

            def launch(fused: bool) -> None:
                self.config = config if fused else None
                x = self.x[lane]
                self._tail(lane, x.new_empty(len(x), self._part_count(), dtype=torch.float32) if energy else None)

            config = config if best(key, (True, False), launch, ahead=False) else None
        self.config = config
        if config is not None:
            self.jx = None

    def _part_count(self) -> int:
        """How many parts of a sample's energy a step returns."""
        _, tokens, channels = self.x.shape
        if self.config is not None:
            return tokens * (channels // self.config.columns)
        return update.update_parts(channels, tokens, self.n)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Copy the current weights to where the graphs read them."""
        if self.free is not None:  # a call from another stream may still be running
            torch.cuda.current_stream().wait_event(self.free)
        for name, weight in weights.items():
            self.weights[name].copy_(weight)

    def __call__(self, x: Tensor, c: Tensor, steps: int, out: Tensor, energies: Tensor | None) -> None:
        """Run the given samples, at most as many as there is room for, into `out` [b, ...], `energies` [steps, b]."""
        count = x.shape[0]
        blocks: list[int] = []
        for size in BLOCKS:
            blocks += [size] * ((steps - sum(blocks)) // size)
        if x.is_cuda:  # recording runs steps, so it comes before the state is written
            for size in sorted(set(blocks) - set(self.graphs)):
                self.record(size)
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

    def record(self, steps: int) -> None:
        """Make the graph of this many steps."""
        here = torch.cuda.current_stream(self.x.device)
        aside = torch.cuda.Stream(self.x.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(2):  # compile (for every alignment), choose block sizes, let cuBLAS set itself up
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
        w, o = self.weights, self.o[lane]
        multiply(self.x[lane], w["qkv"], w.get("bias"), self.qkv[lane])
        solve_attention.attention_into(o, self.qkv[lane], w.get("matrices"), self.heads)
        self._tail(lane, self.parts[t, lane] if self.parts is not None else None)

    def _tail(self, lane: slice, parts: Tensor | None) -> None:
        """The product with W^O and the update, in place."""
        w, x, c, o = self.weights, self.x[lane], self.c[lane], self.o[lane]
        weight = self.pair_weight if self.pair_weight is not None else 0.0
        rule = (w["gamma"], w.get("rate"), self.n, self.project, weight)
        if self.config is not None:
            solve_output.output_update_into(x, parts, o, w["output"], x, c, *rule, self.config)
        else:
            jx = cast(Tensor, self.jx)[lane]
            multiply(o, w["output"], None, jx)
            if self.hidden is not None:
                self._follow(x, jx, self.hidden[lane])
            update.update_into(x, parts, x, jx, c, *rule)

    def _follow(self, x: Tensor, y: Tensor, hidden: Tensor) -> None:
        """The MLP behind the attention: y ← y + W₂ gelu(W₁ LayerNorm(x + y) + b), in place."""
        w = self.weights
        normed, _ = layer_norm(x + y, w["scale"], w["shift"], self.eps, y.dtype)
        multiply(normed, w["expand"], w["expand_bias"], hidden)
        torch.ops.aten.gelu_(hidden, approximate="tanh")
        y.flatten(0, 1).addmm_(hidden.flatten(0, 1), w["contract"].T)


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Write x Wᵀ + b to `out`: [B, tokens, in] → [B, tokens, out]."""
    flat, target = x.flatten(0, 1), out.flatten(0, 1)
    if bias is None:
        torch.mm(flat, weight.T, out=target)
    else:
        torch.addmm(bias, flat, weight.T, out=target)
