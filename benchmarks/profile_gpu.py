"""Where the time of training steps and of a vote goes, kernel by kernel; and which block size suits the update.

    python benchmarks/profile_gpu.py [WORK …] [--record results]      # sudoku vote shapes clevrtex cifar
    python benchmarks/profile_gpu.py --sweep [--record results]       # the update alone, over block sizes

Each WORK, a case of `akorn bench`, is profiled in the plain eager form, and with our kernels as a CUDA graph (in eager
calls where the profiler does not see into graphs). Milliseconds are those of one step, or of one board's vote; as long
as they exceed the kernels' sum, the device is idle for the difference. The floor is the time that the matrix products
need at the highest rate measured, and the time in which the bytes can be moved at the measured bandwidth. On a CPU
torch's operators take the place of kernels.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would write a line to stderr for each use
os.environ.setdefault("TEARDOWN_CUPTI", "0")  # CUPTI must stay through recording and replay, to see into graphs
os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from akorn.bench import CASES, Ceilings, Setup, measure_ceilings
from akorn.bench.measure import measure
from akorn.bench.work import Piece, Precision, Runner
from akorn.ledger import write_record

# Work → how `akorn bench` measures it: precision, and whether states are recomputed.
WORKS: dict[str, tuple[Precision, bool]] = {
    "sudoku": ("tf32", False),
    "vote": ("bf16", False),
    "shapes": ("bf16", True),
    "clevrtex": ("bf16", True),
    "cifar": ("bf16", False),
}

# The group of a kernel, or of an operator on the CPU, is the first whose pattern matches its name.
GROUPS = (
    ("optimiser", r"multi_tensor|fused_adam|_foreach|adam"),
    ("update backward", r"_update_backward_kernel|akorn::update_backward"),
    ("update forward", r"^_update_kernel|akorn::update"),
    ("norms, readout", r"_lengths|_norm_|group_?norm|batch_?norm|bn_[fb]w|layer_?norm|_norm\b|NormTwoOps|RowwiseMoments"
                       r"|ComputeInternalGradients|GammaBeta|Compute1dBackwardFused|vector_norm|akorn::group"),
    ("attention backward", r"_keys_kernel|_queries_kernel|_collect|_add_kernel|flash_bwd|mha_bwd"
                           r"|attention.*backward|akorn::attend_backward"),
    ("attention forward", r"attend_kernel|_attention_kernel|_turn_kernel|_output_kernel|_pack_kernel|flash_fwd|fmha"
                          r"|attention|akorn::attend"),
    ("convolution", r"conv|cudnn|implicit|wgrad|dgrad|fprop|winograd|nchwToNhwc|nhwcToNchw|fft"),
    ("products", r"gemm|gemv|cutlass|nvjet|xmma|splitK|_output_update_kernel|aten::(add)?b?mm|aten::baddbmm|aten::dot"),
    ("copies, casts", r"copy|memcpy|memset|CatArray|aten::(cat|to|_to_copy|clone|fill_|zero_|zeros|contiguous|stack)"
                      r"|FillFunctor|transpose"),
    ("element-wise, sums", r"elementwise|reduce_kernel|aten::(add|sub|mul|div|sum|mean|pow|neg|sqrt|amax|where|exp)"),
)  # fmt: skip
OTHER = "other"

# name → shape, N, memory order: the states of Sudoku, Shapes, CLEVRTex, and CIFAR-10's first block twice
SWEEP: dict[str, dict[str, tuple[tuple[int, ...], int, torch.memory_format]]] = {
    "full": {
        "sudoku": ((100, 81, 512), 4, torch.contiguous_format),
        "shapes": ((512, 400, 256), 4, torch.contiguous_format),
        "clevrtex": ((512, 256, 256), 4, torch.contiguous_format),
        "cifar, channels last": ((128, 64, 32, 32), 2, torch.channels_last),
        "cifar": ((128, 64, 32, 32), 2, torch.contiguous_format),
    },
    "tiny": {
        "tokens": ((2, 9, 16), 4, torch.contiguous_format),
        "pictures": ((2, 4, 3, 3), 2, torch.channels_last),
    },
}
ELEMENTS = {"full": (512, 1024, 2048, 4096, 8192), "tiny": (512,)}
WARPS = {"full": (2, 4, 8), "tiny": (4,)}
# Elements of an array per thread: at least (two loads of 16 bytes) and at most (backward holds more arrays).
THREAD = {"forward": (8, 32), "backward": (8, 16)}
LAUNCHES = 20


@dataclass(frozen=True)
class Part:
    """What a step spends on one kernel or one group."""

    name: str
    group: str
    milliseconds: float
    share: float
    """Its part of the time spent on all kernels."""
    count: float


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    started = time.monotonic()
    torch.manual_seed(0)
    device = torch.device(args.device)
    print(f"{torch.cuda.get_device_name() if device.type == 'cuda' else device}, torch {torch.__version__}", flush=True)
    metrics: dict[str, float] = {}
    extra: dict[str, Any] = {}
    if args.sweep:
        extra["sweep"] = sweep(device, args.size, metrics)
    else:
        for work in args.works or WORKS:
            extra[work] = profiled(work, device, args, metrics)
    if args.record:
        config = {"size": args.size, "steps": args.steps, "sweep": args.sweep, "works": WORKS}
        path = write_record(
            "bench", "update-sweep" if args.sweep else "profile", metrics, config=config, seed=0,
            data_fingerprint="none", wall_time=time.monotonic() - started, device=args.device, folder=args.record,
            extra=extra,
        )  # fmt: skip
        print(f"recorded in {path}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"any of {', '.join(WORKS)}; all by default")
    parser.add_argument("--sweep", action="store_true", help="time the update's kernels over block sizes instead")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--steps", type=int, default=3, help="how many steps to profile")
    parser.add_argument("--top", type=int, default=12, help="how many kernels to print; all are recorded")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write a record of the run into this folder")
    args = parser.parse_args(arguments)
    if unknown := [work for work in args.works if work not in WORKS]:
        parser.error(f"unknown work {unknown[0]!r}: the known ones are {', '.join(WORKS)}")
    return args


# ---------------------------------------------------------------- profiles


def profiled(work: str, device: torch.device, args: argparse.Namespace, metrics: dict[str, float]) -> dict[str, Any]:
    """Profile one case in its forms, print tables, and return what is recorded beside `metrics`."""
    precision, recompute = WORKS[work]
    half = precision == "bf16"
    setup = Setup(args.size, device, 2 if half else 4, compiled=False, recompute=recompute, precision=precision)
    (piece,) = CASES[work](setup)
    runner = Runner(piece, device, precision)
    ceilings = _ceilings(device, precision, args.size)
    floor = {
        "products": 1e3 * runner.flops() / ceilings.flops / piece.per,
        "bytes": 1e3 * piece.traffic / ceilings.bandwidth / piece.per,
    }
    metrics |= {f"{work}/floor/{name}/ms": value for name, value in floor.items()}
    print(f"\n{work}, {piece.size}, T = {piece.steps}, {precision}: products at their ceiling"
          f" {floor['products']:.3g} ms, bytes at theirs {floor['bytes']:.3g} ms ({ceilings})", flush=True)  # fmt: skip
    found: dict[str, Any] = {"floor": floor, "ceilings": asdict(ceilings)}
    once = piece.whole is not None  # a vote is T steps already
    for name, seen, call in _calls(runner, piece):
        seconds = measure({name: call}, device, 1 if once else 5, memory=False)[name].seconds
        kernels = by_kernel(seen, device, 1 if once else args.steps, piece.per)
        if not kernels:
            print(f" {name}: the profiler saw no kernels")
        busy, whole = sum(kernel.milliseconds for kernel in kernels), 1e3 * seconds / piece.per
        # Eager calls wait for the host, which the profiler slows down, so the time is taken without it.
        idle = max(0.0, 1.0 - busy / whole) if device.type == "cuda" else 0.0
        groups = by_group(kernels)
        metrics |= {f"{work}/{name}/ms": whole, f"{work}/{name}/kernels/ms": busy, f"{work}/{name}/idle": idle}
        metrics |= {f"{work}/{name}/{group.name}/ms": group.milliseconds for group in groups}
        found[name] = {"groups": [asdict(group) for group in groups], "kernels": [asdict(part) for part in kernels]}
        print(f" {name}: {whole:.3g} ms per step, {busy:.3g} ms in kernels, {idle:.0%} idle")
        for group in groups:
            print(_line(group, "  "))
        for part in kernels[: args.top]:
            print(_line(part, "    "))
    return found


def _calls(runner: Runner, piece: Piece) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """(name, what is profiled, what is timed) of each form: plain, and with kernels, as graphs where there are some."""
    plain = partial(runner.call, piece.forms["plain"])
    yield "plain", plain, plain
    graphs = {name: form for name, form in piece.forms.items() if form.graph}
    for name, form in (graphs or {name: form for name, form in piece.forms.items() if name == "fused"}).items():
        eager = partial(runner.call, form)
        timed: Callable[[], object] = runner.recorded(form) if form.graph else eager
        seen = timed if not form.graph or by_kernel(timed, runner.device) else eager
        yield name, seen, timed


def by_kernel(work: Callable[[], object], device: torch.device, count: int = 1, per: int = 1) -> list[Part]:
    """What one step spends on each kernel, the longest first; from `count` calls of `work`, each of `per` steps."""
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if on_gpu else [ProfilerActivity.CPU]
    work()
    with profile(activities=activities, acc_events=True) as run:
        for _ in range(count):
            work()
        if on_gpu:
            torch.cuda.synchronize(device)
    steps = count * per
    spent: dict[str, list[float]] = {}
    if on_gpu:
        results = run.profiler.kineto_results if run.profiler is not None else None
        for event in results.events() if results is not None else ():
            name = event.name()
            if event.device_type() == torch.autograd.DeviceType.CUDA and not _is_range(event, name):
                spent.setdefault(name, []).append(event.duration_ns() / 1e6)
    else:
        for average in run.key_averages():
            if average.self_cpu_time_total > 0:
                spent[average.key] = [average.self_cpu_time_total / 1e3 / average.count] * average.count
    total = sum(map(sum, spent.values()))
    parts: dict[str, Part] = {}
    for name, times in spent.items():
        key, ms = short(name), sum(times)
        before = parts.get(key, Part(key, group_of(name), 0.0, 0.0, 0.0))
        parts[key] = Part(
            key, before.group, before.milliseconds + ms / steps, before.share + ms / total,
            before.count + len(times) / steps,
        )  # fmt: skip
    return sorted(parts.values(), key=lambda part: -part.milliseconds)


def _is_range(event: Any, name: str) -> bool:
    """Whether an event on the device is a range that spans kernels rather than a kernel."""
    marked = getattr(event, "is_user_annotation", None)
    return bool(marked and marked()) or name.startswith(("Optimizer.", "ProfilerStep", "Torch-Compiled"))


def by_group(kernels: Sequence[Part]) -> list[Part]:
    """The same by group, the longest first."""
    sums: dict[str, Part] = {}
    for part in kernels:
        before = sums.get(part.group, Part(part.group, part.group, 0.0, 0.0, 0.0))
        sums[part.group] = Part(
            part.group, part.group, before.milliseconds + part.milliseconds, before.share + part.share,
            before.count + part.count,
        )  # fmt: skip
    return sorted(sums.values(), key=lambda part: -part.milliseconds)


def group_of(name: str) -> str:
    """The group that a kernel or an operator belongs to."""
    return next((group for group, pattern in GROUPS if re.search(pattern, name, re.IGNORECASE)), OTHER)


def short(name: str, width: int = 76) -> str:
    """A kernel's name without the prefixes and arguments that most names have, cut to `width`."""
    name = re.sub(r"^void |at::native::|\(anonymous namespace\)::|<unnamed>::|std::|c10::", "", name)
    name = re.sub(r"\(.*\)( const)?$", "", name)
    return name if len(name) <= width else name[: width - 1] + "…"


