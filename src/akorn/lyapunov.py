"""How fast nearby states separate: the largest Lyapunov exponent of a map, and of a Kuramoto layer.

Two states that are δ apart are about δ·exp(λt) apart after t steps. If λ is above 0, the map is chaotic: a gradient
through t steps then grows at the same rate, and is valid over a distance that shrinks at the same rate. If it is below
0, states forget where they started; at 0 they keep their distance, as along a direction in which all oscillators may
turn together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from akorn.nn.kuramoto import KuramotoLayer

__all__ = ["Map", "layer_exponent", "lyapunov_exponent"]

Map = Callable[[Tensor], Tensor]
"""One step x → x′ of states [B, …], which do not interact."""


def lyapunov_exponent(step: Map, x0: Tensor, steps: int, *, discard: int = 0, seed: int = 0) -> Tensor:
    """The largest Lyapunov exponent per step, λ = 1/T · Σₜ ln ‖Df(xₜ)vₜ‖, of each of the states x0 [B, …]: [B],
    float64.

    A random tangent vector v is carried along by the derivative of the step, in forward mode, and brought back to
    length 1 after every step. It turns towards the direction that grows fastest, so λ has an error of the order of 1/T.

    Args:
        step: the map, made of torch's operations. Divide λ by a step's time for a rate in time.
        x0: where the B trajectories start, float64 if possible.
        steps: T, over which the mean is taken.
        discard: number of steps before these, in which x reaches its attractor and v its direction.
        seed: draws v.

    Returns: λ of each state; −inf if a step shrinks every nearby difference to 0.

    """
    for name, value, least in (("steps", steps, 1), ("discard", discard, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if not isinstance(x0, Tensor) or x0.ndim < 1 or not x0.is_floating_point() or not x0.numel():
        raise ValueError("x0 must be an array of states [B, …] of a floating-point type")
    generator = torch.Generator().manual_seed(seed)
    x = x0.detach()
    v = _normalised(torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x))[0]
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    # torch's other forms of attention have no derivative in forward mode
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        for t in range(discard + steps):
            x, v = torch.func.jvp(step, (x,), (v,))[:2]
            if x.shape != x0.shape:
                raise ValueError(f"the step maps states of shape {list(x0.shape)} to {list(x.shape)}")
            v, growth = _normalised(v)
            if t >= discard:
                total += growth.log()
    if total.isnan().any() or not x.isfinite().all():
        raise ValueError("a state or its derivative is not finite")
    return total / steps


def layer_exponent(
    layer: KuramotoLayer,
    x: Tensor,
    c: Tensor,
    steps: int,
    *,
    gamma: float | None = None,
    discard: int = 0,
    seed: int = 0,
) -> Tensor:
    """`lyapunov_exponent` of a layer's update from the states x, driven by c, for each of the B samples: [B].

    The layer is copied to float64 and eval mode. x need not be normalised; c is constant in time and in the shape of x,
    and goes through the layer's stimulus module and bias. gamma: a step size γ instead of the layer's own. λ is per
    step; λ/γ is the rate in the time of the dynamics.
    """
    if c.shape != x.shape:
        raise ValueError(f"c must be constant in time and in the shape of x, {list(x.shape)}, got {list(c.shape)}")
    if gamma is not None and not 0 < gamma < float("inf"):
        raise ValueError(f"gamma must be above 0, got {gamma}")
    if not isinstance(steps, bool) and isinstance(steps, int) and steps >= 1:
        layer.evolve(x.detach(), c.detach(), 1)  # says what is wrong with the shapes
    twin = copy.deepcopy(layer).double().eval()
    twin.use_compiled_step(False)
    with torch.no_grad():
        if gamma is not None:
            twin.gamma.fill_(gamma)
        drive = twin.drive(c.double(), c.ndim)(0)
        start = twin.evolve(x.double(), c.double(), 1, trajectory=True).trajectory
        assert start is not None
    return lyapunov_exponent(lambda state: twin.step(state, drive), start[0], steps, discard=discard, seed=seed)


def _normalised(v: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors [B, …] at length 1, and their lengths [B] in float64; vectors of length 0 stay 0."""
    length = torch.linalg.vector_norm(v.double().reshape(len(v), -1), dim=1)
    safe = torch.where(length > 0, length, 1.0).to(v.dtype)
    return v / safe.reshape(-1, *[1] * (v.ndim - 1)), length
