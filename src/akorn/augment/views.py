"""The changes of an `AugmentConfig`, one after another, and the two views of SimCLR."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn.augment.colour import colour_jitter, greyscale
from akorn.augment.config import AugmentConfig
from akorn.augment.crop import Size, random_flip, random_resized_crop
from akorn.augment.noise import gaussian_noise
from akorn.augment.pictures import as_float


def augment(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Pictures as the config says, at `size` (by default their own): [B, C, H, W] → float32 [B, C, *size].

    What the config switches off costs nothing and draws no random numbers.
    """
    images = as_float(images)
    if config.scale != (1.0, 1.0) or config.ratio != (1.0, 1.0) or size not in (None, tuple(images.shape[2:])):
        images = random_resized_crop(images, generator, scale=config.scale, ratio=config.ratio, size=size)
    if config.flip:
        images = random_flip(images, generator, p=config.flip)
    if config.jitter and (config.brightness or config.contrast or config.saturation or config.hue):
        images = colour_jitter(
            images,
            generator,
            brightness=config.brightness,
            contrast=config.contrast,
            saturation=config.saturation,
            hue=config.hue,
            p=config.jitter,
        )
    if config.grey:
        images = greyscale(images, generator, p=config.grey)
    return gaussian_noise(images, generator, sigma=config.noise) if config.noise else images


def two_views(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Two augmented views of each picture, all first views before all second ones: [2·B, C, *size]."""
    return augment(torch.cat((images, images)), config, generator, size=size)