def _line(part: Part, indent: str) -> str:
    return f"{indent}{part.name:<78}{part.milliseconds:9.4f} ms {part.share:6.1%} {part.count:8.1f}×"


def _ceilings(device: torch.device, precision: Precision, size: str) -> Ceilings:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    try:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        return measure_ceilings(device, dtype, tiny=size == "tiny")
    finally:
        torch.set_float32_matmul_precision(before)


# ---------------------------------------------------------------- the update's block sizes


def sweep(device: torch.device, size: str, metrics: dict[str, float]) -> list[dict[str, Any]]:
    """Time the update's kernels over block sizes; print the best of each case beside the block in use."""
    from akorn.kernels import update, update_backward

    bandwidth = _ceilings(device, "float32", size).bandwidth
    print(f"memory: {bandwidth / 1e9:.0f} GB/s")
    rows: list[dict[str, Any]] = []
    in_use = {"forward": update.BLOCK, "backward": update_backward.BLOCK}
    for case, (shape, n, memory) in SWEEP[size].items():
        for dtype in (torch.bfloat16, torch.float32):
            for way, used in in_use.items():
                here = []
                for block in _blocks(size, way):
                    work, moved = _update(way, shape, n, memory, dtype, device, block)
                    row = {
                        "case": case, "shape": list(shape), "jx": str(dtype).removeprefix("torch."), "way": way,
                        "elements": block.elements, "warps": block.warps, "in_use": block == used,
                    }  # fmt: skip
                    seconds = graph_timed(work, device)
                    here.append({**row, "us": 1e6 * seconds, "gb_s": moved / seconds / 1e9,
                                 "share": moved / seconds / bandwidth})  # fmt: skip
                here.sort(key=lambda row: row["us"])
                rows += here
                print(f"{case}, {'×'.join(map(str, shape))}, N = {n}, Jx {here[0]['jx']}, {way}:")
                for place, row in enumerate(here):
                    if place < 3 or row["in_use"]:
                        print(f"  {row['elements']:5d} elements {row['warps']} warps {row['us']:9.1f} µs"
                              f" {row['gb_s']:7.0f} GB/s {row['share']:6.1%}{'  ← in use' if row['in_use'] else ''}",
                              flush=True)  # fmt: skip
    for row in rows:
        name = f"{row['case']}/{row['jx']}/{row['way']}/{row['elements']}x{row['warps']}"
        metrics |= {f"{name}/us": row["us"], f"{name}/share": row["share"]}
    return rows


