"""`akorn bench`: every form of every workload, compared with the plain one in the same run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch

from akorn.bench import nets, parts
from akorn.bench.ceilings import Ceilings
from akorn.bench.convolutions import convolutions
from akorn.bench.measure import measure
from akorn.bench.nets import Setup
from akorn.bench.runtime import runtime
from akorn.bench.work import Piece, Precision, Runner
from akorn.errors import AkornError

CASES: dict[str, Callable[[Setup], Iterator[Piece]]] = {
    "update": lambda s: parts.update(s.size, s.device, s.itemsize, s.compiled),
    "attention": lambda s: parts.attention(s.size, s.device, s.itemsize, s.compiled),
    "conv-step": lambda s: parts.conv_step(s.size, s.device, s.itemsize, s.compiled),
    "convolution": lambda s: convolutions(s.size, s.device, s.itemsize, s.compiled),
    "solve": lambda s: parts.solving(s.size, s.device, s.itemsize, s.compiled),
    "sudoku": nets.sudoku,
    "vote": nets.vote,
    "shapes": nets.shapes,
    "clevrtex": nets.clevrtex,
    "cifar": nets.cifar,
    "runtime": runtime,
}
"""The values of `--case` besides "layers" and "all"."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    name: str
    """The part of the case: a coupling, a kernel, a training step."""
    size: str
    n: int
    steps: int
    mode: str
    """"forward", without gradients, or "training", forward and backward."""
    variant: str
    """The form: "plain" is eager torch without kernels (for layers, the written-out loop that keeps every state),
    "compiled" a compiled step, "fused" with kernels, "network" the whole network by torch.compile, "graph" the fused
    form as a CUDA graph; others say what they do."""
    milliseconds: float
    peak_mib: float
    """Peak memory beyond what was allocated before; for a graph, while it was recorded."""
    speedup: float
    """Speed-up over the first variant of the same work."""
    matmul_share: float | None
    """Share of the measured limit for products, from the operations of the plain form's products."""
    bandwidth_share: float | None
    """Share of the measured memory bandwidth, from the bytes that must be moved at least."""
    error: float | None
    """Against float64, after 4 steps at most: of the gradients in training, else of the result; relative.
    None for a compiled network, which would have to be compiled again for it, and where starts are random."""
    first_seconds: float
    """The time of the very first call, including compilation; less if an earlier run left compiled code."""


def bench(
    pieces: Iterable[Piece],
    *,
    device: torch.device,
    precision: Precision = "float32",
    ceilings: Ceilings | None = None,
    repeats: int = 5,
) -> Iterator[Row]:
    """Measure every workload, all its forms in turn; cuDNN searches for fast algorithms, as in training."""
    searched = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield from _bench(pieces, device, precision, ceilings, repeats)
    finally:
        torch.backends.cudnn.benchmark = searched


def _bench(
    pieces: Iterable[Piece], device: torch.device, precision: Precision, ceilings: Ceilings | None, repeats: int
) -> Iterator[Row]:
    for piece in pieces:
        runner = Runner(piece, device, precision)
        tried = {name: trial for name in piece.forms if (trial := _attempt(runner, name)) is not None}
        errors = {name: error for name, (error, _) in tried.items()}
        if not errors:
            raise AkornError(f"{piece.case} {piece.size}: there is not enough memory for any of its forms")
        plain = {name: partial(runner.call, piece.forms[name]) for name in errors}
        graphs = {}
        for name in [name for name in errors if piece.forms[name].graph]:
            began = time.perf_counter()
            graphs[name] = runner.recorded(piece.forms[name])
            tried[name] = (errors[name], tried[name][1] + time.perf_counter() - began)
        peaks = {name: graph.peak_bytes for name, graph in graphs.items()}
        found = measure({**plain, **graphs}, device, repeats, peaks=peaks)
        base = next(iter(found.values())).seconds
        flops = runner.flops()
        for name, one in found.items():
            matmul = flops / one.seconds / ceilings.flops if ceilings is not None and flops else None
            memory = (
                piece.traffic / one.seconds / ceilings.bandwidth if ceilings is not None and piece.traffic else None
            )
            yield Row(
                piece.case, piece.name, piece.size, piece.n, piece.steps, piece.mode, name,
                one.seconds * 1e3 / piece.per, one.peak_bytes / 2**20, base / one.seconds, matmul, memory, errors[name],
                tried[name][1],
            )  # fmt: skip


def _attempt(runner: Runner, name: str) -> tuple[float | None, float] | None:
    """The error of a form against float64, and the time of its first call at full size; None if memory is short."""
    form = runner.piece.forms[name]
    try:
        began = time.perf_counter()
        runner.call(form)
        if runner.device.type == "cuda":
            torch.cuda.synchronize(runner.device)
        seconds = time.perf_counter() - began
        skipped = form.network or not runner.piece.compared
        return (None if skipped else runner.error(form)), seconds
    except torch.OutOfMemoryError:
        logging.getLogger(__name__).warning(
            "%s %s, %s: not enough memory, skipped", runner.piece.case, runner.piece.size, name
        )
        torch.cuda.empty_cache()
        return None


def as_records(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows as JSON values."""
    return [asdict(row) for row in rows]
