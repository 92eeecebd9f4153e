"""Random noise of a given size in the ℓ∞ norm: what an attacker does who knows nothing.

The paper says "strong random noise, ‖ε‖∞ = 64/255" and not how it is distributed. Here it is uniform in the box by
default, which is the usual reading; "sign" noise has ±ε on every value and is the strongest of that size.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from akorn.robustness.attacks import check_epsilon
from akorn.robustness.protocol import NOISE

NoiseName = Literal["uniform", "sign"]


def random_noise(
    images: Tensor,
    epsilon: float = NOISE,
    generator: torch.Generator | None = None,
    kind: NoiseName = "uniform",
) -> Tensor:
    """Pictures [B, C, H, W] from 0 to 1 with noise in [−ε, ε] (uniform) or ±ε (sign) on each value, cut to 0–1."""
    check_epsilon(epsilon)
    if kind not in ("uniform", "sign"):
        raise ValueError(f"the noise is {kind!r}, expected uniform or sign")
    drawn = 2 * torch.rand(images.shape, generator=generator, device=images.device, dtype=images.dtype) - 1
    return (images + epsilon * (drawn if kind == "uniform" else drawn.sign())).clamp(0, 1)
