"""Multi-dSprites, "coloured on greyscale": two to five ovals, hearts and squares on a grey background.

Scale, place and rotation are continuous. Edges are sharp, a later sprite covers an earlier one, and masks show the
visible parts. As in dSprites no sprite leaves the picture: at scale 1 it fits a circle of radius 15 at any angle, and
its middle stays 15 pixels away from the edges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.objects.data.picture_sets import Image, Mask
from akorn.objects.data.sets import SETS
from akorn.objects.data.tetrominoes import paint

SIZE, REACH = 64, 15
FEWEST, MOST = 2, 5
SMALLEST, LARGEST = 0.5, 1.0
OVAL, HEART, HALF_SQUARE = (8.0, 13.0), 10.5, 10.0  # semi-axes, unit of the curve, half a side; in pixels
DULLEST = 0.5  # the smallest saturation and value of a colour, clearly different from every grey

Floats = NDArray[np.float32]


def oval(u: Floats, v: Floats) -> NDArray[np.bool_]:
    """(u/a)² + (v/b)² ≤ 1."""
    return (u / OVAL[0]) ** 2 + (v / OVAL[1]) ** 2 <= 1


def heart(u: Floats, v: Floats) -> NDArray[np.bool_]:
    """(x² + y² − 1)³ ≤ x² y³, moved so that its middle lies at the origin; it points down."""
    x2, y = (u / HEART) ** 2, 0.12 - v / HEART
    inner = x2 + y * y - 1
    return inner * inner * inner <= x2 * y * y * y


def square(u: Floats, v: Floats) -> NDArray[np.bool_]:
    """|u| ≤ s and |v| ≤ s."""
    return np.maximum(abs(u), abs(v)) <= HALF_SQUARE


SPRITES = (oval, heart, square)


@SETS.add("dsprites", clusters=7, size=SIZE, counts=(60_000, 10_000, 320))
def block(rng: np.random.Generator, count: int) -> tuple[Image, Mask]:
    """Pictures uint8 [count, 3, 64, 64] and labels int16 [count, 64, 64]."""
    labels = np.zeros((count, SIZE, SIZE), dtype=np.int16)
    missing = np.arange(count)
    while len(missing):  # a picture with an invisible sprite is drawn again
        drawn, good = _place(rng, len(missing))
        labels[missing[good]] = drawn[good]
        missing = missing[~good]
    palette = np.empty((count, MOST + 1, 3), dtype=np.uint8)
    palette[:, 0] = rng.integers(256, size=(count, 1))
    palette[:, 1:] = colours(rng.random((count, MOST, 3)) * (1, 1 - DULLEST, 1 - DULLEST) + (0, DULLEST, DULLEST))
    return paint(palette, labels), labels


def colours(hsv: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Hue, saturation and value in 0–1 [..., 3] → RGB bytes: f(n) = v − v s max(0, min(k, 4 − k, 1)), k = n + 6h."""
    hue, saturation, value = (hsv[..., axis, None] for axis in range(3))
    k = (np.array([5.0, 3.0, 1.0]) + 6 * hue) % 6
    return np.rint(255 * value * (1 - saturation * np.minimum(k, 4 - k).clip(0, 1))).astype(np.uint8)


def _place(rng: np.random.Generator, count: int) -> tuple[Mask, NDArray[np.bool_]]:
    """Labels [count, 64, 64] of random sprites, and in which pictures all of them are visible."""
    sprites = rng.integers(FEWEST, MOST + 1, count)
    kinds = rng.integers(len(SPRITES), size=(count, MOST))
    scale, angle, y, x = rng.random((4, count, MOST))
    scale = SMALLEST + (LARGEST - SMALLEST) * scale
    angle = 2 * np.pi * angle
    y, x = (REACH + (SIZE - 2 * REACH) * place for place in (y, x))
    labels = np.zeros((count, SIZE, SIZE), dtype=np.int16)
    offsets = np.arange(-REACH, REACH + 1)
    for sprite in range(MOST):
        for kind, inside in enumerate(SPRITES):
            drawn = np.flatnonzero((sprites > sprite) & (kinds[:, sprite] == kind))
            rows, columns = (place[drawn, sprite, None].astype(np.intp) + offsets for place in (y, x))  # [n, 31]
            down = (rows + 0.5 - y[drawn, sprite, None]).astype(np.float32)[:, :, None]
            right = (columns + 0.5 - x[drawn, sprite, None]).astype(np.float32)[:, None, :]
            cosine, sine = (
                (turn(angle[drawn, sprite]) / scale[drawn, sprite]).astype(np.float32)[:, None, None]
                for turn in (np.cos, np.sin)
            )
            picture, row, column = np.nonzero(inside(cosine * right + sine * down, cosine * down - sine * right))
            labels[drawn[picture], rows[picture, row], columns[picture, column]] = sprite + 1
    seen = np.zeros((count, MOST + 1), dtype=np.bool_)
    seen[np.arange(count)[:, None, None], labels] = True
    return labels, seen.sum(1) == sprites + 1  # one more: the corners are always background
