"""Random noise of a given size in the ℓ∞ norm: the attack of someone who knows nothing about the model.

The paper says "strong random noise, ‖ε‖∞ = 64/255" but not how it is distributed. Its published experiments have ±ε on
every value, the strongest noise of that size: "sign", the default. "uniform" noise lies anywhere in the box.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from akorn.robustness.attacks import check_epsilon
from akorn.robustness.protocol import NOISE

NoiseName = Literal["sign", "uniform"]


def random_noise(
    images: Tensor,
    epsilon: float = NOISE,
    generator: torch.Generator | None = None,
    kind: NoiseName = "sign",
) -> Tensor:
    """Pictures [B, C, H, W] from 0 to 1 with noise of ±ε (sign) or in [−ε, ε] (uniform) per value, clipped to 0–1."""
    check_epsilon(epsilon)
    if kind not in ("uniform", "sign"):
        raise ValueError(f"the noise is {kind!r}, expected sign or uniform")
    drawn = 2 * torch.rand(images.shape, generator=generator, device=images.device, dtype=images.dtype) - 1
    return (images + epsilon * (drawn if kind == "uniform" else drawn.sign())).clamp(0, 1)
