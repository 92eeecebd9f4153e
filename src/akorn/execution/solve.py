"""T steps without gradients, for solving: by the CPU's long passes, as CUDA graphs, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from akorn import kernels
from akorn.kernels.solve_step import AttentiveStep

__all__ = ["AttentiveStep", "Energy", "FastSteps", "Unknown", "fast_steps"]

Energy = Literal["eq3", "published"]
"""Eq. 3, or the published one, whose pair term is without the ½."""

FastSteps = Callable[[Tensor, Tensor, int, Energy | None], tuple[Tensor, Tensor | None]]
"""(x, c, steps, energy) → the last state and the energies before each step, [steps, B]."""


@dataclass(frozen=True)
class Unknown:
    """A step that cannot be described by tensors."""

    reason: str
    """What of it is not known, in words."""


def fast_steps(
    step: AttentiveStep | Unknown,
    x: Tensor,
    c: object,
    *,
    weights: Sequence[Tensor],
    dtype: torch.dtype | None,
    owner: object,
) -> FastSteps | None:
    """The quickest form of many steps; None where only the plain loop will do.

    Args:
        step: the step, as tensors.
        x: the first state.
        c: the stimulus as it was given.
        weights: all arrays that make c and a step what they are.
        dtype: of weights and states on a GPU, by default bfloat16; on a CPU they are float32.
        owner: what was prepared is kept for the next call with this object, as long as it lives.

    """
    if isinstance(step, Unknown) or not kernels.enabled() or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if x.is_cuda and kernels.available():
        from akorn.kernels import solve

        if not torch.cuda.is_current_stream_capturing() and solve.why_not(step, x, c, weights) is None:
            narrow = dtype or torch.bfloat16
            return lambda x, c, steps, energy: solve.fused_steps(step, x, c, steps, energy, narrow, owner=owner)
    if x.device.type == "cpu" and dtype in (None, torch.float32):
        from akorn.kernels import solve_cpu

        if solve_cpu.why_not(step, x, c, weights) is None:
            return lambda x, c, steps, energy: solve_cpu.fast_steps(step, x, c, steps, energy, owner=owner)
    return None
