"""Brightness, contrast, saturation, elastic deformation, pixelation, and JPEG."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, gaussian, sample, to_bytes, to_floats

Bytes = NDArray[np.uint8]


def brightness(images: Bytes, added: float, draws: Draws) -> Bytes:
    """The value v of HSV, which is the largest colour, becomes v + added; all colours grow in proportion."""
    x = to_floats(images)
    value = x.max(axis=1, keepdims=True)
    brighter = np.minimum(value + added, 1)
    black = value == 0  # black has no proportions: it becomes grey
    return to_bytes(np.where(black, brighter, x * (brighter / np.where(black, 1, value))))


def saturate(images: Bytes, constants: tuple[float, float], draws: Draws) -> Bytes:
    """The saturation of HSV, s = 1 − min/max, becomes factor·s + added: colours move away from or towards the largest,
    v.

    c = v − (v − c)·s′/s. Grey has the hue 0, as in HSV: with something added it turns red.
    """
    factor, added = constants
    x = to_floats(images)
    value = x.max(axis=1, keepdims=True)
    range_ = value - x.min(axis=1, keepdims=True)
    grey = range_ == 0
    saturation = range_ / np.where(value == 0, 1, value)
    wanted = np.clip(factor * saturation + added, 0, 1)
    ratio = wanted / np.where(grey, 1, saturation)
    red = np.array([0.0, 1.0, 1.0])[:, None, None] * value * wanted
    return to_bytes(value - np.where(grey, red, (value - x) * ratio))


def contrast(images: Bytes, factor: float, draws: Draws) -> Bytes:
    """(x − m)·factor + m, with m the mean of each colour."""
    # Sums of whole numbers are the same in any order.
    mean = images.sum(axis=(2, 3), keepdims=True, dtype=np.int64) / (images.shape[2] * images.shape[3] * 255.0)
    return to_bytes((to_floats(images) - mean) * factor + mean)


def elastic_transform(images: Bytes, constants: tuple[float, float, float], draws: Draws) -> Bytes:
    """A small random affine map, then a random displacement of every pixel, smooth in space."""
    size = images.shape[-1]
    alpha, sigma, affine = (constant * size for constant in constants)
    x = _random_affine(to_floats(images), affine, draws)
    noise = draws.uniform(2, size, size, low=-1, high=1)  # drawn even where it is not used
    if alpha == 0:
        return to_bytes(x)
    shift = alpha * gaussian(noise, sigma, border="symmetric", truncate=3)  # [B, 2, H, W]: right, down
    grid = np.arange(size, dtype=np.float64)
    return to_bytes(sample(x, grid[:, None] + shift[:, 1], grid + shift[:, 0], border="symmetric"))


def _random_affine(x: Floats, reach: float, draws: Draws) -> Floats:
    """The affine map that moves three corners of a square in the middle by up to ± reach; x [B, C, n, n]."""
    size = x.shape[-1]
    centre, half = size // 2, size // 3
    corners = np.array([[half, half], [half, -half], [-half, -half]]) + float(centre)  # (right, down) of each
    moved = corners + draws.uniform(3, 2, low=-reach, high=reach)  # [B, 3, 2]
    # The inverse A·p + b takes the moved corners back: A·(p₀ − p₁) = (0, 2h) and A·(p₁ − p₂) = (2h, 0).
    first, second = moved[:, 0] - moved[:, 1], moved[:, 1] - moved[:, 2]  # [B, 2]
    area = 2 * half / (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
    matrix = np.empty((len(x), 2, 2))
    matrix[:, 0] = np.stack([-first[:, 1], first[:, 0]], axis=1) * area[:, None]
    matrix[:, 1] = np.stack([second[:, 1], -second[:, 0]], axis=1) * area[:, None]
    grid = np.arange(size, dtype=np.float64)
    right = grid - moved[:, 0, 0, None]  # [B, n]: the distance from the first corner
    down = grid - moved[:, 0, 1, None]
    # As in OpenCV, places are rounded to 1/32 of a pixel.
    columns, rows = (
        np.floor(
            (
                matrix[:, i, 0, None, None] * right[:, None, :]
                + matrix[:, i, 1, None, None] * down[:, :, None]
                + corners[0, i]
            )
            * 32
            + 0.5
        )
        / 32
        for i in range(2)
    )
    return sample(x, rows, columns, border="reflect")


def pixelate(images: Bytes, small: int, draws: Draws) -> Bytes:
    """The picture is shrunk to small × small by means over boxes, and enlarged again by repeating pixels."""
    size = images.shape[-1]
    # A box covers the pixels whose centre lies in it, all with the same weight, as in Pillow.
    edges = np.floor(np.arange(small + 1) * size / small + 0.5).astype(np.int64)
    width = np.diff(edges)
    x = images.astype(np.int64)
    for axis in (3, 2):
        total = np.add.reduceat(x, edges[:-1], axis=axis)
        count = width if axis == 3 else width[:, None]
        x = (2 * total + count) // (2 * count)  # the mean, rounded
    nearest = np.floor((np.arange(size) + 0.5) * small / size).astype(np.int64)
    return x[:, :, nearest[:, None], nearest].astype(np.uint8)


def jpeg_compression(images: Bytes, quality: int, draws: Draws) -> Bytes:
    """Write and read a JPEG file of that quality; one by one, since the codec takes one picture at a time."""
    result = np.empty_like(images)
    for place, picture in enumerate(images.transpose(0, 2, 3, 1)):
        buffer = BytesIO()
        Image.fromarray(np.ascontiguousarray(picture)).save(buffer, "JPEG", quality=quality)
        result[place] = np.asarray(Image.open(buffer)).transpose(2, 0, 1)
    return result
