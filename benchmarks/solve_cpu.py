"""Solving on a CPU: the shipped Sudoku model beside its matrix products alone and the plain eager loop.

    OMP_NUM_THREADS=2 python benchmarks/solve_cpu.py [--rule without-projection] [--record results]

8 starts of one board run through T = 128 steps in float32, energies included. "products" are the matrix products of
those steps alone, on preallocated arrays: W^QKV x, QKᵀ, AV, W^O o and, if the coupling has an MLP, its two. "packed"
are the same with weights that oneDNN has packed, "plain" is the layer's own loop, "solve" is `akorn.nn.solve_steps`,
and "narrow" is "solve" with bfloat16 products, on CPUs that are faster with them. They take turns, and the median of
each counts. The error is the difference from float64 after 8 steps, before small differences have grown.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from akorn import kernels
from akorn import oscillators as osc
from akorn.execution.solve import Unknown
from akorn.kernels import solve_cpu
from akorn.kernels.packed import Product
from akorn.ledger import write_record
from akorn.nn import FeedForwardCoupling, Kuramoto, KuramotoLayer, WithoutProjection, solve_steps
from akorn.nn.solve import described, floating
from akorn.runtime.devices import quick_bfloat16
from akorn.sudoku.board import parse_board
from akorn.sudoku.examples import EXAMPLES
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import SudokuNet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--model", default="sudoku")
    parser.add_argument("--rule", choices=["kuramoto", "without-projection"], help="instead of the model's own")
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    words = parser.parse_args()
    began = time.monotonic()
    torch.set_grad_enabled(False)
    model = SudokuNet.from_pretrained(words.model)
    layer = model.blocks[-1].layer
    if words.rule is not None:
        layer.rule = Kuramoto() if words.rule == "kuramoto" else WithoutProjection()
    puzzle = torch.from_numpy(parse_board(EXAMPLES["hard"]))[None].expand(words.starts, -1)
    numbers = torch.arange(words.starts)
    x = start_noise(board_keys(puzzle), numbers, 0, (81, model.config.channels))
    c = model.embedding(puzzle.long())
    step = described(layer)
    why = step.reason if isinstance(step, Unknown) else solve_cpu.why_not(step, x, c, floating(layer))
    if why is not None or not kernels.enabled():
        raise SystemExit(f"the fast path does not apply here: {why or 'AKORN_KERNELS=0'}")

    works = {
        "products": products(layer, x, words.steps, packed=False),
        "packed": products(layer, x, words.steps, packed=True),
        "plain": lambda: layer.evolve(x, c, words.steps, energy=osc.energy),
        "solve": lambda: solve_steps(layer, x, c, words.steps),
    }
    if quick_bfloat16():
        works["narrow"] = lambda: solve_steps(layer, x, c, words.steps, dtype=torch.bfloat16)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(words.repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    found = {f"{name}_seconds": statistics.median(times) for name, times in seconds.items()}
    found["solve_against_products"] = found["solve_seconds"] / found["products_seconds"]
    found["solve_against_packed"] = found["solve_seconds"] / found["packed_seconds"]
    found["plain_against_solve"] = found["plain_seconds"] / found["solve_seconds"]
    if "narrow" in works:
        found["plain_against_narrow"] = found["plain_seconds"] / found["narrow_seconds"]
    exact = copy.deepcopy(layer).double()(x.double(), c.double(), 8)
    found["error"] = float((solve_steps(layer, x, c, 8)[0] - exact).abs().max())
    found["plain_error"] = float((layer(x, c, 8) - exact).abs().max())
    threads = torch.get_num_threads()
    print(f"{words.starts} starts, T = {words.steps}, {threads} threads, torch {torch.__version__}")
    for name, value in found.items():
        print(f"{name:24s} {value:.3g}")
    if words.record is not None:
        config = {
            "model": words.model,
            "rule": type(layer.rule).__name__,
            "starts": words.starts,
            "steps": words.steps,
            "threads": threads,
        }
        path = write_record(
            "bench", "sudoku-solving-cpu", found, config=config, seed=0, data_fingerprint="none",
            wall_time=time.monotonic() - began, device="cpu", folder=words.record, extra={"seconds": seconds},
        )  # fmt: skip
        print(f"recorded in {path}")


def products(layer: KuramotoLayer, x: torch.Tensor, steps: int, packed: bool) -> Callable[[], None]:
    """The matrix products of all steps, and nothing else."""
    behind = layer.coupling if isinstance(layer.coupling, FeedForwardCoupling) else None
    attention = layer.coupling if behind is None else behind.coupling
    maps, heads = attention.maps, attention.heads
    batch, tokens, channels = x.shape
    rows = x.reshape(-1, channels)
    qkv, jx = rows.new_empty(len(rows), 3 * channels), torch.empty_like(rows)
    q, k, v = (torch.randn(batch * heads, tokens, channels // heads) for _ in range(3))
    scores, heard = torch.empty(batch * heads, tokens, tokens), torch.empty_like(q)

    first, last = (Product(linear.weight, None) for linear in (maps.qkv, maps.output))
    wide: list[tuple[Product, torch.Tensor, torch.Tensor, torch.Tensor]] = []
    if behind is not None:
        hidden = rows.new_empty(len(rows), behind.expand.out_features)
        for linear, source, target in ((behind.expand, rows, hidden), (behind.contract, hidden, jx)):
            wide.append((Product(linear.weight, None), linear.weight.T, source, target))

    def work() -> None:
        for _ in range(steps):
            first(rows) if packed else torch.mm(rows, maps.qkv.weight.T, out=qkv)
            torch.bmm(q, k.mT, out=scores)
            torch.bmm(scores, v, out=heard)
            last(rows) if packed else torch.mm(rows, maps.output.weight.T, out=jx)
            for product, weight, source, target in wide:
                product(source) if packed else torch.mm(source, weight, out=target)

    return work


if __name__ == "__main__":
    main()
