"""Blur: defocus, frosted glass, motion, zoom, and Gaussian."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, correlate, gaussian, motion_blur, to_bytes, to_floats, zoom

Bytes = NDArray[np.uint8]

# The step of `np.arange(1, stop, 0.01)` in the definition: 0.010000000000000009. It matters at the 26th factor, which
# is 1.2500000000000002 and enlarges 26 pixels to 33, whereas 1.25 gives 32.5, which is rounded to 32.
_ZOOM_STEP = 1.01 - 1


def gaussian_blur(images: Bytes, sigma: float, draws: Draws) -> Bytes:
    """A Gaussian of standard deviation σ; the border is repeated."""
    return to_bytes(gaussian(to_floats(images), sigma))


def defocus_blur(images: Bytes, constants: tuple[float, float], draws: Draws) -> Bytes:
    """The disk of a lens, its edge softened by a 3 × 3 Gaussian."""
    return to_bytes(correlate(to_floats(images), _disk(*constants)))


def _disk(radius: float, edge: float) -> Floats:
    """The kernel [5, 5]: equal weights where x² + y² ≤ radius², blurred."""
    reach = np.arange(-2, 3)
    disk = (reach[:, None] ** 2 + reach**2 <= radius**2).astype(np.float64)
    side = math.exp(-0.5 / edge**2)
    near = np.array([side, 1.0, side]) / (1 + 2 * side)
    return correlate(disk / disk.sum(), np.outer(near, near))


def glass_blur(images: Bytes, constants: tuple[float, int, int], draws: Draws) -> Bytes:
    """A blur, then pixels that take the place of a neighbour, then the blur again.

    By definition pixels near each other change places at random. In the program that made CIFAR-10-C the second half of
    the exchange had no effect, and a move of at most 1 is −1 or 0. So each pixel, from the third row and column on,
    takes its own value or that of a neighbour above or to the left. We follow the published data set.
    """
    sigma, reach, rounds = constants
    x = to_bytes(gaussian(to_floats(images), sigma))
    batch, _, height, width = x.shape
    for _ in range(rounds):
        rows, columns = (draws.integers(2 * reach, height, width) - reach for _ in range(2))
        inside = np.zeros((height, width), dtype=bool)
        inside[reach + 1 :, reach + 1 :] = True
        places = (np.arange(height)[:, None] + rows * inside) * width + np.arange(width) + columns * inside
        x = np.take_along_axis(x.reshape(batch, 3, -1), places.reshape(batch, 1, -1), axis=2).reshape(x.shape)
    return to_bytes(gaussian(to_floats(x), sigma))


def blur_by_motion(images: Bytes, constants: tuple[int, float], draws: Draws) -> Bytes:
    """Motion along a line at an angle between −45° and 45°."""
    radius, sigma = constants
    return motion_blur(images.astype(np.float64), radius, sigma, draws.uniform(low=-45, high=45)).astype(np.uint8)


def zoom_blur(images: Bytes, count: int, draws: Draws) -> Bytes:
    """The mean of the picture and its middle enlarged by 1, 1.01, 1.02, … (`count` of them)."""
    x = to_floats(images)
    total = x.copy()
    for step in range(count):
        total += zoom(x, 1 + step * _ZOOM_STEP)
    return to_bytes(total / (count + 1))
