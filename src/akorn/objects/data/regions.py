"""The regions that COCO's annotations describe, as masks: polygons, and both forms of run lengths.

Run lengths count pixels down the columns, one column after the other, outside and inside in turn, beginning outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError

Region = NDArray[np.bool_]


def region(described: Any, height: int, width: int, where: str) -> Region:
    """The mask [H, W] of an annotation's "segmentation"."""
    if isinstance(described, dict):
        return _from_runs(described, height, width, where)
    if isinstance(described, list):
        found = np.zeros((height, width), dtype=np.bool_)
        for polygon in described:
            found |= fill_polygon(polygon, height, width, where)
        return found
    raise AkornError(f"{where}: a segmentation is a {type(described).__name__}, expected polygons or run lengths")


def fill_polygon(corners: Sequence[float], height: int, width: int, where: str = "polygon") -> Region:
    """The pixels whose middles lie inside the polygon x₁, y₁, x₂, y₂, …, by the even-odd rule.

    Along the middle line of each row, pixels from the first crossing of an edge to the second are inside, and so on.
    """
    try:
        points = np.asarray(corners, dtype=np.float64).reshape(-1, 2)
    except (TypeError, ValueError, OverflowError):
        raise AkornError(f"{where}: a polygon is not a list of numbers x, y, x, y, …") from None
    if len(points) < 3 or not np.isfinite(points).all():
        raise AkornError(f"{where}: a polygon of {len(points)} corners, expected 3 or more, all finite")
    x0, y0 = points.T
    x1, y1 = np.roll(points, -1, 0).T
    # Row r has its middle at r + 0.5; an edge crosses those from its upper end to before its lower end.
    first, last = (
        np.ceil(end - 0.5).clip(0, height).astype(np.int64) for end in (np.minimum(y0, y1), np.maximum(y0, y1))
    )
    crossings = last - first
    edge = np.repeat(np.arange(len(points)), crossings)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(crossings) - crossings, crossings) + first[edge]
    x = x0[edge] + (row + 0.5 - y0[edge]) * (x1 - x0)[edge] / (y1 - y0)[edge]
    column = np.ceil(x - 0.5).clip(0, width).astype(np.int64)  # the first pixel whose middle is not left of it
    found = np.zeros((height, width + 1), dtype=np.bool_)
    if len(edge):
        box = slice(row.min(), row.max() + 1), slice(column.min(), column.max() + 1)
        turns = found[box].astype(np.uint8)  # crossings, counted modulo 256, which is even
        np.add.at(turns, (row - box[0].start, column - box[1].start), 1)
        found[box] = np.cumsum(turns, 1, dtype=np.uint8) & 1
    return found[:, :width]


def _from_runs(described: dict[str, Any], height: int, width: int, where: str) -> Region:
    counts, size = described.get("counts"), described.get("size")
    if size != [height, width]:
        raise AkornError(
            f"{where}: run lengths for a mask of size {size}, expected that of the picture, {[height, width]}"
        )
    if isinstance(counts, str | bytes):
        counts = decode_counts(counts, where)
    try:
        runs = np.asarray(counts, dtype=np.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise AkornError(f"{where}: run lengths must be whole numbers or a string") from None
    if (runs < 0).any() or (runs > height * width).any() or runs.sum() != height * width:
        raise AkornError(f"{where}: run lengths of {runs.sum()} pixels in all, expected {height * width}")
    inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return inside.reshape(width, height).T


def decode_counts(text: str | bytes, where: str = "run lengths") -> list[int]:
    """Run lengths from COCO's text form.

    Each number is written in characters of six bits, from '0' on: five bits of the number, the lowest first, and one
    that says whether more follow; the last one's top bit is the sign. From the fourth on, numbers are differences from
    the one two before.
    """
    letters = text.encode() if isinstance(text, str) else text
    counts: list[int] = []
    value = shift = 0
    for letter in letters:
        bits = letter - ord("0")
        if not 0 <= bits < 64:
            raise AkornError(f"{where}: run lengths contain {chr(letter)!r}, which is not one of their 64 characters")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
        value = shift = 0
    if shift:
        raise AkornError(f"{where}: run lengths end in the middle of a number")
    return counts
