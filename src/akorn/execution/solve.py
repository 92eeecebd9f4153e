"""T steps without gradients, for solving: in long passes on a CPU, as CUDA graphs, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from akorn import kernels
from akorn.kernels.solve_step import AttentiveStep, Mlp

__all__ = ["AttentiveStep", "Energy", "FastSteps", "Mlp", "Unknown", "fast_steps", "is_known"]

Energy = Literal["eq3", "published"]
"""Eq. 3, or the published energy, whose pair term lacks the ½."""

FastSteps = Callable[[Tensor, Tensor, int, Energy | None], tuple[Tensor, Tensor | None]]
"""(x, c, steps, energy) → the last state and the energies before each step, [steps, B]."""


@dataclass(frozen=True)
class Unknown:
    """A step that cannot be described by tensors."""

    reason: str
    """What is unknown about it, in words."""


def is_known(step: AttentiveStep | Unknown) -> bool:
    """Whether a fast form may be asked for this step: its tensors are known, and kernels are not turned off."""
    return kernels.enabled() and not isinstance(step, Unknown)


def fast_steps(
    step: AttentiveStep | Unknown,
    x: Tensor,
    c: object,
    *,
    weights: Sequence[Tensor],
    dtype: torch.dtype | None,
    owner: object,
) -> FastSteps | None:
    """The fastest form of many steps; None if only the plain loop is possible.

    Args:
        step: the step, as tensors.
        x: the first state.
        c: the stimulus as passed to the layer.
        weights: all arrays that c and a step depend on.
        dtype: of weights and states on a GPU, by default bfloat16; on a CPU of the factors of products, by default
            float32, or what autocast says.
        owner: preparations are cached for the next call with this object, as long as it exists.

    """
    if isinstance(step, Unknown) or not kernels.enabled() or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if x.is_cuda and kernels.available():
        from akorn.kernels import solve

        if not torch.cuda.is_current_stream_capturing() and solve.why_not(step, x, c, weights) is None:
            narrow = dtype or torch.bfloat16
            return lambda x, c, steps, energy: solve.fused_steps(step, x, c, steps, energy, narrow, owner=owner)
    if x.device.type == "cpu":
        from akorn.kernels import solve_cpu

        cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        factors = dtype or cast
        if factors in solve_cpu.DTYPES and solve_cpu.why_not(step, x, c, weights) is None:
            return lambda x, c, steps, energy: solve_cpu.fast_steps(step, x, c, steps, energy, factors, owner=owner)
    return None
