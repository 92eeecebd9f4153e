"""T Kuramoto steps with attention, without gradients: three or four kernels per step, recorded as CUDA graphs.

A step is the product with W^QKV (cuBLAS), the attention kernel, and the product with W^O with the update in its tail,
or these two separately, with an MLP between them if the coupling has one. The faster form, and how many samples run
together, are found by timing at the first use.
`akorn.execution.solve` uses it if `why_not` has no objection. Needs Triton to import.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.kernels import solve_attention, update
from akorn.kernels.layer_norm import MAX_CHANNELS
from akorn.kernels.solve_run import Run, Settings
from akorn.kernels.solve_step import AttentiveStep, not_plain
from akorn.kernels.tune import fastest, time_launches


class Cut(NamedTuple):
    """How a batch is divided."""

    chunk: int
    """At most this many samples run together."""
    lanes: int = 1
    """Parts of a chunk that run in parallel, so that one multiplies while another waits for memory."""


CUTS = (Cut(256), Cut(128), Cut(512), Cut(1024), Cut(256, 2), Cut(512, 2), Cut(1024, 2))
"""The candidates, the usual one first: few samples stay in the GPU's cache between kernels, many use it better."""

_TIMED = 8  # steps for comparing divisions
_KEPT = 4  # graphs per owner: each has its own arrays
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(step: AttentiveStep, x: Tensor, c: object, weights: Iterable[Tensor]) -> str | None:
    """Why the fused steps cannot run this step and state, or None if they can (apart from devices).

    weights: all arrays that c and a step depend on.
    """
    if step.omega is not None and step.omega.numel() != 1:
        return "natural frequencies other than one rate for all pairs"
    if (reason := not_plain(x, c, weights, _DTYPES)) is not None:
        return reason
    if x.ndim != 3:
        return f"the state has shape {list(x.shape)}, not tokens"
    if step.mlp is not None and step.channels > MAX_CHANNELS:
        return f"an MLP at {step.channels} channels"
    head_dim = step.channels // step.heads
    if step.n > update.MAX_N or not solve_attention.supports(x.shape[1], head_dim):
        return f"N = {step.n}, {x.shape[1]} tokens or heads of {head_dim} are too many"
    return None


def fused_steps(
    step: AttentiveStep,
    x: Tensor,
    c: Tensor,
    steps: int,
    energy: str | None,
    dtype: torch.dtype = torch.bfloat16,
    *,
    owner: object,
    chunk: int | None = None,
    lanes: int | None = None,
    fuse_output: bool | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The state after `steps` updates, like x, and the energies before each, [steps, B] float32.

    Args:
        step: one that `why_not` accepts.
        x: [B, tokens, C]; it need not be normalised.
        c: like x, as it acts on the oscillators.
        steps: T.
        energy: "eq3", "published" or None.
        dtype: of weights and states while they run; sums are float32.
        owner: graphs are kept for the next call with this object, as long as it exists.
        chunk: at most this many samples run together; by default the fastest number.
        lanes: parts of a chunk that run side by side; by default the fastest number, or one if `chunk` is given.
        fuse_output: whether the update is the tail of the product with W^O, if it can be; by default the faster form.

    """
    device = torch.cuda.device(x.device) if x.is_cuda else nullcontext()  # Triton launches on the current device
    # Arrays created in inference mode could not be written outside it later.
    with device, torch.inference_mode(False), torch.no_grad():
        start = osc.ungroup(osc.normalize(osc.group(x.float(), step.n), -1))
        if chunk is None:
            cut = _best_cut(step, x, Settings(dtype, energy, 1, fuse_output))
            chunk, lanes = cut.chunk, lanes or cut.lanes
        pieces = max(1, -(-x.shape[0] // chunk))
        size = -(-x.shape[0] // pieces)  # as even as possible; a smaller last piece runs in the same graph
        settings = Settings(dtype, energy, min(lanes or 1, size), fuse_output)
        run = _prepared(step, owner, (size, *x.shape[1:]), x.device, settings)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        energies = x.new_empty(steps, x.shape[0], dtype=torch.float32) if energy is not None else None
        for first in range(0, x.shape[0], size):
            piece = slice(first, first + size)
            run(start[piece], c[piece], steps, out[piece], None if energies is None else energies[:, piece])
        return out, energies


def _best_cut(step: AttentiveStep, x: Tensor, settings: Settings) -> Cut:
    """The fastest division that the batch is large enough for, timed at the first call."""
    usual, *others = CUTS
    cuts = [usual, *(cut for cut in others if 2 * cut.chunk <= x.shape[0])]
    if not x.is_cuda or x.shape[0] < 2 * usual.chunk:
        return usual
    rule = (step.omega is not None, step.n, step.projects)
    kind = (step.heads, bool(step.matrices), *rule, step.mlp and len(step.mlp.bias))
    key = ("cut", x.device, *x.shape[1:], *kind, settings, len(cuts))
    return fastest(key, cuts, lambda cut: _time_cut(step, x, settings, cut))


def _time_cut(step: AttentiveStep, x: Tensor, settings: Settings, cut: Cut) -> float:
    """Milliseconds of some steps, per sample."""
    try:
        run = Run(step, (cut.chunk, *x.shape[1:]), x.device, replace(settings, lanes=cut.lanes), weights_of(step))
        run.record(_TIMED)
        return time_launches(run.graphs[_TIMED].replay, 4) / cut.chunk
    except torch.cuda.OutOfMemoryError:
        return float("inf")


_RUNS: WeakKeyDictionary[object, OrderedDict[Hashable, Run]] = WeakKeyDictionary()


def _prepared(
    step: AttentiveStep, owner: object, shape: tuple[int, ...], device: torch.device, settings: Settings
) -> Run:
    """The graphs for this owner and shape, created at the first call, with the current weights."""
    weights = weights_of(step)
    kind = (step.n, step.projects, step.heads)
    key = (shape, device, settings, *kind, tuple((name, w.shape) for name, w in weights.items()))
    runs = _RUNS.setdefault(owner, OrderedDict())
    if key not in runs:
        while len(runs) >= _KEPT:
            runs.popitem(last=False)
        runs[key] = Run(step, shape, device, settings, weights)
    runs.move_to_end(key)
    runs[key].load(weights)
    return runs[key]


def weights_of(step: AttentiveStep) -> dict[str, Tensor]:
    """Everything that a step reads, in the form for the kernels."""
    weights = {"qkv": step.qkv, "output": step.output, "gamma": step.gamma.reshape(1)}
    if step.bias is not None:
        weights["bias"] = step.bias
    if step.omega is not None:
        weights["rate"] = step.omega
    if step.matrices:
        still = torch.eye(2).to(step.matrices[0]).expand_as(step.matrices[0])
        weights["matrices"] = solve_attention.pack_matrices(*step.matrices, *[still] * (4 - len(step.matrices)))
    if (mlp := step.mlp) is not None:
        weights |= {"scale": mlp.scale, "shift": mlp.shift}
        weights |= {"expand": mlp.expand, "expand_bias": mlp.bias, "contract": mlp.contract}
    return weights
