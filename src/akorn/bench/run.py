"""`akorn bench`: every variant of a layer beside the plain loop, in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor

from akorn.bench.cases import Size, build, check_names, plain_loop
from akorn.bench.measure import measure
from akorn.nn import KuramotoLayer


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    coupling: str
    size: str
    n: int
    steps: int
    mode: str
    """"forward", without gradients, or "training", forward and backward."""
    variant: str
    """"plain": the written-out loop that keeps every state; "layer"; "recompute"; "compiled"."""
    milliseconds: float
    peak_mib: float
    speedup: float
    """Against the plain loop of the same row."""


def bench(
    couplings: Sequence[str],
    sizes: Sequence[Size],
    steps: Sequence[int],
    *,
    n: int = 4,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
    repeats: int = 5,
) -> Iterator[Row]:
    """Measure each coupling, size and number of steps, forward alone and in training, variant by variant."""
    check_names(couplings)
    for name in couplings:
        for size in sizes:
            layer, x, c = build(name, size, n, device, dtype)
            if compiled:
                layer.compile_step()
            for count in steps:
                for mode in ("forward", "training"):
                    works = {
                        variant: partial(_work, layer, variant, x, c, count, mode)
                        for variant in _variants(mode, compiled)
                    }
                    found = measure(works, device, repeats)
                    base = found["plain"].seconds
                    for variant, one in found.items():
                        ms, mib = one.seconds * 1e3, one.peak_bytes / 2**20
                        yield Row(name, str(size), n, count, mode, variant, ms, mib, base / one.seconds)


def _variants(mode: str, compiled: bool) -> list[str]:
    names = ["plain", "layer"]
    if mode == "training":
        names.append("recompute")
    return [*names, "compiled"] if compiled else names


def _work(layer: KuramotoLayer, variant: str, x: Tensor, c: Tensor, steps: int, mode: str) -> None:
    layer.recompute = variant == "recompute"
    layer.use_compiled_step(variant == "compiled")
    with torch.set_grad_enabled(mode == "training"):
        last = plain_loop(layer, x, c, steps)[-1] if variant == "plain" else layer(x, c, steps)
    if mode == "training":
        last.square().mul(0.5).sum().add(last.sum()).backward()
        layer.zero_grad(set_to_none=True)


def as_records(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows as JSON takes them."""
    return [asdict(row) for row in rows]
