"""T Kuramoto steps with attention, without gradients: three or four kernels a step, recorded as CUDA graphs.

A step is the product with W^QKV (cuBLAS), the attention kernel, and the product with W^O with the update in its tail,
or the two apart. Whether they are, and how many samples run together, is timed at the first use.
`akorn.kernels.solve_steps` comes here for the layers that `why_not` has nothing against. Needs Triton to import.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.kernels import attention, update
from akorn.kernels.solvable import not_plain_arrays, not_plain_attention
from akorn.kernels.solve_run import Run, Settings
from akorn.kernels.tune import fastest, time_launches
from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.frequency import PairwiseFrequency
from akorn.nn.kuramoto import KuramotoLayer
from akorn.nn.position import GTA, RotaryPosition


class Cut(NamedTuple):
    """How a batch is cut up."""

    chunk: int
    """At most so many samples run together."""
    lanes: int = 1
    """Parts of a chunk that run side by side, so that one multiplies while another waits for memory."""


CUTS = (Cut(256), Cut(128), Cut(512), Cut(1024), Cut(256, 2), Cut(512, 2), Cut(1024, 2))
"""What is tried, the usual one first: few samples stay in the GPU's cache between kernels, many fill it better."""

CHUNK = CUTS[0].chunk
_TIMED = 8  # the steps by which cuts are compared
_KEPT = 4  # graphs a layer: each owns its arrays
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(layer: KuramotoLayer, x: Tensor, c: object) -> str | None:
    """What keeps the fused steps from this layer and state, or None where they apply (devices aside)."""
    if (reason := not_plain_attention(layer, x, c)) is not None:
        return reason
    omega = layer.omega
    if omega is not None and (type(omega) is not PairwiseFrequency or omega.oscillators is not None):
        return f"natural frequencies other than one rate for all pairs: {type(omega).__name__}"
    assert isinstance(c, Tensor)
    if (reason := not_plain_arrays(layer, x, c, _DTYPES)) is not None:
        return reason
    if x.ndim != 3:
        return f"the state is of shape {list(x.shape)}, no tokens"
    heads = cast(AttentionCoupling, layer.coupling).heads
    if layer.n > update.MAX_N or not attention.supports(x.shape[1], layer.channels // heads):
        return f"N = {layer.n}, {x.shape[1]} tokens or heads of {layer.channels // heads} are too many"
    return None


def fused_steps(
    layer: KuramotoLayer,
    x: Tensor,
    c: Tensor,
    steps: int,
    energy: str | None,
    dtype: torch.dtype = torch.bfloat16,
    chunk: int | None = None,
    lanes: int | None = None,
    fuse_output: bool | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The state after `steps` updates, like x, and the energies before each, [steps, B] float32.

    Args:
        layer: one that `why_not` passes.
        x: [B, tokens, C].
        c: like x.
        steps: T.
        energy: "eq3", "published" or None.
        dtype: of weights and states while they run; sums are float32.
        chunk: at most this many samples run together; by default what is fastest.
        lanes: parts of a chunk that run side by side; by default what is fastest, one with a `chunk`.
        fuse_output: whether the update is the tail of the product with W^O, where it can be; by default what is faster.

    """
    device = torch.cuda.device(x.device) if x.is_cuda else nullcontext()  # Triton launches on the current one
    # Arrays made in inference mode could not be written outside it later.
    with device, torch.inference_mode(False), torch.no_grad():
        layer._check(x, c, steps)
        start = osc.ungroup(layer.rule.start(osc.group(x.float(), layer.n), -1))
        drive = layer._drive(c, x.ndim)(0)
        if chunk is None:
            cut = _best_cut(layer, x, Settings(dtype, energy, 1, fuse_output))
            chunk, lanes = cut.chunk, lanes or cut.lanes
        pieces = max(1, -(-x.shape[0] // chunk))
        size = -(-x.shape[0] // pieces)  # as even as it gets; a smaller last piece runs in the same graph
        settings = Settings(dtype, energy, min(lanes or 1, size), fuse_output)
        run = _prepared(layer, (size, *x.shape[1:]), x.device, settings)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        energies = x.new_empty(steps, x.shape[0], dtype=torch.float32) if energy is not None else None
        for first in range(0, x.shape[0], size):
            piece = slice(first, first + size)
            run(start[piece], drive[piece], steps, out[piece], None if energies is None else energies[:, piece])
        return out, energies


def _best_cut(layer: KuramotoLayer, x: Tensor, settings: Settings) -> Cut:
    """The fastest cut of those that the batch is large enough for, timed at the first call."""
    usual, *others = CUTS
    cuts = [usual, *(cut for cut in others if 2 * cut.chunk <= x.shape[0])]
    if not x.is_cuda or x.shape[0] < 2 * usual.chunk:
        return usual
    coupling = cast(AttentionCoupling, layer.coupling)
    kind = (coupling.heads, type(coupling.position), type(layer.omega), layer.n)
    key = ("cut", x.device, *x.shape[1:], *kind, settings, len(cuts))
    return fastest(key, cuts, lambda cut: _time_cut(layer, x, settings, cut))


def _time_cut(layer: KuramotoLayer, x: Tensor, settings: Settings, cut: Cut) -> float:
    """Milliseconds of some steps, a sample."""
    try:
        run = Run(layer, (cut.chunk, *x.shape[1:]), x.device, replace(settings, lanes=cut.lanes), _weights(layer))
        run.record(_TIMED)
        return time_launches(run.graphs[_TIMED].replay, 4) / cut.chunk
    except torch.cuda.OutOfMemoryError:
        return float("inf")


_RUNS: WeakKeyDictionary[KuramotoLayer, OrderedDict[Hashable, Run]] = WeakKeyDictionary()


def _prepared(layer: KuramotoLayer, shape: tuple[int, ...], device: torch.device, settings: Settings) -> Run:
    """The graphs for this layer and shape, made at the first call, with the layer's weights of now."""
    weights = _weights(layer)
    key = (shape, device, settings, layer.n, tuple((name, w.shape) for name, w in weights.items()))
    runs = _RUNS.setdefault(layer, OrderedDict())
    if key not in runs:
        while len(runs) >= _KEPT:
            runs.popitem(last=False)
        runs[key] = Run(layer, shape, device, settings, weights)
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
