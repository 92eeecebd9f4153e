"""The fused update as a step, forward and backward: when it applies, and how it is called. Needs Triton to import."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.execution.recompute import Reversal
from akorn.execution.step import Advanced, EnergyFunction, Step, product_dtype
from akorn.kernels import usable
from akorn.kernels.backward_memory import keeping
from akorn.kernels.update import DTYPES, ENERGIES, MAX_N, update, update_twice
from akorn.kernels.update_backward import launch_backward
from akorn.kernels.update_omega import omega_gradient


def why_not(step: Step, x: Tensor, jx: Tensor, c: Tensor) -> str | None:
    """Why the fused update cannot be used for this step, or None if it can."""
    if step.projects is None:
        return f"another update rule: {type(step.rule).__name__}"
    if step.rotation is not None and not step.rotation.antisymmetric:
        return f"natural frequencies of another kind: {step.rotation.name}"
    if step.n > MAX_N:
        return f"N = {step.n} is more than {MAX_N}"
    gamma = step.gamma()
    if gamma.numel() != 1 or gamma.device != x.device:
        return "γ is not one value beside x"
    if c.shape != x.shape or not usable(jx) or not usable(c) or jx.device != x.device or c.device != x.device:
        return "Jx or c is not a plain array beside x, of its shape"
    if not {x.dtype, jx.dtype, c.dtype} <= set(DTYPES):
        return f"arrays of {x.dtype}, {jx.dtype} and {c.dtype}"
    if not (x.dtype == torch.float64) == (jx.dtype == torch.float64) == (c.dtype == torch.float64):
        return "some arrays are float64, others are not"
    return None


def fused_step(
    step: Step, x: Tensor, jx: Tensor, c: Tensor, energy: EnergyFunction | None, narrow: torch.dtype | None
) -> Advanced:
    """`akorn.execution.step.advance` from Jx on."""
    assert step.projects is not None
    rate, weight = _rate(step), _weight(energy)
    value = energy(x, jx, c) if energy is not None and weight is None else None
    if rate is None and step.rotation is not None:
        # Ω has hooks. Since xᵀΩx = 0, Ωx can be added to Jx without changing Proj or the energy, in the type of x here.
        dim = osc.channel_axis(x)
        jx = jx + osc.ungroup(step.rotation.apply(osc.group(x, step.n, dim), dim), dim).to(x.dtype)
    arguments = (x, jx, c, step.gamma(), rate, step.n, step.projects, weight)
    after, energies, *copy = update(*arguments) if narrow is None else update_twice(*arguments, narrow)
    return after, energies if weight is not None else value, copy[0] if copy else None


def reverse_step(step: Step, reversal: Reversal, x: Tensor, t: int, energy: EnergyFunction | None) -> bool:
    """Step t of a chain backward, from the state x before it; returns False and does nothing if this is impossible.

    Only the coupling is run again. Its gradient of x and the update's stay separate: the previous step adds them up.
    """
    with torch.enable_grad():  # γ and Ω may be computed from parameters
        gamma, rate = step.gamma(), _rate(step)
    weight, c = _weight(energy), reversal.c
    if (energy is not None and weight is None) or (step.rotation is not None and rate is None):
        return False
    learned = [value for value in (gamma, rate) if value is not None and value.requires_grad]
    if any(value.is_leaf and all(value is not source for source in reversal.sources) for value in learned):
        return False  # the graph of a whole step reports what is wrong
    narrow = product_dtype(step, x)
    leaf = x.detach() if narrow is None else x.detach().to(narrow)
    leaf.requires_grad_(reversal.wanted(t))
    with torch.enable_grad(), keeping():
        jx = step.coupling(leaf.view_as(leaf))  # autocast caches no copy of a view
    if jx.shape != x.shape or why_not(step, x, jx, c) is not None:
        return False
    assert step.projects is not None
    reversal.check([jx, *learned], leaf)
    total = reversal.totals.get(id(c))
    grad, grad_jx, total, sums = launch_backward(
        reversal.grad,
        reversal.grad_energies[t] if energy is not None else None,
        x,
        jx,
        c,
        gamma,
        rate,
        step.n,
        step.projects,
        weight,
        [True, c.requires_grad, any(value.numel() == 1 for value in learned)],
        grad_narrow=reversal.coupled,
        into=None if not c.requires_grad else torch.empty_like(c) if total is None else total,
        add=total is not None,
        overwrite=reversal.ours,
    )
    if c.requires_grad:
        reversal.totals[id(c)] = total
    grads = [
        sums[0 if value is gamma else 1].to(value.dtype).reshape(value.shape)
        if value.numel() == 1
        else omega_gradient(grad_jx, x, value, step.n)
        for value in learned
    ]
    reversal.grad, reversal.coupled, reversal.ours = grad, None, True
    reversal.coupled = reversal.through([jx, *learned], leaf, [grad_jx, *grads])
    return True


def _rate(step: Step) -> Tensor | None:
    """Ω in the form for the kernels, if there is one and it has no hooks."""
    rotation = step.rotation
    return None if rotation is None or rotation.values is None else rotation.values()


def _weight(energy: EnergyFunction | None) -> float | None:
    """The weight of x·Jx in an energy that the kernels support."""
    if energy is osc.energy:
        return ENERGIES["eq3"]
    return ENERGIES["published"] if energy is osc.published_energy else None
