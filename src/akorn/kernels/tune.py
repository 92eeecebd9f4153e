"""Choosing the block sizes of a kernel: a handful of candidates, each timed once on the arguments it will run on."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Config:
    """How a kernel is cut into programs; what `block`, `columns` and `depth` count is the kernel's affair."""

    block: int
    warps: int
    stages: int
    columns: int = 0
    depth: int = 0
    registers: int | None = None  # the most a thread may have, so that more programs share a multiprocessor

    @property
    def options(self) -> dict[str, int]:
        """What Triton is told at the launch."""
        options = {"num_warps": self.warps, "num_stages": self.stages}
        return options if self.registers is None else {**options, "maxnreg": self.registers}


_CHOSEN: dict[Hashable, Config] = {}
_LAUNCHES = 8  # a timing; the kernels take tens of microseconds


def best(key: Hashable, configs: Sequence[Config], launch: Callable[[Config], None]) -> Config:
    """The fastest config for `key`, timed at the first call; the first one where there is nothing to time."""
    if key not in _CHOSEN:
        if not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
            return configs[0]
        times = {config: _time(config, launch) for config in dict.fromkeys(configs)}
        _CHOSEN[key] = min(times, key=times.__getitem__)
    return _CHOSEN[key]


def chosen() -> dict[Hashable, Config]:
    """What has been chosen so far, for reports."""
    return dict(_CHOSEN)


def precision(dtype: torch.dtype) -> str:
    """How the kernels multiply matrices: float32 as three TF32 products, which lose next to nothing.

    Plain float32 products take Triton minutes to compile at these sizes. "wide" multiplies float32 copies: Triton's
    interpreter takes the bits of bfloat16 operands for whole numbers.
    """
    if dtype == torch.float32:
        return "tf32x3"
    return "wide" if os.environ.get("TRITON_INTERPRET") == "1" else "tf32"


def _time(config: Config, launch: Callable[[Config], None]) -> float:
    """The shortest of three timings, in milliseconds; infinite where the GPU has no room for the config."""
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

    try:
        launch(config)  # compiles
    except triton.runtime.errors.OutOfResources:
        return float("inf")
    times = []
    for _ in range(3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(_LAUNCHES):
            launch(config)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)