def _blocks(size: str, way: str) -> Iterator[Any]:
    from akorn.kernels.update_backward import Block

    least, most = THREAD[way]
    for elements in ELEMENTS[size]:
        for warps in WARPS[size]:
            if least <= elements // (32 * warps) <= most or size == "tiny":
                yield Block(elements, warps)


def _update(
    way: str, shape: tuple[int, ...], n: int, memory: torch.memory_format, dtype: torch.dtype, device: torch.device,
    block: Any,
) -> tuple[Callable[[], object], int]:  # fmt: skip
    """One launch of a kernel, and the bytes that it moves: x and c in float32, Jx in `dtype`."""
    from akorn.kernels.update import update_into
    from akorn.kernels.update_backward import launch_backward

    def draw(kind: torch.dtype) -> Tensor:
        return torch.randn(shape, device=device).to(kind).contiguous(memory_format=memory)

    x, jx, c, other = draw(torch.float32), draw(dtype), draw(torch.float32), draw(torch.float32)
    gamma, rate = torch.full((), 0.5, device=device), torch.full((1,), 0.3, device=device)
    read = sum(array.nbytes for array in (x, jx, c))
    if way == "forward":
        return lambda: update_into(other, None, x, jx, c, gamma, rate, n, True, 0.0, block), read + x.nbytes
    wanted = [True, True, True]

    def back() -> object:
        return launch_backward(other, None, x, jx, c, gamma, rate, n, True, None, wanted, block)

    # Jx and c share one gradient if they have the same type
    written = x.nbytes + jx.nbytes + (c.nbytes if jx.dtype != c.dtype else 0)
    return back, read + other.nbytes + written


def graph_timed(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Seconds per call, from a CUDA graph of many calls, so that launches do not count."""
    work()
    if device.type != "cuda":
        return measure({"": work}, device, 1, memory=False)[""].seconds
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            work()
    graph.replay()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times) / LAUNCHES


if __name__ == "__main__":
    main()
