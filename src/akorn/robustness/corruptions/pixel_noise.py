"""Noise: Gaussian, shot, impulse, and speckle."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, to_bytes, to_floats

Bytes = NDArray[np.uint8]


def gaussian_noise(images: Bytes, sigma: float, draws: Draws) -> Bytes:
    """x + σ·n, with n standard normal for each value."""
    return to_bytes(to_floats(images) + sigma * draws.normal(*images.shape[1:]))


def speckle_noise(images: Bytes, sigma: float, draws: Draws) -> Bytes:
    """x + σ·x·n, with n standard normal for each value."""
    x = to_floats(images)
    return to_bytes(x + x * (sigma * draws.normal(*images.shape[1:])))


def impulse_noise(images: Bytes, share: float, draws: Draws) -> Bytes:
    """A share of all values, each colour independently, becomes 0 or 255 with equal probability."""
    u = draws.uniform(*images.shape[1:])
    return np.where(u < share / 2, np.uint8(0), np.where(u < share, np.uint8(255), images))


def shot_noise(images: Bytes, photons: int, draws: Draws) -> Bytes:
    """Poisson(x·λ) / λ, for λ photons per pixel of value 1; each value independently.

    A uniform number is looked up in the distribution function of its value; there are only 256 values.
    """
    table, starts = _poisson_table(photons)
    u = draws.uniform(*images.shape[1:])
    # The tables of all values follow each other, each raised by its value, so that one search in one ascending array
    # does it.
    counts = np.searchsorted(table, u + images, side="right") - starts[images]
    return to_bytes(counts / photons)


@lru_cache
def _poisson_table(photons: int) -> tuple[Floats, NDArray[np.int64]]:
    """P(count ≤ k) + v for λ = photons·v/255, for v = 0 … 255 one after the other, and where each begins."""
    tables = []
    for value in range(256):
        rate = photons * value / 255
        most = int(rate + 10 * np.sqrt(rate) + 20)  # the probability beyond it is below 10⁻¹⁵
        # The probabilities relative to the likeliest count, by their ratios, so that none overflows.
        peak = int(rate)
        up = np.cumprod(rate / np.arange(peak + 1, most + 1))
        down = np.cumprod(np.arange(peak, 0, -1) / rate) if value else np.empty(0)
        relative = np.concatenate([down[::-1], [1.0], up])
        # The last entry is 1, which no uniform number reaches; every table ends below the next.
        tables.append(value + np.minimum(np.cumsum(relative) / relative.sum(), 1.0)[:-1])
    starts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
    return np.concatenate(tables), starts
