"""Distances for average linkage on the CPU: all pairs of points, clusters of points, and single pairs in doubt.

NumPy alone, since helper processes start with it much sooner than with torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]  # in float64 or float32
Ints = NDArray[np.int64]

BLOCK = 128  # rows that are worked on at a time: they stay in the cache
_CLOSE = 1e-6  # squared distances below this share of the largest norm² are computed anew, from differences
_PAIRS = 2_000_000  # pairs of points that are looked at anew at most, or all pairs once where those are more
_DOUBTS = 0.1  # distances that are computed anew at most, as a share of the points


class TooManyDoubts(Exception):
    """It would be quicker to compute everything exactly."""


class Room:
    """Memory for the matrices of one picture of `count` points after another: getting it anew costs page faults."""

    def __init__(self, count: int, dtype: type[np.floating[Any]] = np.float64) -> None:
        self.count = count
        half = max(BLOCK, count // 2) * count  # a round merges half of the clusters at most
        self._flat = [np.empty(size, dtype) for size in (count * count, half, half)]
        self._block = np.empty(BLOCK * count)

    def part(self, which: int, rows: int, columns: int) -> Matrix:
        """A matrix in one of the three parts; what was there is lost."""
        return self._flat[which][: rows * columns].reshape(rows, columns)

    def block(self, rows: int, columns: int) -> Floats:
        """Some rows in float64, whatever the type of the parts."""
        return self._block[: rows * columns].reshape(rows, columns)


def distances(points: Floats, room: Room) -> Matrix:
    """[P, P], exactly symmetric: Euclidean distances, infinite on the diagonal; in part 0 of the room, in its type."""
    count = len(points)
    points = points - points.mean(0)  # smaller norms, fewer digits lost
    left, right, limit = _factors(points, points)
    result = room.part(0, count, count)
    for start in range(0, count, BLOCK):
        end = min(start + BLOCK, count)
        squares = room.block(end - start, count - start)
        np.matmul(left[start:end], right[start:].T, out=squares)
        np.fill_diagonal(squares, np.inf)
        _refine(squares, limit, points[start:end], points[start:])
        corner = squares[:, : end - start]
        corner[...] = np.minimum(corner, corner.T)  # products of two orders differ in the last bit
        rows = result[start:end, start:]
        rows[...] = squares  # rounded, where the room is in float32
        np.sqrt(rows, out=rows)
        result[end:, start:end] = rows[:, end - start :].T
    return result


def _factors(first: Floats, second: Floats) -> tuple[Floats, Floats, float]:
    """[M, F + 2], [N, F + 2], whose products are squared distances, and the limit below which those lost digits.

    ‖a − b‖² = (−2a, ‖a‖², 1)·(b, 1, ‖b‖²)
    """
    norms, others = (np.einsum("pf,pf->p", group, group)[:, None] for group in (first, second))
    left = np.concatenate((-2 * first, norms, np.ones_like(norms)), 1)
    right = np.concatenate((second, np.ones_like(others), others), 1)
    return left, right, _CLOSE * float(max(norms.max(), others.max()))


def _refine(squares: Floats, limit: float, rows: Floats, columns: Floats) -> None:
    """Compute the squares of close pairs anew, from their differences, in place."""
    if squares.min() >= limit:
        return
    close = squares < limit
    for start in range(0, len(rows), 8):  # some rows at a time, since all differences of a block may be many
        i, j = np.nonzero(close[start : start + 8])
        apart = rows[i + start] - columns[j]
        squares[i + start, j] = np.einsum("pf,pf->p", apart, apart)


def between_clusters(d: Matrix, root: Ints, names: Ints) -> Matrix:
    """Distances of points [P, P] → mean distances between clusters [n, n]; root [P]: the cluster of every point."""
    np.fill_diagonal(d, 0)
    order = root.argsort(kind="stable")
    starts = np.searchsorted(root[order], names)  # names are in order
    sums = np.add.reduceat(np.add.reduceat(d[order], starts, 0)[:, order], starts, 1)
    size = np.diff(starts, append=len(root))
    sums /= size[:, None] * size
    means: Matrix = np.minimum(sums, sums.T)  # symmetric to the last bit
    np.fill_diagonal(means, np.inf)
    return means


class Doubts:
    """Says exactly which cluster is nearest, where rounded distances cannot; TooManyDoubts where that takes long."""

    def __init__(self, points: Floats) -> None:
        self._points = points
        self._pairs = max(_PAIRS, len(points) ** 2)
        self._left = 16 + int(_DOUBTS * len(points))

    def nearest(self, cluster: int, among: Ints, root: Ints) -> int:
        """The place in `among` of the cluster nearest to one; root [P]: the cluster of every point."""
        self._left -= len(among)
        if self._left < 0:
            raise TooManyDoubts
        mine = self._points[root == cluster]
        return int(np.argmin([self._distance(mine, self._points[root == other]) for other in among]))

    def _distance(self, first: Floats, second: Floats) -> float:
        """The mean distance between two groups of points."""
        self._pairs -= len(first) * len(second)
        if self._pairs < 0:
            raise TooManyDoubts
        centre = first.mean(0)
        first, second = first - centre, second - centre
        left, right, limit = _factors(first, second)
        squares = left @ right.T
        _refine(squares, limit, first, second)
        return float(np.sqrt(squares, out=squares).mean())
