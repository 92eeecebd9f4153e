"""Repeatable steps for `akorn.execution.recompute`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn import kernels
from akorn.execution import step as steps_of
from akorn.execution.recompute import Chain, Reversal
from akorn.execution.step import Advanced, EnergyFunction, Step


def chain_of(step: Step, constant: bool, steps: int, energy: EnergyFunction | None, module: nn.Module) -> Chain:
    """Repeatable steps, with a C that is constant or has one array for each step."""

    def forward(x: Tensor, c: Tensor, t: int, copy: Tensor | None = None) -> Advanced:
        narrow = handed_on(step, x) if t + 1 < steps else None
        return steps_of.advance(step, x, c if constant else c[t], energy, copy, narrow)

    def reverse(reversal: Reversal, x: Tensor, t: int) -> bool:
        if not constant or step.compiled is not None or not kernels.usable(x):
            return False
        from akorn.execution.fused_step import reverse_step

        return reverse_step(step, reversal, x, t, energy)

    return Chain(
        forward,
        reverse,
        lambda: [p for p in module.parameters() if p.requires_grad],
        lambda: dict(module.named_buffers()),
    )


def handed_on(step: Step, x: Tensor) -> torch.dtype | None:
    """The type in which each step passes its state to the next; None without the fused update."""
    return steps_of.product_dtype(step, x) if step.compiled is None and kernels.usable(x) else None
