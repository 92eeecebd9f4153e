"""Clouds: what fog is made of, and the haze on ice."""

from __future__ import annotations

import numpy as np

from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats


def plasma(draws: Draws, size: int, decay: float) -> Floats:
    """Plasma clouds by the diamond-square algorithm, [B, size, size] from 0 to 1; size is a power of 2.

    From scale to scale the middle of each square, then of each diamond, becomes the mean of its four corners plus
    uniform noise of ±w², w falling by the factor `decay`. The map is a torus.
    """
    grid = np.zeros((len(draws.keys), size, size))
    step, wobble = size, 100.0
    while step >= 2:
        half, count = step // 2, size // step

        def noise(count: int = count, wobble: float = wobble) -> Floats:
            return wobble * draws.uniform(count, count, low=-wobble, high=wobble)

        corners = grid[:, ::step, ::step]
        right = corners + np.roll(corners, -1, axis=2)
        middles = (right + np.roll(right, -1, axis=1)) / 4 + noise()
        down = corners + np.roll(corners, -1, axis=1)
        grid[:, half::step, half::step] = middles
        grid[:, ::step, half::step] = (right + middles + np.roll(middles, 1, axis=1)) / 4 + noise()
        grid[:, half::step, ::step] = (down + middles + np.roll(middles, 1, axis=2)) / 4 + noise()
        step, wobble = half, wobble / decay
    grid -= grid.min(axis=(1, 2), keepdims=True)
    return grid / grid.max(axis=(1, 2), keepdims=True)
