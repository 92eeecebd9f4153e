"""What all changes have in common: pictures as floats, and one random number per picture."""

from __future__ import annotations

import torch
from torch import Tensor


def as_float(images: Tensor) -> Tensor:
    """[B, 1 or 3, H, W] as float32 in 0–1: bytes are divided by 255, floats stay (in their own type)."""
    check_pictures(images)
    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images


def check_pictures(images: Tensor) -> None:
    """ValueError unless these are pictures, as bytes or floats."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"pictures must be [B, 1 or 3, H, W], got the shape {list(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ValueError(f"pictures must be bytes or floats in 0–1, got {images.dtype}")


def check_range(images: Tensor) -> None:
    """ValueError for floats that look like pictures from 0 to 255. It reads values, and so waits for the device."""
    most = float(images.max()) if images.is_floating_point() and images.numel() else 0.0
    if most > 2:
        raise ValueError(f"pictures are from 0 to 1, got values up to {most:.4g}: divide those from 0 to 255 by 255")


def uniform(
    images: Tensor, generator: torch.Generator | None, *columns: int, low: float = 0.0, high: float = 1.0
) -> Tensor:
    """Float32 random numbers in [low, high), one (or [*columns]) for each picture: [B, *columns]."""
    drawn = torch.rand(len(images), *columns, generator=generator, device=images.device)
    return low + (high - low) * drawn


def sometimes(changed: Tensor, images: Tensor, p: float, generator: torch.Generator | None) -> Tensor:
    """Each picture changed with probability p, otherwise unchanged."""
    chosen = uniform(images, generator) < p
    return torch.where(chosen[:, None, None, None], changed, images)
