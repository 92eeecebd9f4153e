"""What several corruptions are built from: blur, motion, zoom and interpolation of whole batches.

Arrays are float64 and end in [..., H, W]. Everything is built from single additions and multiplications in a fixed
order, which give the same bits on every machine and for every batch size; no matrix product is used.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Past the border: "edge" repeats the last pixel, "symmetric" mirrors with it (dcba|abcd), "reflect" without (dcb|abcd).
Border = Literal["edge", "symmetric", "reflect"]


def to_floats(images: NDArray[np.uint8]) -> Floats:
    """Bytes as numbers from 0 to 1."""
    return images / 255.0


def to_bytes(x: Floats) -> NDArray[np.uint8]:
    """Numbers from 0 to 1, or beyond, as bytes, rounded down as in CIFAR-10-C.

    A little is added so that a value that should be whole, but is off in the last bit, is not rounded down by one.
    """
    return (np.clip(x, 0, 1) * 255 + 1e-6).astype(np.uint8)


@lru_cache
def _gaussian_weights(sigma: float, truncate: float) -> list[float]:
    """Weights of the neighbours at distance 0, 1, …, up to truncate·σ."""
    radius = int(truncate * sigma + 0.5)
    weights = [math.exp(-0.5 * (distance / sigma) ** 2) if distance else 1.0 for distance in range(radius + 1)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights]


def gaussian(x: Floats, sigma: float, border: Border = "edge", truncate: float = 4.0) -> Floats:
    """x blurred along its last two axes by a Gaussian that ends at truncate·σ."""
    weights = _gaussian_weights(sigma, truncate)
    radius = len(weights) - 1
    for axis in (-2, -1) if radius else ():
        size = x.shape[axis]
        padded = _pad(x, radius, border, axis)
        result = weights[0] * _part(padded, radius, size, axis)
        for distance in range(1, radius + 1):
            pair = _part(padded, radius - distance, size, axis) + _part(padded, radius + distance, size, axis)
            pair *= weights[distance]
            result += pair
        x = result
    return x


def correlate(x: Floats, kernel: Floats, border: Border = "reflect") -> Floats:
    """Σ kernel[i, j] · x[…, y + i − r, x + j − r], for a kernel of (2r + 1)²."""
    radius = kernel.shape[0] // 2
    height, width = x.shape[-2:]
    padded = _pad(_pad(x, radius, border, -2), radius, border, -1)
    result = np.zeros_like(x)
    for (row, column), weight in np.ndenumerate(kernel):
        if weight != 0:
            result += weight * padded[..., row : row + height, column : column + width]
    return result


def _pad(x: Floats, radius: int, border: Border, axis: int) -> Floats:
    widths = [(0, 0)] * x.ndim
    widths[axis] = (radius, radius)
    return np.pad(x, widths, mode=border)


def _part(x: Floats, start: int, size: int, axis: int) -> Floats:
    return x[..., start : start + size, :] if axis == -2 else x[..., start : start + size]


def motion_blur(x: Floats, radius: int, sigma: float, angle: Floats) -> Floats:
    """Each pixel of x [B, C, H, W] as a weighted sum of those behind it on a line at `angle` [B], in degrees.

    Weight i, for the pixel at distance i rounded to whole pixels, is exp(−i²/2σ²); there are 2·radius + 1 weights (the
    definition of ImageMagick's motion blur). The border is repeated. Grey levels, 0 to 255, come out rounded to the
    nearest.
    """
    count = 2 * math.ceil(radius) + 1
    weights = [math.exp(-0.5 * (distance / sigma) ** 2) for distance in range(count)]
    total = sum(weights)
    batch, channels, height, width = x.shape
    # Rounded, so that the last bit of sin and cos does not decide which pixel is taken.
    down, right = (np.rint(part(np.deg2rad(angle)) * 2**30) / 2**30 for part in (np.sin, np.cos))
    flat = x.reshape(batch, channels, -1)
    result = np.zeros_like(flat)
    for distance, weight in enumerate(weights):
        if weight / total < 1e-9:
            break
        rows = np.clip(np.arange(height) + np.ceil(distance * down - 0.5).astype(np.int64)[:, None], 0, height - 1)
        columns = np.clip(np.arange(width) + np.ceil(distance * right - 0.5).astype(np.int64)[:, None], 0, width - 1)
        places = (rows[:, :, None] * width + columns[:, None, :]).reshape(batch, 1, -1)
        result += weight / total * np.take_along_axis(flat, places, axis=2)
    # Not rounded down as NumPy's bytes are elsewhere: ImageMagick has 16 bits per value, 257 steps per grey level, and
    # rounds them to the nearest. In 2018, when CIFAR-10-C was made, it rounded bytes to the nearest too; later builds,
    # such as 6.9.11-60, round bytes down. We follow the older ones; the difference is at most one grey level.
    return np.floor(result.reshape(x.shape) + 0.5)


def zoom(x: Floats, factor: float) -> Floats:
    """The middle of square pictures [..., n, n], enlarged by `factor` to n × n; linear between pixel centres."""
    size = x.shape[-1]
    crop = math.ceil(size / factor)
    enlarged = round(crop * factor)
    trim = (enlarged - size) // 2
    scale = (crop - 1) / (enlarged - 1) if enlarged > 1 else 0.0
    places = (size - crop) // 2 + scale * (np.arange(size) + trim)
    low = np.minimum(places.astype(np.int64), size - 2)
    weight = places - low
    x = x[..., low, :] + (x[..., low + 1, :] - x[..., low, :]) * weight[:, None]
    return x[..., low] + (x[..., low + 1] - x[..., low]) * weight


def sample(x: Floats, rows: Floats, columns: Floats, border: Literal["symmetric", "reflect"]) -> Floats:
    """x [B, C, H, W] at places [B, H, W], bilinear between pixels, mirrored past the border."""
    batch, channels, height, width = x.shape
    flat = x.reshape(batch, channels, -1)
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[:, None], (columns - left)[:, None]
    mirrored = [
        [_mirror(start.astype(np.int64) + step, size, border) for step in (0, 1)]
        for start, size in ((top, height), (left, width))
    ]

    def at(row: int, column: int) -> Floats:
        places = (mirrored[0][row] * width + mirrored[1][column]).reshape(batch, 1, -1)
        return np.take_along_axis(flat, places, axis=2).reshape(x.shape)

    upper = at(0, 0) * (1 - right) + at(0, 1) * right
    lower = at(1, 0) * (1 - right) + at(1, 1) * right
    return upper * (1 - down) + lower * down


def _mirror(places: NDArray[np.int64], size: int, border: str) -> NDArray[np.int64]:
    period = 2 * size if border == "symmetric" else 2 * (size - 1)
    places = places % period
    return np.where(places < size, places, period - places - (1 if border == "symmetric" else 0))
