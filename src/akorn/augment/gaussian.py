"""Gaussian noise on every pixel."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn.augment.image_batch import as_float


def gaussian_noise(
    images: Tensor, generator: torch.Generator | None = None, *, sigma: float = 0.2, clamp: bool = True
) -> Tensor:
    """Pictures with noise of standard deviation `sigma` on each pixel and channel, clipped to 0–1 by default."""
    if not 0 <= sigma < float("inf"):
        raise ValueError(f"sigma must be 0 or more, got {sigma}")
    images = as_float(images)
    noise = torch.randn(images.shape, generator=generator, device=images.device, dtype=images.dtype)
    noisy = images + sigma * noise
    return noisy.clamp(0, 1) if clamp else noisy
