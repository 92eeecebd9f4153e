"""Time and peak memory of a piece of work, on the CPU or a GPU."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler would write a line to stderr for each use

Work = Callable[[], object]

_LEAST = 0.005  # shortest measurement on a GPU, in seconds


@dataclass(frozen=True)
class Measurement:
    """What one piece of work took."""

    seconds: float
    """Median over the repeats."""
    peak_bytes: int
    """Peak memory beyond what was allocated before."""


def measure(
    works: Mapping[str, Work],
    device: torch.device,
    repeats: int,
    *,
    peaks: Mapping[str, int] | None = None,
    memory: bool = True,
) -> dict[str, Measurement]:
    """Run each workload once to warm up, then all in turn `repeats` times, so that disturbances affect all equally.

    peaks: bytes of work that allocates nothing when it runs, counted elsewhere: of a CUDA graph, while it was recorded.
    memory: whether the memory is measured at all.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    calls = {}
    for name, work in works.items():
        work()
        # The host waits for the GPU only once in many short calls, so that launch times do not count.
        calls[name] = 1 if device.type != "cuda" else min(100, math.ceil(_LEAST / max(_seconds(work, device), 1e-6)))
    for _ in range(repeats):
        for name, work in works.items():
            seconds[name].append(_seconds(work, device, calls[name]))
    peak = partial(_peak_on_gpu, device=device) if device.type == "cuda" else _peak_on_cpu
    counted = peaks or {}
    held = {name: counted[name] if name in counted else peak(works[name]) for name in works if memory}
    return {name: Measurement(median(seconds[name]), held.get(name, 0)) for name in works}


def _seconds(work: Work, device: torch.device, calls: int = 1) -> float:
    """The time of one call: the mean of several consecutive ones."""
    if device.type != "cuda":
        start = time.perf_counter()
        work()
        if device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls


def _peak_on_gpu(work: Work, device: torch.device) -> int:
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_on_cpu(work: Work) -> int:
    """The running sum of every allocation and release that torch's profiler saw."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        work()
    results = run.profiler.kineto_results if run.profiler is not None else None
    events = [event for event in results.events() if event.name() == "[memory]"] if results is not None else []
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
