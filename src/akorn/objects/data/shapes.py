"""Shapes: 40×40 grey pictures with two to four hollow outlines, which may overlap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.objects.data.picture_sets import IGNORE, Image, Mask
from akorn.objects.data.sets import SETS

SIZE, STAMP = 40, 18
FEWEST, MOST = 2, 4
DARKEST, BRIGHTEST = 0.1, 0.6  # brightness of the background; the outlines have 1


def outlines() -> NDArray[np.bool_]:
    """Triangle, square, circle and diamond as stamps [4, 18, 18]: the larger figure minus the smaller one.

    Figures hold the pixels on their edges, except the circle, which holds those nearer to its centre than its radius.
    """
    row, column = np.mgrid[:STAMP, :STAMP]
    from_centre = np.hypot(row - 8, column - 8)
    beside, below = abs(column - 8), abs(row - 8)
    stamps = [
        # corners (4,8)(11,1)(11,15) minus (6,8)(9,5)(9,11): all their slopes are 45°
        ((row <= 11) & (beside <= row - 4)) & ~((row <= 9) & (beside <= row - 6)),
        ((row >= 3) & (row <= 12) & (column >= 3) & (column <= 12))
        & ~((row >= 5) & (row <= 10) & (column >= 5) & (column <= 10)),
        (from_centre < 7) & ~(from_centre < 5),
        # corners (8,2)(2,8)(8,14)(14,8) minus (8,4)(4,8)(8,12)(12,8)
        (beside + below <= 6) & ~(beside + below <= 4),
    ]
    return np.stack(stamps)


_STAMPS = outlines()


@SETS.add("shapes", clusters=5, size=SIZE, channels=1, counts=(40_000, 1_000, 1_000))
def block(rng: np.random.Generator, count: int) -> tuple[Image, Mask]:
    """Pictures uint8 [count, 1, 40, 40] and labels int16 [count, 40, 40]; pixels under two stamps are labelled −1."""
    grey = np.rint(255 * rng.uniform(DARKEST, BRIGHTEST, count)).astype(np.uint8)
    stamps = rng.integers(FEWEST, MOST + 1, count)
    kinds = rng.integers(len(_STAMPS), size=(count, MOST))
    corners = rng.integers(SIZE - STAMP + 1, size=(count, MOST, 2))  # row and column of a stamp's first pixel
    covered = np.zeros((count, SIZE, SIZE), dtype=np.int8)
    labels = np.zeros((count, SIZE, SIZE), dtype=np.int16)
    offsets = np.arange(STAMP)
    for stamp in range(MOST):
        drawn = np.flatnonzero(stamps > stamp)
        rows = corners[drawn, stamp, :1] + offsets  # [n, 18]
        columns = corners[drawn, stamp, 1:] + offsets
        window = drawn[:, None, None], rows[:, :, None], columns[:, None, :]
        lit = _STAMPS[kinds[drawn, stamp]]  # [n, 18, 18]
        covered[window] += lit
        labels[window] += lit * np.int16(stamp + 1)  # wrong where covered twice, and replaced there
    labels[covered > 1] = IGNORE
    images = np.where(covered > 0, np.uint8(255), grey[:, None, None])
    return images[:, None], labels
