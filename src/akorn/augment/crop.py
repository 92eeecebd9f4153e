"""Random resized crops, shifts and flips.

A crop is resized with two small matrices per picture, one for its rows and one for its columns, which hold the weights
of the bilinear filter with antialiasing. This is the filter that torch and torchvision use for crop-then-resize, border
included, up to rounding; an affine `grid_sample` would read beyond the crop's border and would not widen the filter if
a crop shrinks. In batches on a GPU two matrix products are also as fast. Under TF32 the products keep 11 bits, a
quarter of a byte's grey level.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from akorn.augment.image_batch import as_float, sometimes, uniform

TRIES = 10  # as in torchvision; then the largest crop in the middle is used

Size = tuple[int, int]


def random_resized_crop(
    images: Tensor,
    generator: torch.Generator | None = None,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    size: Size | None = None,
) -> Tensor:
    """A random part of each picture, enlarged (or shrunk) to `size`, by default the pictures' own.

    scale: the part's share of the area, uniform; ratio: its width over its height, uniform in the logarithm.
    """
    images = as_float(images)
    height, width = images.shape[2:]
    boxes = random_boxes(images, generator, scale=scale, ratio=ratio)
    return resample(images, boxes, size if size is not None else (height, width))


def random_boxes(
    images: Tensor,
    generator: torch.Generator | None = None,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Top, left, height and width of a crop for each picture, in whole pixels: [B, 4], float32.

    As in torchvision: the first of ten tries that fits into the picture, otherwise the largest crop in the middle with
    an allowed ratio.
    """
    check_ranges(scale, ratio)
    area, shape, place = (uniform(images, generator, columns) for columns in (TRIES, TRIES, 2))
    return boxes_from(area, shape, place, (images.shape[2], images.shape[3]), scale, ratio)


def boxes_from(
    area: Tensor, shape: Tensor, place: Tensor, full: Size, scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Boxes [B, 4] from random numbers in 0–1: area and shape [B, tries], place [B, 2]; full: size of the pictures."""
    height, width = full
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    low, high_ratio = math.log(ratio[0]), math.log(ratio[1])
    shape = (low + (high_ratio - low) * shape).exp()
    wide, high = (area * shape).sqrt().round(), (area / shape).sqrt().round()  # [B, tries]
    fits = (wide >= 1) & (wide <= width) & (high >= 1) & (high <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)  # the first that fits; 0 if none does
    none = ~fits.any(1, keepdim=True)
    all_high, all_wide = largest(height, width, ratio)
    high = torch.where(none, all_high, high.gather(1, first))
    wide = torch.where(none, all_wide, wide.gather(1, first))
    top = torch.where(none, (height - high).div(2).round(), (place[:, :1] * (height - high + 1)).floor())
    left = torch.where(none, (width - wide).div(2).round(), (place[:, 1:] * (width - wide + 1)).floor())
    return torch.cat((top, left, high, wide), 1)


def check_ranges(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    """ValueError unless crops of such areas and ratios are possible."""
    if not 0 < scale[0] <= scale[1] <= 1 or not 0 < ratio[0] <= ratio[1]:
        raise ValueError(f"scale must be in (0, 1] and ratio above 0, the lower first; got {scale} and {ratio}")


def largest(height: int, width: int, ratio: tuple[float, float]) -> tuple[float, float]:
    """The largest height and width of a crop with an allowed ratio."""
    if width < ratio[0] * height:
        return min(height, round(width / ratio[0])), width
    if width > ratio[1] * height:
        return height, min(width, round(height * ratio[1]))
    return height, width


def resample(images: Tensor, boxes: Tensor, size: Size) -> Tensor:
    """The boxes [B, 4] (top, left, height, width) of pictures, at `size`: [B, C, *size].

    Bilinear with antialiasing; nothing outside a box is seen. A box is at least one pixel high and wide.
    """
    images = as_float(images)
    top, left, high, wide = boxes.to(images.dtype).unbind(1)
    rows = _weights(top, high, images.shape[2], size[0])  # [B, out rows, H]
    columns = _weights(left, wide, images.shape[3], size[1])  # [B, out columns, W]
    with torch.autocast(images.device.type, enabled=False):  # bfloat16 would keep only 8 bits of a pixel
        across = torch.einsum("bchw,bpw->bchp", images, columns)
        return torch.einsum("boh,bchp->bcop", rows, across).clamp(0, 1)


def _weights(start: Tensor, length: Tensor, pixels: int, out: int) -> Tensor:
    """The weight of each of `pixels` in each of `out` pixels, on the range [start, start + length): [B, out, pixels]

    A hat function as wide as an output pixel, and at least as wide as an input pixel, cut at the ends of the range.
    """
    step = (length / out)[:, None, None]  # input pixels per output pixel
    there = torch.arange(out, device=start.device, dtype=start.dtype)[:, None] + 0.5
    here = torch.arange(pixels, device=start.device, dtype=start.dtype) + 0.5 - start[:, None, None]  # [B, 1, pixels]
    hat = (1 - (here - there * step).abs() / step.clamp_min(1)).clamp_min(0)
    hat = hat * ((here >= 0) & (here < length[:, None, None]))
    return hat / hat.sum(2, keepdim=True)


def random_shift(images: Tensor, generator: torch.Generator | None = None, *, pixels: int = 4) -> Tensor:
    """Each picture shifted by up to this many pixels in each direction, with black outside: pad and crop."""
    if pixels < 0:
        raise ValueError(f"pixels must be 0 or more, got {pixels}")
    images = as_float(images)
    moves = (uniform(images, generator, 2) * (2 * pixels + 1)).floor() - pixels  # [B, 2]
    for move, axis in zip(moves.unbind(1), (2, 3), strict=True):
        length = images.shape[axis]
        here = torch.arange(length, device=images.device) - move.long()[:, None]  # [B, length]
        shape = (-1, 1, length, 1) if axis == 2 else (-1, 1, 1, length)
        seen = images.gather(axis, here.clamp(0, length - 1).view(shape).expand_as(images))
        images = seen * ((here >= 0) & (here < length)).view(shape)
    return images


def random_flip(images: Tensor, generator: torch.Generator | None = None, *, p: float = 0.5) -> Tensor:
    """Each picture mirrored left to right with probability p."""
    images = as_float(images)
    return sometimes(images.flip(3), images, p, generator)
