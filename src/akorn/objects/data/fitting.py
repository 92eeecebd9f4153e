"""Resizes pictures of any size to one size: bilinear (with averaging when shrinking) for pictures, nearest for masks.

`fit` says how: "crop" keeps the largest square in the middle, "stretch" the whole picture, whatever its proportions,
"refuse" accepts only pictures that already have the size.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PIL

from akorn.errors import AkornError
from akorn.objects.data.picture_sets import Mask, Pictures

Fit = Literal["crop", "stretch", "refuse"]
Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


def source_box(height: int, width: int, size: int, fit: Fit, where: str, zoom: float = 1.0) -> Box:
    """The part of a picture that is kept; `zoom` < 1 keeps less than the largest square."""
    if size < 1:
        raise AkornError(f"the size of pictures must be at least 1, got {size}")
    if fit == "refuse" and (height, width) != (size, size):
        raise AkornError(f"{where}: the picture is {width}×{height}, expected {size}×{size} (fit is refuse)")
    if fit != "crop":
        return 0.0, 0.0, float(width), float(height)
    side = min(height, width) * zoom
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def fit_image(image: PIL.Image, size: int, box: Box) -> PIL.Image:
    """The box of the picture, size × size."""
    whole: Box = (0.0, 0.0, float(image.width), float(image.height))
    if box == whole and image.width == image.height == size:
        return image
    return image.resize((size, size), PIL.Resampling.BILINEAR, box=box)


def fit_mask(mask: Mask, size: int, box: Box) -> Mask:
    """The box of the mask [H, W], size × size: each pixel takes the label under its middle."""
    left, top, right, bottom = box
    rows = _nearest(top, bottom, size, mask.shape[0])
    columns = _nearest(left, right, size, mask.shape[1])
    return mask[rows[:, None], columns]


def stretch_mask(mask: NDArray[np.integer], height: int, width: int) -> NDArray[np.integer]:
    """The mask [h, w] as [H, W]: each pixel takes the label under its middle."""
    rows, columns = (_nearest(0, old, new, old) for old, new in zip(mask.shape, (height, width), strict=True))
    return mask[rows[:, None], columns]


def resized(pictures: Pictures, size: int, fit: Fit = "crop") -> Pictures:
    """All pictures and masks in that size; those that already have it are returned unchanged."""
    height, width = pictures.images.shape[2:]
    box = source_box(height, width, size, fit, pictures.name)
    if (height, width) == (size, size):
        return pictures
    images = np.empty((*pictures.images.shape[:2], size, size), dtype=np.uint8)
    for old, new in zip(pictures.images, images, strict=True):
        for channel in range(len(old)):
            new[channel] = np.asarray(fit_image(PIL.fromarray(old[channel]), size, box))
    labels, classes = (
        None if masks is None else np.stack([fit_mask(mask, size, box) for mask in masks])
        for masks in (pictures.labels, pictures.classes)
    )
    return replace(pictures, images=images, labels=labels, classes=classes)


def fitted(pictures: Pictures, size: int, fit: Fit = "crop") -> Pictures:
    """`resized`, with one line that says what was done, since the user may not expect it."""
    made = resized(pictures, size, fit)
    height, width = pictures.images.shape[2:]
    line = told(Counter({(height, width): len(pictures)}), size, fit)
    if line is not None:
        logging.getLogger(__name__).warning("%s: %s", pictures.name, line)
    return made


def told(sizes: Counter[tuple[int, int]], size: int, fit: Fit, zoom: float = 1.0) -> str | None:
    """A sentence about how pictures of these heights and widths are resized; None if none are."""
    others = Counter({old: count for old, count in sizes.items() if old != (size, size) or zoom != 1})
    if not others:
        return None
    ((height, width), _), *rest = others.most_common()
    also = f" and {len(rest)} other size{'s' if len(rest) > 1 else ''}" if rest else ""
    how = ""
    if fit == "crop" and zoom != 1:
        how = f", the middle {zoom:g} of the largest square in each"
    elif any(height != width for height, width in others):
        how = ", the largest square in the middle of each" if fit == "crop" else ", stretched"
    return f"{others.total():,} of {sizes.total():,} pictures resized from {width}×{height}{also} to {size}×{size}{how}"


def _nearest(low: float, high: float, size: int, limit: int) -> NDArray[np.int64]:
    places = np.floor(low + (np.arange(size) + 0.5) * ((high - low) / size)).astype(np.int64)
    return places.clip(0, limit - 1)
