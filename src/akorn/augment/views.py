"""The changes of an `AugmentConfig`, one after another, and the two views of SimCLR.

On a CUDA device with Triton one kernel makes them all: `akorn.augment.fused`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from akorn import kernels
from akorn.augment.colour import colour_jitter, greyscale
from akorn.augment.config import AugmentConfig
from akorn.augment.crop import Size, random_flip, random_resized_crop, random_shift
from akorn.augment.gaussian import gaussian_noise
from akorn.augment.image_batch import as_float, check_pictures


def augment(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Pictures changed by the config, at `size` (by default their own): [B, C, H, W] → float32 [B, C, *size].

    Disabled changes cost nothing and draw no random numbers.
    """
    return _views(images, config, generator, size, 1)


def two_views(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Two augmented views of each picture, all first views before all second ones: [2·B, C, *size]."""
    return _views(images, config, generator, size, 2)


def _views(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None, size: Size | None, copies: int
) -> Tensor:
    check_pictures(images)
    own = (images.shape[2], images.shape[3])
    size = own if size is None else (size[0], size[1])
    if config.shift:  # each view has its own shift
        images = random_shift(images.repeat(copies, 1, 1, 1), generator, pixels=config.shift)
        copies = 1
    crop = config.scale != (1.0, 1.0) or config.ratio != (1.0, 1.0) or size != own
    jitter = bool(config.jitter and (config.brightness or config.contrast or config.saturation or config.hue))
    if (crop or jitter) and kernels.usable(images):
        from akorn.augment import fused

        if fused.fits(images, size):
            count = copies * len(images) * fused.columns(config, crop=crop, jitter=jitter)
            numbers = torch.rand(count, generator=generator, device=images.device)
            views = fused.fused_views(images, numbers, config, size, copies, crop=crop, jitter=jitter)
            return gaussian_noise(views, generator, sigma=config.noise) if config.noise else views
    images = as_float(images)
    if copies > 1:
        images = images.repeat(copies, 1, 1, 1)
    if crop:
        images = random_resized_crop(images, generator, scale=config.scale, ratio=config.ratio, size=size)
    if config.flip:
        images = random_flip(images, generator, p=config.flip)
    if jitter:
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
