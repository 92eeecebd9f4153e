"""One step of Eq. 4–5 as described by `akorn.nn`, and how it runs: plain, fused or compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from akorn import kernels
from akorn import oscillators as osc

EnergyFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(x, Jx, c) → [B]; `akorn.oscillators.energy` or `published_energy`."""


class Rule(Protocol):
    """The update of grouped oscillators, with their components at axis `dim`."""

    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state, from the force Jx + c and Ωx."""
        ...


class Rotation(NamedTuple):
    """Ω: how oscillators rotate by themselves."""

    apply: Callable[[Tensor, int], Tensor]
    """(x, dim) → Ωx of grouped oscillators."""
    values: Callable[[], Tensor] | None
    """Ω in the form for the fused update, rates of pairs or matrices; None if Ω must be applied by calling it."""
    antisymmetric: bool
    """Whether Ωᵀ = −Ω is known, so that Ωx is tangent to the sphere at x."""
    name: str
    """Its name in messages about why something does not apply."""


class Step(NamedTuple):
    """One update x → x′. Values computed from parameters are functions, so that every step reads the current ones."""

    coupling: Callable[[Tensor], Tensor]
    """x → Jx."""
    n: int
    """Rotating dimensions N."""
    gamma: Callable[[], Tensor]
    """The step size γ."""
    rotation: Rotation | None
    """Ω, or None for no rotation."""
    rule: Rule
    """The update."""
    projects: bool | None
    """Whether the rule has Proj: True for that of Eq. 4–5, False for the same without Proj, None for any other."""
    multiplies: Callable[[], bool]
    """Whether the coupling uses x only in a single product, so that x can be passed in autocast's type."""
    compiled: Callable[[Tensor, Tensor, EnergyFunction | None], tuple[Tensor, Tensor | None]] | None = None
    """(x, c, energy) → x′ and the energy, if the step has been compiled."""
    handle: int | None = None
    """The layer's handle for `akorn.execution.operator`; None for a step that `torch.compile` unrolls."""


Advanced = tuple[Tensor, Tensor | None, Tensor | None]
"""The next state; the energy before the step, if requested; and x′ in the type that the next step multiplies."""


def advance(
    step: Step,
    x: Tensor,
    c: Tensor,
    energy: EnergyFunction | None,
    copy: Tensor | None = None,
    narrow: torch.dtype | None = None,
) -> Advanced:
    """One update of a normalised state.

    Args:
        step: the update.
        x: the state.
        c: the stimulus as it acts on x.
        energy: which energy to return, that of x; None for none.
        copy: x as autocast would cast it for the coupling, if the previous step has passed it.
        narrow: the type in which to pass x′ on, which only the fused update does.

    """
    if step.compiled is not None:
        return *step.compiled(x, c, energy), None
    dim = osc.channel_axis(x)
    jx = step.coupling(x if copy is None else copy)
    if not isinstance(jx, Tensor):
        raise ValueError(f"the coupling maps a state of shape {list(x.shape)} to {type(jx).__name__}, not to a tensor")
    if jx.shape != x.shape:
        raise ValueError(f"the coupling maps a state of shape {list(x.shape)} to {list(jx.shape)}")
    if kernels.usable(x):
        from akorn.execution import fused_step

        if fused_step.why_not(step, x, jx, c) is None:
            return fused_step.fused_step(step, x, jx, c, energy, narrow)
    value = energy(x, jx, c) if energy is not None else None
    grouped = osc.group(x, step.n, dim)
    rotation = step.rotation.apply(grouped, dim) if step.rotation is not None else None
    after = step.rule.step(grouped, osc.group(jx + c, step.n, dim), rotation, step.gamma(), dim)
    return osc.ungroup(after, dim).to(x.dtype), value, None  # autocast may have changed the types of the parts


def product_dtype(step: Step, x: Tensor) -> torch.dtype | None:
    """The type to which autocast casts x when the coupling gets it; None if the coupling does more with x.

    It must be cast only once, since the gradients of several casts are added in float32.
    """
    kind = x.device.type
    if x.dtype != torch.float32 or not torch.is_autocast_enabled(kind) or not step.multiplies():
        return None
    return torch.get_autocast_dtype(kind)
