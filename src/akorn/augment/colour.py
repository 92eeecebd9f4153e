"""Colours: brightness, contrast, saturation, hue, and grey. Pictures of one channel have no saturation and no hue."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn.augment.image_batch import as_float, sometimes, uniform

_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


def to_grey(images: Tensor) -> Tensor:
    """[B, 3, H, W] → [B, 1, H, W], the luma of each pixel; one channel stays as it is."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    return _LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue


def greyscale(images: Tensor, generator: torch.Generator | None = None, *, p: float = 0.2) -> Tensor:
    """Each picture becomes grey with probability p; the number of channels stays."""
    images = as_float(images)
    if images.shape[1] == 1:
        return images
    return sometimes(to_grey(images).expand_as(images), images, p, generator)


def colour_jitter(
    images: Tensor,
    generator: torch.Generator | None = None,
    *,
    brightness: float = 0.4,
    contrast: float = 0.4,
    saturation: float = 0.4,
    hue: float = 0.1,
    p: float = 0.8,
) -> Tensor:
    """Change brightness, contrast, saturation and hue with probability p, in a random order for each picture.

    The first three are blends f·x + (1 − f)·y, clipped to 0–1, with f uniform in 1 ± strength and y black, the
    picture's mean grey, and each pixel's grey. The hue shifts by up to ± `hue` of the circle.
    """
    images = as_float(images)
    sides = uniform(images, generator, 3, low=-1.0).unbind(1)
    strengths = (brightness, contrast, saturation)
    factors = torch.stack([1 + strength * side for strength, side in zip(strengths, sides, strict=True)], 1)  # [B, 3]
    turn = uniform(images, generator, low=-hue, high=hue)
    # An order is a ranking of four random keys. The hue, which costs most, is computed once: the others may act in
    # three places before it and three after, with a factor of 1 (no change) in the unused places.
    keys = uniform(images, generator, 4)
    order = keys[:, :3].argsort(1)
    early = keys.gather(1, order) < keys[:, 3:]  # [B, 3]
    factors = factors.gather(1, order)
    jittered = images
    if hue and images.shape[1] == 3:
        jittered = _blends(jittered, order, torch.where(early, factors, 1.0))
        jittered = shift_hue(jittered, turn)
        jittered = _blends(jittered, order, torch.where(early, 1.0, factors))
    else:
        jittered = _blends(jittered, order, factors)
    return sometimes(jittered, images, p, generator)


def _blends(images: Tensor, kinds: Tensor, factors: Tensor) -> Tensor:
    """Three blends one after another; kinds [B, 3]: 0 brightness, 1 contrast, 2 saturation; factors [B, 3]."""
    kinds, factors = kinds[:, :, None, None, None], factors[:, :, None, None, None].to(images.dtype)
    for place in range(3):
        kind, factor = kinds[:, place], factors[:, place]  # [B, 1, 1, 1]
        grey = to_grey(images)
        other = torch.where(kind == 2, grey, grey.mean((2, 3), keepdim=True) * (kind == 1))
        # A factor of 1 must change nothing, not even by rounding: hence x + (1 − f)(y − x).
        images = (images + (1 - factor) * (other - images)).clamp(0, 1)
    return images


def shift_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Shift the hue of each picture by its share `turn` [B] of the circle; one channel stays as it is."""
    if images.shape[1] == 1:
        return images
    hue, saturation, value = rgb_to_hsv(images).split(1, 1)
    return hsv_to_rgb(torch.cat((hue + turn[:, None, None, None].to(hue.dtype), saturation, value), 1))


def rgb_to_hsv(images: Tensor) -> Tensor:
    """[B, 3, H, W] in 0–1 → hue (a share of the circle, in [0, 1)), saturation and value, each in 0–1."""
    red, green, blue = images.unbind(1)
    value = images.amax(1)
    chroma = value - images.amin(1)
    safe = torch.where(chroma > 0, chroma, 1)
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = torch.where(chroma > 0, hue / 6, 0).remainder(1)
    saturation = chroma / torch.where(value > 0, value, 1)
    return torch.stack((hue, saturation, value), 1)


def hsv_to_rgb(images: Tensor) -> Tensor:
    """The inverse of `rgb_to_hsv`; any hue is valid, since it is periodic.

    Each colour is v − v·s·max(0, min(k, 4 − k, 1)) with k = (n + 6h) mod 6 and n = 5, 3, 1 for red, green, blue.
    """
    hue, saturation, value = images.split(1, 1)
    n = torch.arange(5, 0, -2, device=images.device, dtype=images.dtype)[:, None, None]
    k = (n + 6 * hue).remainder(6)  # [B, 3, H, W]
    return value - value * saturation * torch.minimum(k, 4 - k).clamp(0, 1)
