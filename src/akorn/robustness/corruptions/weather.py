"""Weather: snow, frost, and fog."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.robustness.corruptions.clouds import plasma
from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, motion_blur, to_bytes, to_floats, zoom
from akorn.robustness.corruptions.frost_pictures import photographs
from akorn.robustness.corruptions.ice import ice_sheets

Bytes = NDArray[np.uint8]


def snow(images: Bytes, constants: tuple[float, ...], draws: Draws) -> Bytes:
    """Bright spots of noise, enlarged and blurred along the direction of their fall, over a picture made paler."""
    mean, deviation, enlarge, threshold, radius, sigma, weight = constants
    x = to_floats(images)
    flakes = zoom(mean + deviation * draws.normal(*images.shape[2:]), enlarge)  # [B, H, W]
    flakes = to_bytes(np.where(flakes < threshold, 0.0, flakes)).astype(np.float64)[:, None]
    flakes = motion_blur(flakes, int(radius), sigma, draws.uniform(low=-135, high=-45)) / 255
    grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
    x = weight * x + (1 - weight) * np.maximum(x, grey * 1.5 + 0.5)
    return to_bytes(x + flakes + flakes[:, :, ::-1, ::-1])  # the flakes, and the same flakes rotated by 180°


def frost(images: Bytes, constants: tuple[float, float], draws: Draws) -> Bytes:
    """A weighted sum with a part of a picture of frost, cut out at random.

    The pictures are the photographs of CIFAR-10-C if they are installed (`frost_pictures`), and otherwise a procedural
    texture.
    """
    ours, theirs = constants
    found = photographs()
    crop = _crops_of_ice(images, draws) if found is None else _crops(found, images, draws)
    return to_bytes(ours * to_floats(images) + theirs * crop)


def _crops(pictures: tuple[Bytes, ...], images: Bytes, draws: Draws) -> Floats:
    """For each image a crop of its size from one of the pictures [3, H, W], with values from 0 to 1."""
    height, width = images.shape[2:]
    which = draws.integers(len(pictures))
    row, column = draws.uniform(), draws.uniform()  # in [0, 1): pictures differ in size
    crops = np.empty(images.shape)
    for place, number in enumerate(which):
        picture = pictures[number]
        top = int(row[place] * (picture.shape[1] - height))  # never the last, as published
        left = int(column[place] * (picture.shape[2] - width))
        crops[place] = to_floats(picture[:, top : top + height, left : left + width])
    return crops


def _crops_of_ice(images: Bytes, draws: Draws) -> Floats:
    ice = ice_sheets()  # [sheets, 3, side, side], 0 to 1
    height, width = images.shape[2:]
    sheet = draws.integers(ice.shape[0])
    top, left = draws.integers(ice.shape[2] - height + 1), draws.integers(ice.shape[3] - width + 1)
    rows = top[:, None] + np.arange(height)
    columns = left[:, None] + np.arange(width)
    # Two advanced indices around a slice: the colours come last, [B, H, W, 3].
    return ice[sheet[:, None, None], :, rows[:, :, None], columns[:, None, :]].transpose(0, 3, 1, 2)


def fog(images: Bytes, constants: tuple[float, float], draws: Draws) -> Bytes:
    """(x + a·plasma)·m / (m + a), with m the largest value of the picture."""
    thickness, decay = constants
    x = to_floats(images)
    most = x.max(axis=(1, 2, 3), keepdims=True)
    x = x + thickness * plasma(draws, images.shape[-1], decay)[:, None]
    return to_bytes(x * most / (most + thickness))
