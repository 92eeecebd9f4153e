"""Chooses the form of a kernel: a few candidates, each timed once on the real arguments."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from akorn.kernels.choices import recall, remember


@dataclass(frozen=True)
class Config:
    """How a kernel is divided into programs; the meaning of `block`, `columns` and `depth` is up to the kernel."""

    block: int
    warps: int
    stages: int
    columns: int = 0
    depth: int = 0
    registers: int | None = None  # the maximum per thread, so that more programs share a multiprocessor
    group: int = 1  # pieces of work that a program does one after the other
    packed: bool = False  # two 16-bit values per instruction
    early: bool = False  # what is needed last is requested first

    @property
    def options(self) -> dict[str, int]:
        """The launch options for Triton."""
        options = {"num_warps": self.warps, "num_stages": self.stages}
        return options if self.registers is None else {**options, "maxnreg": self.registers}


Choice = TypeVar("Choice", bound=Hashable)

_CHOSEN: dict[Hashable, Any] = {}
_COMPILING = ContextVar("compiling", default=False)  # whether launches only compile
_LAUNCHES = 8  # per timing; the kernels take tens of microseconds
_GAIN = 0.98  # of the time: a smaller gain is noise, and choices should be the same in every run


def best(
    key: Hashable,
    choices: Sequence[Choice],
    launch: Callable[[Choice], None],
    result: Tensor | None = None,
    ahead: bool = True,
) -> Choice:
    """The fastest choice for `key`, timed at the first call; the first one if there is nothing to time.

    `result` is the array that `launch` writes: a choice whose result differs from that of the first one, up to
    rounding, is left out. `ahead`: compile all choices before the first is timed; `launch` must then start its kernels
    through `call`.
    """
    expected: Tensor | None = None

    def time(choice: Choice) -> float:
        nonlocal expected
        taken = time_launches(lambda: launch(choice), _LAUNCHES)
        if result is None or taken == float("inf"):
            return taken
        if expected is None:
            expected = result.clone()
        elif not _agree(result, expected):
            logging.getLogger(__name__).warning("%s gives different results from %s: not used", choice, choices[0])
            return float("inf")
        return taken

    return fastest(key, choices, time, partial(_compile, launch) if ahead else None)


def call(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    """kernel[grid]; while `best` compiles the candidates, this only compiles."""
    return partial(kernel.warmup, grid=grid) if _COMPILING.get() else cast(Callable[..., Any], kernel[grid])


def _compile(launch: Callable[[Choice], None], choices: Sequence[Choice]) -> None:
    """Compile all choices in parallel: one after the other they would take most of a first call.

    Choices within choices are compiled along with them, so that no core waits.
    """
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

    if _COMPILING.get():
        for choice in choices:
            launch(choice)
        return
    compiling = _COMPILING.set(True)
    try:
        # Compilation errors are raised again when the choice is timed.
        with ThreadPoolExecutor(os.cpu_count()) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
            for choice in choices:
                with contextlib.suppress(torch.cuda.OutOfMemoryError):
                    launch(choice)
    finally:
        _COMPILING.reset(compiling)


def fastest(
    key: Hashable,
    choices: Sequence[Choice],
    time: Callable[[Choice], float],
    prepare: Callable[[Sequence[Choice]], None] | None = None,
) -> Choice:
    """The choice with the smallest `time`, remembered under `key`; the earlier one if two are about equally fast.

    Also remembered on disk, so that later processes make the same choice (`akorn.kernels.choices`). `prepare` is called
    with all choices before they are timed.
    """
    if key not in _CHOSEN:
        if not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
            return choices[0]
        chosen = recall(key, choices)
        if chosen is None:
            several = tuple(dict.fromkeys(choices))
            if prepare is not None:
                prepare(several)
            if _COMPILING.get():
                return choices[0]
            chosen, shortest = choices[0], float("inf")
            for choice in several:
                taken = time(choice)
                if taken < _GAIN * shortest:
                    chosen, shortest = choice, taken
            remember(key, chosen)
        _CHOSEN[key] = chosen
    return cast(Choice, _CHOSEN[key])


def _agree(result: Tensor, expected: Tensor) -> bool:
    """Whether they are the same, up to rounding; values that are not finite must be so in both."""
    largest = expected.float().abs().max()
    return bool(((result.float() - expected.float()).abs().max() <= 0.05 * largest) | ~largest.isfinite())


def chosen() -> dict[Hashable, Any]:
    """The choices so far, for reports."""
    return dict(_CHOSEN)


def precision(dtype: torch.dtype) -> str:
    """How the kernels multiply matrices: float32 as three TF32 products, which lose almost nothing.

    Plain float32 products take Triton minutes to compile at these sizes. "wide" multiplies float32 copies: Triton's
    interpreter misreads the bits of bfloat16 operands as whole numbers.
    """
    if dtype == torch.float32:
        return "tf32x3"
    return "wide" if interpreted() else "tf32"


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def time_launches(launch: Callable[[], None], count: int) -> float:
    """Milliseconds of `count` launches, the shortest of three timings; infinite if the GPU lacks memory for it."""
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

    try:
        launch()  # compiles
        times = []
        for _ in range(3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(count):
                launch()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
    except (triton.runtime.errors.OutOfResources, triton.runtime.errors.PTXASError, torch.cuda.OutOfMemoryError):
        return float("inf")
    return min(times)
