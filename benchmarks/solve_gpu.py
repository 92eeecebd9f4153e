"""Sudoku-size solving on one GPU: the fused kernels checked against float64, then timed beside the plain forms.

    python benchmarks/solve_gpu.py [--quick] [--rule without-projection] [--record results] [--json FILE]

It times every kernel in every configuration, all steps in every variant, and a whole vote. Each time is the median of
several, taken by CUDA events; a "sample" is one start of one board through all T steps. This takes less than a minute
on an H200, and 20 s with --quick, which times only the steps and the vote, in the forms that are chosen automatically.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from solve_check import check, draw, fused, sudoku_layer

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.kernels import solve, solve_attention, solve_output, solve_run, tune, update
from akorn.ledger import write_record
from akorn.nn.solve import described
from akorn.sudoku import hashed_starts, voting
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.model import SudokuModel

REPEATS = 5


def main() -> None:
    args = arguments()
    started = time.monotonic()
    torch.manual_seed(0)
    device = torch.device(args.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu (interpreter)"
    print(f"{name}, torch {torch.__version__}, triton {triton.__version__}", flush=True)
    layer = sudoku_layer(args).to(device)
    record: dict[str, Any] = {"device": name, "torch": torch.__version__, "triton": triton.__version__}
    with torch.no_grad():
        if not args.quick:
            record["errors"] = check(layer, args)
            record["kernels"] = {size: kernel_times(layer, size, args) for size in args.kernel_chunks}
            record["a_sample"] = {size: solve_times(layer, size, args) for size in args.chunks}
            record["blocks"] = block_times(layer, args)
            record["plain"] = plain_times(layer, args)
        record["chosen"] = chosen_times(layer, args)
        record["vote"] = vote_times(args)
    record["configs"] = {str(key): str(config) for key, config in tune.chosen().items()}
    for key, config in tune.chosen().items():
        print(key, config)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1, default=str) + "\n")
    if args.record:
        config = {key: value for key, value in vars(args).items() if key not in ("device", "record", "json")}
        path = write_record(
            "bench", "sudoku-solving", metrics_of(record), config=config, seed=0, data_fingerprint="none",
            wall_time=time.monotonic() - started, device=args.device, folder=args.record,
            extra=json.loads(json.dumps(record, default=str)),
        )  # fmt: skip
        print(f"recorded in {path}")


def metrics_of(record: dict[str, Any]) -> dict[str, float]:
    """The times under the names that the ledger has for them, such as fused/chunk256/ms_a_sample."""
    found: dict[str, float] = {}
    for size, times in record.get("a_sample", {}).items():
        for name, value in times.items():
            variant, first, _ = name.partition(": first call, s")
            found[f"{slug(variant)}/chunk{size}/{'first_call_s' if first else 'ms_a_sample'}"] = value
    for name, value in record.get("plain", {}).items():
        variant, _, size = name.partition(", chunk ")
        found[f"{slug(variant)}/chunk{size}/ms_a_sample"] = value
    for size, times in record.get("kernels", {}).items():
        found |= {f"{slug(name)}/chunk{size}/us_a_step": value for name, value in times.items()}
    for part in ("blocks", "chosen", "vote"):
        found |= {f"{part}/{slug(name)}": value for name, value in record.get(part, {}).items()}
    return found


def slug(name: str) -> str:
    return re.sub(r"[^\w×^]+", "-", name).strip("-")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--grid", type=int, default=9)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--rule", default="kuramoto", choices=["kuramoto", "without-projection"])
    parser.add_argument("--quick", action="store_true", help="only the steps and the vote, in automatic form")
    parser.add_argument("--chunks", type=int, nargs="*", default=[128, 256, 512, 1024])
    parser.add_argument("--kernel-chunks", type=int, nargs="*", default=[128, 512])
    parser.add_argument("--boards", type=int, default=40, help="how many boards the vote has")
    parser.add_argument("--votes", type=int, default=100, help="starts per board")
    parser.add_argument("--eager", type=int, nargs="*", default=[256])
    parser.add_argument(
        "--compiled", type=int, nargs="*", default=[], help="chunks, such as 256: compiling takes half a minute"
    )
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write a record of the run into this folder")
    return parser.parse_args()


def timed(work: Callable[[], object]) -> float:
    """The median time of `work` in milliseconds, after one call that does not count."""
    work()
    times = []
    for _ in range(REPEATS):
        if torch.cuda.is_available():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        else:
            before = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - before))
    return statistics.median(times)


def graph_timed(work: Callable[[], object], count: int = 20) -> float:
    """Milliseconds per call of `work`, from a CUDA graph of `count` calls, so that launches do not matter."""
    work()
    if not torch.cuda.is_available():
        return timed(work)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            work()
    return timed(graph.replay) / count


def kernel_times(layer: akn.KuramotoLayer, batch: int, args: argparse.Namespace) -> dict[str, float]:
    """Microseconds of each kernel of a step, in every configuration."""
    w = {key: value.bfloat16() for key, value in solve.weights_of(described(layer)).items()}
    gamma, rate, project = w["gamma"].float(), w["rate"].float(), args.rule == "kuramoto"
    x, c, o, jx = (draw(batch, args, torch.bfloat16) for _ in range(4))
    x = osc.ungroup(osc.normalize(osc.group(x, 4)))
    qkv = draw(batch, args, torch.bfloat16, 3)
    rows, channels = batch * args.grid**2, args.channels
    times: dict[str, float] = {}

    def report(name: str, work: Callable[[], object], flops: float = 0.0, arrays: float = 0.0) -> None:
        try:
            micro = 1e3 * graph_timed(work)
        except triton.runtime.errors.OutOfResources as error:
            print(f"  {name}: {error}")
            return
        times[name] = micro
        rates = f"{flops / micro / 1e6:7.1f} TFLOP/s" if flops else ""
        rates += f"{2 * arrays * rows * channels / micro / 1e6:6.2f} TB/s" if arrays else ""
        print(f"  {name:<64}{micro:9.2f} µs{micro / batch:9.4f} µs per sample and step  {rates}", flush=True)

    print(f"kernels, {batch} samples, bfloat16:")
    report("product with W^QKV", lambda: solve_run.multiply(x, w["qkv"], w["bias"], qkv), 6.0 * rows * channels**2, 4)
    draws = draw(batch, args, torch.bfloat16, 3)
    for config in solve_attention.CONFIGS:
        report(
            f"attention {short(config)}",
            lambda config=config: solve_attention.attention_into(o, draws, w["matrices"], args.heads, config),
            4.0 * rows * args.grid**2 * channels, 4,
        )  # fmt: skip
    report("attention, no positions", lambda: solve_attention.attention_into(o, draws, None, args.heads), arrays=4)
    for config in dict.fromkeys(solve_output.output_config(config, channels) for config in solve_output.CONFIGS):
        parts = torch.empty(rows, channels // config.columns, device=x.device)
        report(
            f"W^O and update {short(config)}",
            lambda config=config, parts=parts: solve_output.output_update_into(
                jx, parts, o, w["output"], x, c, gamma, rate, 4, project, 0.5, config
            ),
            2.0 * rows * channels**2, 4,
        )  # fmt: skip
    report("product with W^O alone", lambda: solve_run.multiply(o, w["output"], None, jx), 2.0 * rows * channels**2, 2)
    parts = torch.empty(batch, update.update_parts(channels, args.grid**2, 4), device=x.device)
    report("update alone", lambda: update.update_into(jx, parts, x, o, c, gamma, rate, 4, project, 0.5), arrays=4)
    return times


def short(config: tune.Config) -> str:
    tile = "×".join(str(size) for size in (config.block, config.columns, config.depth) if size)
    more = f", {config.group} heads" * (config.group > 1) + ", packed" * config.packed + ", early" * config.early
    return f"{tile}, {config.warps} warps, {config.stages} stages, {config.registers or 'any'} registers{more}"


def solve_times(layer: akn.KuramotoLayer, batch: int, args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds per sample for all steps: the products alone, and the fused path in its variants."""
    x, c = draw(batch, args), draw(batch, args)
    times = {"products": args.steps * graph_timed(products(batch, layer, args), 8)}
    for name, options in (
        ("fused", {"fuse_output": True}),
        ("fused, 2 lanes", {"fuse_output": True, "lanes": 2}),
        ("update apart", {"fuse_output": False}),
        ("update apart, 2 lanes", {"fuse_output": False, "lanes": 2}),
    ):
        before = time.perf_counter()
        fused(layer, x, c, args.steps, chunk=batch, **options)
        if x.is_cuda:
            torch.cuda.synchronize()
        first = time.perf_counter() - before
        times[name] = timed(lambda o=options: fused(layer, x, c, args.steps, chunk=batch, **o))
        times[f"{name}: first call, s"] = first
    solve._RUNS.clear()
    print(f"T = {args.steps}, chunk {batch}: ms per sample: "
          + ", ".join(f"{name} {ms / batch:.4f}" for name, ms in times.items() if "first" not in name)
          + f"  (first call {times['fused: first call, s']:.1f} s)", flush=True)  # fmt: skip
    return {name: value if "first" in name else value / batch for name, value in times.items()}


