"""The changes of an `AugmentConfig`, one after another, and the two views of SimCLR.

On a CUDA device with Triton one kernel makes them all: `akorn.augment.fused`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from akorn import kernels
from akorn.augment.colour import colour_jitter, greyscale
from akorn.augment.config import AugmentConfig
from akorn.augment.crop import TRIES, Size, boxes_from, random_boxes, random_shift, resample
from akorn.augment.gaussian import gaussian_noise
from akorn.augment.image_batch import as_float, check_pictures, uniform


def augment(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Pictures changed by the config, at `size` (by default their own): [B, C, H, W] → float32 [B, C, *size].

    Disabled changes cost nothing and draw no random numbers.
    """
    return _views(images, config, generator, size, 1)[0]


def two_views(
    images: Tensor, config: AugmentConfig, generator: torch.Generator | None = None, *, size: Size | None = None
) -> Tensor:
    """Two augmented views of each picture, all first views before all second ones: [2·B, C, *size]."""
    return _views(images, config, generator, size, 2)[0]


@dataclass(frozen=True)
class Located:
    """Views, and which part of its picture each one shows."""

    images: Tensor
    """[V, C, H, W], all first views before all second ones."""
    boxes: Tensor
    """[V, 4]: top, left, height and width of the crop, as shares of the picture's height and width."""
    mirrored: Tensor
    """[V], bool: whether the view is flipped left to right."""

    def apart(self, copies: int = 2) -> list[Located]:
        """All first views, all second ones and so on, if there are `copies` views of each picture."""
        columns = (each.chunk(copies) for each in (self.images, self.boxes, self.mirrored))
        return [Located(*each) for each in zip(*columns, strict=True)]


def located_views(
    images: Tensor,
    config: AugmentConfig,
    generator: torch.Generator | None = None,
    *,
    size: Size | None = None,
    copies: int = 2,
) -> Located:
    """`two_views`, with the same random numbers, and where they lie; or another number of views of each picture."""
    if config.shift:
        raise ValueError(f"shifted views cannot be located: shift is {config.shift}, expected 0")
    views, boxes, mirrored = _views(images, config, generator, size, copies, locate=True)
    height, width = images.shape[2:]
    if boxes is None:
        boxes = torch.zeros(len(views), 4, device=images.device)
        boxes[:, 2], boxes[:, 3] = height, width
    if mirrored is None:
        mirrored = torch.zeros(len(views), dtype=torch.bool, device=images.device)
    top, left, high, wide = boxes.unbind(1)
    return Located(views, torch.stack((top / height, left / width, high / height, wide / width), 1), mirrored)


def _views(
    images: Tensor,
    config: AugmentConfig,
    generator: torch.Generator | None,
    size: Size | None,
    copies: int,
    *,
    locate: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Views, the boxes [V, 4] of their crops in pixels, and which are mirrored; None without such changes."""
    check_pictures(images)
    own = (images.shape[2], images.shape[3])
    size = own if size is None else (size[0], size[1])
    if config.shift:  # each view has its own shift
        images = random_shift(images.repeat(copies, 1, 1, 1), generator, pixels=config.shift)
        copies = 1
    views = copies * len(images)
    crop = config.scale != (1.0, 1.0) or config.ratio != (1.0, 1.0) or size != own
    jitter = bool(config.jitter and (config.brightness or config.contrast or config.saturation or config.hue))
    boxes: Tensor | None = None
    mirrored: Tensor | None = None
    if (crop or jitter) and kernels.usable(images):
        from akorn.augment import fused

        if fused.fits(images, size):
            numbers = torch.rand(
                views * fused.columns(config, crop=crop, jitter=jitter), generator=generator, device=images.device
            )
            made = fused.fused_views(images, numbers, config, size, copies, crop=crop, jitter=jitter)
            if not locate:
                return _noisy(made, config, generator), None, None
            area, shape, place, rest = numbers.tensor_split((views * TRIES, 2 * views * TRIES, views * (2 * TRIES + 2)))
            if crop:
                drawn = (area.view(views, -1), shape.view(views, -1), place.view(views, -1))
                boxes = boxes_from(*drawn, own, config.scale, config.ratio)
            if config.flip:
                mirrored = (rest if crop else numbers)[:views] < config.flip
            return _noisy(made, config, generator), boxes, mirrored
    images = as_float(images)
    if copies > 1:
        images = images.repeat(copies, 1, 1, 1)
    if crop:
        boxes = random_boxes(images, generator, scale=config.scale, ratio=config.ratio)
        images = resample(images, boxes, size)
    if config.flip:
        mirrored = uniform(images, generator) < config.flip
        images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
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
    return _noisy(images, config, generator), boxes, mirrored


def _noisy(views: Tensor, config: AugmentConfig, generator: torch.Generator | None) -> Tensor:
    return gaussian_noise(views, generator, sigma=config.noise) if config.noise else views
