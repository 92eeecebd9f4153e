"""Spatter: drops of water or mud on the lens. The water's gloss is computed from edges, distances and a relief."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.robustness.corruptions.draws import Draws
from akorn.robustness.corruptions.filters import Floats, correlate, gaussian, to_bytes, to_floats

Bytes = NDArray[np.uint8]

_WATER = np.array([175, 238, 238])[:, None, None] / 255  # pale turquoise
_MUD = np.array([63, 42, 20])[:, None, None] / 255
_RELIEF = np.array([[-2.0, -1, 0], [-1, 1, 1], [0, 1, 2]])
_BOX = np.ones((3, 3))


def spatter(images: Bytes, constants: tuple[float, float, float, float, float, bool], draws: Draws) -> Bytes:
    """Noise, blurred and cut off below a threshold, is the liquid [B, H, W]: water is added, mud covers."""
    mean, deviation, blur, threshold, strength, muddy = constants
    x = to_floats(images)
    liquid = gaussian(mean + deviation * draws.normal(*images.shape[2:]), blur)
    if muddy:
        mud = gaussian((liquid > threshold).astype(np.float64), strength)
        mud = np.where(mud < 0.8, 0.0, mud)[:, None]
        return to_bytes(x * (1 - mud) + mud * _MUD)
    drops = to_bytes(np.where(liquid < threshold, 0.0, liquid)).astype(np.int64)
    gloss = drops * _relief(drops)
    most = gloss.max(axis=(1, 2), keepdims=True)
    water = strength * gloss / np.maximum(most, 1)  # a picture without drops stays as it is
    return to_bytes(x + water[:, None] * _WATER)


def _relief(drops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Light from one corner on the drops: the equalised distance from their edges, filtered; 0 to 255, [B, H, W]."""
    distance = np.minimum(_distance(_edges(drops)), 20.0)
    smooth = np.floor(correlate(distance, _BOX) / 9 + 1e-6).astype(np.int64)
    lit = np.clip(correlate(_equalise(smooth).astype(np.float64), _RELIEF), 0, 255)
    return np.rint(correlate(lit, _BOX) / 9).astype(np.int64)


def _edges(x: NDArray[np.int64], low: int = 50, high: int = 150) -> NDArray[np.bool_]:
    """Canny's edges of [B, H, W]: ridges of |gx| + |gy| above `low` that are connected to one above `high`."""
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)), mode="edge")
    across = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]  # Sobel: smooth along one axis, take differences along the other
    along = p[:, :, :-2] + 2 * p[:, :, 1:-1] + p[:, :, 2:]
    right, down = across[:, :, 2:] - across[:, :, :-2], along[:, 2:] - along[:, :-2]
    size = np.abs(right) + np.abs(down)
    around = np.pad(size, ((0, 0), (1, 1), (1, 1)))

    def beside(row: int, column: int) -> NDArray[np.int64]:
        return around[:, 1 + row : 1 + row + x.shape[1], 1 + column : 1 + column + x.shape[2]]

    flat = np.abs(down) < np.tan(np.pi / 8) * np.abs(right)  # the gradient points within 22.5° of the row
    steep = np.abs(down) > np.tan(3 * np.pi / 8) * np.abs(right)
    falling = (right < 0) != (down < 0)
    crest = np.select(
        [flat, steep, falling],
        [
            (size > beside(0, -1)) & (size >= beside(0, 1)),
            (size > beside(-1, 0)) & (size >= beside(1, 0)),
            (size > beside(-1, 1)) & (size > beside(1, -1)),
        ],
        (size > beside(-1, -1)) & (size > beside(1, 1)),
    )
    weak = crest & (size > low)
    edges = weak & (size > high)
    while True:  # spread along weak ridges until nothing is added
        grown = edges.copy()
        for axis in (1, 2):
            before = np.moveaxis(grown.copy(), axis, -1)
            after = np.moveaxis(grown, axis, -1)
            after[..., 1:] |= before[..., :-1]
            after[..., :-1] |= before[..., 1:]
        grown &= weak
        if np.array_equal(grown, edges):
            return edges
        edges = grown


def _distance(edges: NDArray[np.bool_]) -> Floats:
    """The distance from each pixel to the nearest edge, [B, H, W], at most 20.

    Steps cost 1 straight, 1.4 diagonally and 2.1969 for a knight's move (the 5 × 5 mask of Borgefors, 1986).
    """
    batch, height, width = edges.shape
    way = np.full((batch, height + 4, width + 4), 20.0)
    inner = way[:, 2:-2, 2:-2]
    inner[edges] = 0
    costs = {1: 1.0, 2: 1.4, 5: 2.1969}  # by the square of the distance
    steps = [(row, column) for row in range(-2, 3) for column in range(-2, 3) if row**2 + column**2 in costs]
    while True:
        before = inner.copy()
        for row, column in steps:
            there = way[:, 2 + row : 2 + row + height, 2 + column : 2 + column + width]
            np.minimum(inner, there + costs[row**2 + column**2], out=inner)
        if np.array_equal(before, inner):
            return before


def _equalise(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value of [B, H, W] (0 to 20) by its share of the pixels above the lowest value, 0 to 255.

    A picture of one value keeps it.
    """
    batch = len(x)
    flat = x.reshape(batch, -1)
    levels = 21
    counts = np.bincount((flat + levels * np.arange(batch)[:, None]).ravel(), minlength=levels * batch)
    below = np.cumsum(counts.reshape(batch, levels), axis=1)  # [B, levels]
    lowest = np.take_along_axis(below, flat.min(axis=1, keepdims=True), axis=1)
    total = flat.shape[1]
    table = np.rint((below - lowest) * (255.0 / np.maximum(total - lowest, 1))).astype(np.int64)
    table = np.where(lowest == total, np.arange(levels), table)
    return np.take_along_axis(table, flat, axis=1).reshape(x.shape)
