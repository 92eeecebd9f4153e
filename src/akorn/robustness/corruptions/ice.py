"""Pictures of ice for the frost corruption: a procedural texture, used where the photographs of CIFAR-10-C are missing.

Frost on a pane grows like ferns: a stem, branches at 60° on both sides, and twigs at 60° on those. Each sheet has
several such ferns on a haze of plasma clouds, in the cold whites and blues of the photographs. The sheets do not depend
on the seed: like the photographs, they are always the same, and a picture gets a random part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from akorn.robustness.corruptions.clouds import plasma
from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, gaussian

SIDE = 256  # pixels of a sheet, a power of 2 for the clouds


@dataclass(frozen=True)
class _Sheet:
    """What one sheet looks like."""

    ferns: int
    haze: float  # how white the clouds are
    glow: float  # how wide and white the ferns are
    dark: tuple[float, float, float]  # where there is no ice
    white: tuple[float, float, float]  # where there is much ice


_SHEETS = (
    _Sheet(34, 0.50, 0.75, (0.12, 0.18, 0.28), (0.86, 0.93, 1.0)),
    _Sheet(24, 0.30, 0.70, (0.05, 0.11, 0.24), (0.72, 0.86, 1.0)),
    _Sheet(40, 0.25, 0.80, (0.08, 0.09, 0.11), (0.94, 0.96, 0.98)),
    _Sheet(30, 0.50, 0.75, (0.26, 0.32, 0.38), (0.97, 0.99, 1.0)),
    _Sheet(44, 0.40, 0.70, (0.14, 0.18, 0.23), (0.90, 0.95, 1.0)),
)


@lru_cache(maxsize=1)
def ice_sheets() -> Floats:
    """All sheets, [sheets, 3, SIDE, SIDE], from 0 to 1 in steps of a grey level."""
    return np.stack([_draw(sheet, number) for number, sheet in enumerate(_SHEETS)])


def _draw(sheet: _Sheet, number: int) -> Floats:
    draws = Draws(np.array([number + 1], dtype=np.uint64))
    stems = np.stack(
        [
            draws.uniform(sheet.ferns, high=SIDE)[0],
            draws.uniform(sheet.ferns, high=SIDE)[0],
            draws.uniform(sheet.ferns, high=2 * np.pi)[0],
            draws.uniform(sheet.ferns, low=40, high=120)[0],
        ],
        axis=1,
    )
    branches = _grow(stems, 4.0, 0.5, draws)
    twigs = _grow(branches, 3.0, 0.45, draws)
    lines = 1.6 * _trace(stems) + 1.2 * _trace(branches) + _trace(twigs)
    crystals = 1 - np.exp(-sheet.glow * (gaussian(lines, 0.5) + 0.1 * gaussian(lines, 3.0)))
    haze = sheet.haze * plasma(draws, SIDE, 2.0)[0]
    ice = 1 - (1 - crystals) * (1 - haze)
    dark, white = (np.array(colour)[:, None, None] for colour in (sheet.dark, sheet.white))
    return np.rint((dark + (white - dark) * ice) * 255) / 255


def _grow(lines: Floats, spacing: float, ratio: float, draws: Draws) -> Floats:
    """Side lines at 60° on both sides of each line [n, 4] (right, down, angle, length), shorter towards its tip."""
    count = int(lines[:, 3].max() / spacing)
    along = spacing * (1 + np.arange(count))  # [count]
    left = lines[:, 3, None] - along  # [n, count]: what is left to the tip
    x = lines[:, 0, None] + along * np.cos(lines[:, 2, None])
    y = lines[:, 1, None] + along * np.sin(lines[:, 2, None])
    sides = []
    for turn in (-np.pi / 3, np.pi / 3):
        length = ratio * left * draws.uniform(*left.shape, low=0.4)[0]
        angle = lines[:, 2, None] + turn + draws.uniform(*left.shape, low=-0.15, high=0.15)[0]
        sides.append(np.stack([x, y, angle, length], axis=-1)[length > 1])
    return np.concatenate(sides)


def _trace(lines: Floats) -> Floats:
    """How much line lies on each pixel, [SIDE, SIDE]; a line that leaves on one side re-enters on the other."""
    canvas = np.zeros(SIDE * SIDE)
    step = 0.5
    for start in range(0, len(lines), 2048):  # to keep the arrays of points small
        x, y, angle, length = (part[:, None] for part in lines[start : start + 2048].T)
        along = step * np.arange(int(length.max() / step) + 1)
        weight = step * np.clip(1.2 - along / length, 0, 1) * (along <= length)  # thinner towards the tip
        column, row = x + along * np.cos(angle), y + along * np.sin(angle)
        left, top = np.floor(column), np.floor(row)
        for down in (0, 1):
            for right in (0, 1):
                share = np.abs(1 - right - (column - left)) * np.abs(1 - down - (row - top))
                place = (top.astype(np.int64) + down) % SIDE * SIDE + (left.astype(np.int64) + right) % SIDE
                canvas += np.bincount(place.ravel(), (weight * share).ravel(), SIDE * SIDE)
    return canvas.reshape(SIDE, SIDE)
