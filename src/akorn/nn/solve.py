"""Many steps of a layer without gradients, in the fastest way available."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.execution import solve
from akorn.nn.attention import AttentionCoupling
from akorn.nn.checks import hooked
from akorn.nn.description import attentive
from akorn.nn.feed_forward import FeedForwardCoupling
from akorn.nn.kuramoto import KuramotoLayer, Stimulus

_ENERGIES = {"eq3": osc.energy, "published": osc.published_energy, None: None}


def solve_steps(
    layer: KuramotoLayer,
    x: Tensor,
    c: Stimulus,
    steps: int,
    energy: solve.Energy | None = "eq3",
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`steps` updates of a state, for solving: the last state, like x, and the energies before each step, [steps, B].

    The fused path is for CUDA without gradients, for at most 128 tokens under attention with unconstrained maps, GTA,
    rotary or no positions, with or without an MLP behind it, one rate or no natural rotation, a constant c, and the
    rule `Kuramoto` or `WithoutProjection`. Then weights and states are bfloat16 unless `dtype` says otherwise; energies
    and norms are float32. On a CPU such layers, with any number of tokens, run in long passes in float32, with products
    in bfloat16 if `dtype` or autocast says so. Otherwise everything is as in `layer.evolve`, in the given types.

    Args:
        layer: the Kuramoto layer.
        x: the first state; it need not be normalised.
        c: the stimulus, as for `layer.evolve`.
        steps: T.
        energy: "eq3" (Eq. 3), "published" (the pair term without its ½), or None for no energies.
        dtype: of weights and states on the fused path: float32, bfloat16 (the default) or float16. On a CPU of the
            factors of products: float32 (the default) or bfloat16.

    """
    if energy not in _ENERGIES:
        raise ValueError(f'energy must be "eq3", "published" or None, got {energy!r}')
    if dtype not in (None, torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype must be float32, bfloat16 or float16, got {dtype}")
    fast = solve.fast_steps(described(layer), x, c, weights=floating(layer), dtype=dtype, owner=layer)
    if fast is None:
        evolution = layer.evolve(x, c, steps, energy=_ENERGIES[energy])
        return evolution.x, evolution.energies
    assert isinstance(c, Tensor)
    return fast(x, *prepared(layer, x, c, steps), energy)


def described(layer: KuramotoLayer) -> solve.AttentiveStep | solve.Unknown:
    """The layer's step as tensors."""
    if hooked(layer):
        return solve.Unknown("the layer has hooks")
    return attentive(layer.coupling, layer.omega, layer.rule, layer.step_size, layer.n)


def has_fast_form(layer: KuramotoLayer) -> bool:
    """Whether `solve_steps` has anything but the plain loop for this layer, whatever its state and device."""
    return solve.is_known(described(layer))


def floating(layer: KuramotoLayer) -> list[Tensor]:
    """All weights of the layer, and its floating-point buffers."""
    return [*layer.parameters(), *(buffer for buffer in layer.buffers() if buffer.is_floating_point())]


def prepared(layer: KuramotoLayer, x: Tensor, c: Tensor, steps: int) -> tuple[Tensor, int]:
    """C as it acts on the oscillators, and the steps as a plain int, after checking the state and the stimulus."""
    steps = layer._check(x, c, steps)
    coupling = layer.coupling.coupling if isinstance(layer.coupling, FeedForwardCoupling) else layer.coupling
    place = coupling.position if isinstance(coupling, AttentionCoupling) else None
    if place is not None:
        place.check(x.shape[1])
    with torch.no_grad():
        return layer.drive(c, x.ndim)(0), steps