def block_times(layer: akn.KuramotoLayer, args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds per sample for all steps, with CUDA graphs of at most 8, 16 or 32 steps, and without energies."""
    batch = args.chunks[-1]
    x, c = draw(batch, args), draw(batch, args)
    times: dict[str, float] = {}
    before = solve_run.BLOCKS
    for most in (8, 16, 32):
        solve_run.BLOCKS = (most, *(size for size in before if size < most))
        work = lambda energy="eq3": fused(layer, x, c, args.steps, energy, chunk=batch)  # noqa: E731
        times[f"{most} steps a graph, ms a sample"] = timed(work) / batch
        solve._RUNS.clear()
    solve_run.BLOCKS = before
    times["no energies, ms a sample"] = timed(lambda: work(None)) / batch
    solve._RUNS.clear()
    print(f"chunk {batch}: " + ", ".join(f"{name} {ms:.4f}" for name, ms in times.items()), flush=True)
    return times


def chosen_times(layer: akn.KuramotoLayer, args: argparse.Namespace) -> dict[str, float]:
    """All steps for a vote's samples, in the form that is chosen automatically."""
    batch = args.boards * args.votes
    x, c = draw(batch, args), draw(batch, args)
    before = time.perf_counter()
    fused(layer, x, c, args.steps)
    if x.is_cuda:
        torch.cuda.synchronize()
    first = time.perf_counter() - before
    each = timed(lambda: fused(layer, x, c, args.steps)) / batch
    print(f"{batch} samples, forms chosen by timing: {each:.4f} ms per sample (first call {first:.1f} s)", flush=True)
    solve._RUNS.clear()
    return {"ms a sample": each, "first call, s": first}


def vote_times(args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds per board for the whole energy vote, from puzzles to answers, and for its parts."""
    config = SudokuConfig(channels=args.channels, heads=args.heads, rule=args.rule)
    net = SudokuModel(config).to(args.device).eval()
    boards, votes = args.boards, args.votes
    puzzles = torch.randint(0, 2, (boards, 81)) * torch.randint(1, 10, (81,))
    vote = voting.VoteConfig(args.steps, votes, squares=False)
    keys = hashed_starts.board_keys(puzzles.to(args.device)).repeat_interleave(votes)
    starts = torch.arange(boards * votes, device=args.device) % votes
    times = {
        "ms a board": timed(lambda: voting.run(net, puzzles, vote)) / boards,
        "starts, ms a board": timed(lambda: hashed_starts.start_noise(keys, starts, 0, (81, args.channels))) / boards,
    }
    one = voting.VoteConfig(1, votes, squares=False)
    times["one step, ms a board"] = timed(lambda: voting.run(net, puzzles, one)) / boards
    print(f"vote, {boards} boards × {votes}, T = {args.steps}: "
          + ", ".join(f"{name} {ms:.3f}" for name, ms in times.items()), flush=True)  # fmt: skip
    return times


def products(batch: int, layer: akn.KuramotoLayer, args: argparse.Namespace) -> Callable[[], None]:
    """The matrix products of a step and nothing else."""
    w = {key: value.bfloat16() for key, value in solve.weights_of(described(layer)).items()}
    x, jx = draw(batch, args, torch.bfloat16), draw(batch, args, torch.bfloat16)
    qkv = draw(batch, args, torch.bfloat16, 3)
    head_dim, tokens = args.channels // args.heads, args.grid**2
    q, k, v, o = (torch.randn(batch * args.heads, tokens, head_dim, device=args.device).bfloat16() for _ in range(4))
    scores = torch.empty(batch * args.heads, tokens, tokens, device=args.device, dtype=torch.bfloat16)

    def work() -> None:
        solve_run.multiply(x, w["qkv"], None, qkv)
        torch.bmm(q, k.mT, out=scores)
        torch.bmm(scores, v, out=o)
        solve_run.multiply(x, w["output"], None, jx)

    return work


def plain_times(layer: akn.KuramotoLayer, args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds per sample for the layer's own loop in bfloat16, as it is and compiled."""
    times: dict[str, float] = {}
    layer = copy.deepcopy(layer).bfloat16()
    for name, sizes in (("eager", args.eager), ("compile_step", args.compiled)):
        if name == "compile_step" and sizes:
            layer.compile_step(dynamic=False)
        for batch in sizes:
            x, c = draw(batch, args, torch.bfloat16), draw(batch, args, torch.bfloat16)
            before = time.perf_counter()
            layer.evolve(x, c, 1, energy=osc.energy)
            first = time.perf_counter() - before
            key = f"{name}, chunk {batch}"
            times[key] = timed(lambda x=x, c=c: layer.evolve(x, c, args.steps, energy=osc.energy)) / batch
            print(f"{key}: {times[key]:.4f} ms per sample (first step {first:.1f} s)", flush=True)
    return times


if __name__ == "__main__":
    main()
