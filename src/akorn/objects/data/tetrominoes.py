"""Tetrominoes in the style of the multi-object benchmark: three pieces in six colours on black, without overlap.

Drawn in the benchmark's 35×35 and cut to rows and columns 1 to 32, as its pictures are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.objects.data.picture_sets import Image, Mask
from akorn.objects.data.sets import SETS

CANVAS, SIZE, CUT = 35, 32, 1
SQUARE = 5  # the side of the squares that make up a piece
PIECES = 3
# red, green, blue, yellow, magenta, cyan
COLOURS = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [255, 0, 255], [0, 255, 255]], dtype=np.uint8)
# Six pieces have 17 orientations: T, J and L four each, S and Z two each, O one. The seventh, I, would make 19.
_DRAWN = ("xxx .x.", "xxx ..x", "xxx x..", ".xx xx.", "xx. .xx", "xx xx")


def orientations() -> NDArray[np.bool_]:
    """The 17 pieces as [17, 15, 15] pixels, each in the corner of its window."""
    found: dict[bytes, NDArray[np.bool_]] = {}
    for text in _DRAWN:
        squares = np.array([[letter == "x" for letter in line] for line in text.split()])
        for turns in range(4):
            piece = np.zeros((3, 3), dtype=np.bool_)
            turned = np.rot90(squares, turns)
            piece[: turned.shape[0], : turned.shape[1]] = turned
            found.setdefault(piece.tobytes(), piece)
    return np.stack([np.kron(piece, np.ones((SQUARE, SQUARE), dtype=np.bool_)) for piece in found.values()])


_PIECES = orientations()
_WINDOW = _PIECES.shape[1]
_HEIGHTS = _PIECES.any(2).sum(1)
_WIDTHS = _PIECES.any(1).sum(1)


@SETS.add("tetrominoes", clusters=4, size=SIZE, counts=(60_000, 10_000, 320))
def block(rng: np.random.Generator, count: int) -> tuple[Image, Mask]:
    """Pictures uint8 [count, 3, 32, 32] and labels int16 [count, 32, 32]."""
    labels = np.zeros((count, SIZE, SIZE), dtype=np.int16)
    missing = np.arange(count)
    while len(missing):  # if pieces overlap, the whole picture is drawn again, so all placements are equally likely
        drawn, good = _place(rng, len(missing))
        labels[missing[good]] = drawn[good]
        missing = missing[~good]
    palette = np.zeros((count, PIECES + 1, 3), dtype=np.uint8)
    palette[:, 1:] = COLOURS[rng.integers(len(COLOURS), size=(count, PIECES))]
    return paint(palette, labels), labels


def paint(palette: NDArray[np.uint8], labels: Mask) -> Image:
    """The colour of each pixel's label: palette [N, labels, 3] and labels [N, H, W] → [N, 3, H, W]."""
    flat = labels.reshape(len(labels), 1, -1).astype(np.intp)
    return np.take_along_axis(palette.transpose(0, 2, 1), flat, 2).reshape(len(labels), 3, *labels.shape[1:])


def _place(rng: np.random.Generator, count: int) -> tuple[Mask, NDArray[np.bool_]]:
    """Three pieces anywhere inside the canvas: labels [count, 32, 32], and which pictures have no overlap."""
    kinds = rng.integers(len(_PIECES), size=(count, PIECES))
    room = np.stack([CANVAS - _HEIGHTS[kinds], CANVAS - _WIDTHS[kinds]], -1) + 1
    corners = rng.integers(room)  # [count, 3, 2]
    every = np.arange(count)[:, None, None]
    offsets = np.arange(_WINDOW)
    covered = np.zeros((count, CANVAS + _WINDOW, CANVAS + _WINDOW), dtype=np.int8)  # large enough for any window
    labels = np.zeros_like(covered, dtype=np.int16)
    for piece in range(PIECES):
        rows, columns = (corners[:, piece, axis, None] + offsets for axis in (0, 1))
        window = every, rows[:, :, None], columns[:, None, :]
        pixels = _PIECES[kinds[:, piece]]
        covered[window] += pixels
        labels[window] += pixels * np.int16(piece + 1)
    cut = slice(CUT, CUT + SIZE)
    return labels[:, cut, cut], covered.max((1, 2)) <= 1
