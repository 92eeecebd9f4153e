"""The fused update as a step of a `KuramotoLayer`, with gradients: when it applies, and how it is called.

`KuramotoLayer` comes here by itself for arrays that `akorn.kernels.usable` allows. Needs Triton to import.
"""

from __future__ import annotations

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.kernels import usable
from akorn.kernels.update import DTYPES, ENERGIES, MAX_N, update
from akorn.nn.frequency import NaturalFrequency, PairwiseFrequency
from akorn.nn.kuramoto import EnergyFunction, KuramotoLayer
from akorn.nn.rules import Kuramoto


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


def fused_step(
    layer: KuramotoLayer, x: Tensor, jx: Tensor, c: Tensor, energy: EnergyFunction | None
) -> tuple[Tensor, Tensor | None]:
    """The state after one update, and the energy of the state before it, as `KuramotoLayer` computes them."""
    value = weight = rate = None
    if energy is osc.energy:
        weight = ENERGIES["eq3"]
    elif energy is osc.published_energy:
        weight = ENERGIES["published"]
    elif energy is not None:
        value = energy(x, jx, c)
    if isinstance(layer.omega, PairwiseFrequency) and layer.omega.oscillators is None:
        rate = layer.omega.rate
    elif layer.omega is not None:
        # xᵀΩx = 0: neither Proj nor the energy tells Ωx from a part of Jx. Its type keeps x's precision in the sum.
        dim = osc.channel_axis(x)
        jx = jx + osc.ungroup(layer.omega(osc.group(x, layer.n, dim), dim), dim).to(x.dtype)
    after, energies = update(x, jx, c, layer.gamma, rate, layer.n, weight)
    return after, energies if weight is not None else value
