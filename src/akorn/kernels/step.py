"""The fused update as a step of a `KuramotoLayer`, with gradients: when it applies, and how it is called.

`KuramotoLayer` comes here by itself for arrays that `akorn.kernels.usable` allows. Needs Triton to import.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.kernels import hooked, usable
from akorn.kernels.keep import keeping
from akorn.kernels.update import DTYPES, ENERGIES, MAX_N, update, update_twice
from akorn.kernels.update_backward import launch_backward
from akorn.kernels.update_omega import omega_gradient
from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.coupling import ConvCoupling, DenseCoupling, ScalarCoupling
from akorn.nn.frequency import NaturalFrequency, PairwiseFrequency
from akorn.nn.kuramoto import EnergyFunction, KuramotoLayer
from akorn.nn.position import GTA, Position, RotaryPosition
from akorn.nn.recompute import Reversal
from akorn.nn.rules import Kuramoto

_ON_HEADS = (type(None), Position, GTA, RotaryPosition)
"""Positions that leave x alone."""


def why_not(layer: KuramotoLayer, x: Tensor, jx: Tensor, c: Tensor) -> str | None:
    """What keeps the fused update from a step of this layer, or None where it applies."""
    if type(layer.rule) is not Kuramoto:
        return f"another update rule: {type(layer.rule).__name__}"
    if type(layer.omega) not in (type(None), NaturalFrequency, PairwiseFrequency):
        return f"natural frequencies of another kind: {type(layer.omega).__name__}"
    if layer.n > MAX_N:
        return f"N = {layer.n} is more than {MAX_N}"
    if layer.gamma.numel() != 1 or layer.gamma.device != x.device:
        return "γ is not one value beside x"
    if c.shape != x.shape or not usable(jx) or not usable(c) or jx.device != x.device or c.device != x.device:
        return "Jx or c is no plain array beside x, of its shape"
    if not {x.dtype, jx.dtype, c.dtype} <= set(DTYPES):
        return f"arrays of {x.dtype}, {jx.dtype} and {c.dtype}"
    if not (x.dtype == torch.float64) == (jx.dtype == torch.float64) == (c.dtype == torch.float64):
        return "some arrays are float64, others are not"
    return None


def product_dtype(layer: KuramotoLayer, x: Tensor) -> torch.dtype | None:
    """The type to which autocast brings x the moment that the coupling gets it; None where that is not all it does.

    It must do so once, since of several casts the gradients are added in float32.
    """
    kind, coupling = x.device.type, layer.coupling
    if x.dtype != torch.float32 or not torch.is_autocast_enabled(kind) or hooked(coupling):
        return None
    if type(coupling) is AttentionCoupling:
        free = type(coupling.maps) is _FreeMaps and type(coupling.maps.qkv) is nn.Linear
        once = free and type(coupling.position) in _ON_HEADS
    elif type(coupling) is ConvCoupling:
        once = not coupling.periodic
    else:
        once = type(coupling) in (DenseCoupling, ScalarCoupling)
    return torch.get_autocast_dtype(kind) if once else None


def fused_step(
    layer: KuramotoLayer, x: Tensor, jx: Tensor, c: Tensor, energy: EnergyFunction | None, hand_on: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The state after one update, and the energy of the state before it, as `KuramotoLayer` computes them.

    With `hand_on` also the state in the type that the next step's coupling multiplies, where that is another.
    """
    rate, weight = _rate(layer), _weight(energy)
    value = energy(x, jx, c) if energy is not None and weight is None else None
    if rate is None and layer.omega is not None:
        # Someone listens to Ω. xᵀΩx = 0: neither Proj nor the energy tells Ωx from a part of Jx, in the type of x here.
        dim = osc.channel_axis(x)
        jx = jx + osc.ungroup(layer.omega(osc.group(x, layer.n, dim), dim), dim).to(x.dtype)
    arguments = (x, jx, c, layer.gamma, rate, layer.n, weight)
    narrow = product_dtype(layer, x) if hand_on else None
    after, energies, *copy = update(*arguments) if narrow is None else update_twice(*arguments, narrow)
    return after, energies if weight is not None else value, copy[0] if copy else None


def reverse_step(layer: KuramotoLayer, reversal: Reversal, x: Tensor, t: int, energy: EnergyFunction | None) -> bool:
    """Step t of a chain backward, from the state x before it; False, with nothing done, where this does not apply.

    The coupling alone is run again. Its gradient of x and the update's stay apart: the step before adds them up.
    """
    with torch.enable_grad():  # γ and Ω may be made from parameters
        gamma, rate = layer.gamma, _rate(layer)
    weight, c = _weight(energy), reversal.c
    if (energy is not None and weight is None) or (layer.omega is not None and rate is None):
        return False
    learned = [value for value in (gamma, rate) if value is not None and value.requires_grad]
    if any(value.is_leaf and all(value is not source for source in reversal.sources) for value in learned):
        return False  # the graph of a whole step says what is wrong
    narrow = product_dtype(layer, x)
    leaf = x.detach() if narrow is None else x.detach().to(narrow)
    leaf.requires_grad_(reversal.wanted(t))
    with torch.enable_grad(), keeping():
        jx = layer.coupling(leaf.view_as(leaf))  # of a view autocast keeps no copy
    if jx.shape != x.shape or why_not(layer, x, jx, c) is not None:
        return False
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
        layer.n,
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
        else omega_gradient(grad_jx, x, value, layer.n)
        for value in learned
    ]
    reversal.grad, reversal.coupled, reversal.ours = grad, None, True
    reversal.coupled = reversal.through([jx, *learned], leaf, [grad_jx, *grads])
    return True


def _rate(layer: KuramotoLayer) -> Tensor | None:
    """Ω as the kernels read it, where there is one and no one listens to it."""
    omega = layer.omega
    if omega is None or hooked(omega):
        return None
    if isinstance(omega, PairwiseFrequency):
        return omega.rate
    return omega.matrix if isinstance(omega, NaturalFrequency) else None


def _weight(energy: EnergyFunction | None) -> float | None:
    """The weight of x·Jx in an energy that the kernels know."""
    if energy is osc.energy:
        return ENERGIES["eq3"]
    return ENERGIES["published"] if energy is osc.published_energy else None
