"""Average linkage on the CPU: the mean distance between the points of two clusters decides which merge.

    d(A, B) = 1/(|A| |B|) Σ_{a∈A, b∈B} ‖a − b‖,    d(A∪B, C) = (|A| d(A, C) + |B| d(B, C)) / (|A| + |B|)

Average linkage is reducible: a merged cluster is never nearer to a third than the nearer of its parts was. So any two
clusters that are each other's nearest can merge at once, in any order, and the tree is the same as if the closest
pair merged first each time. A round merges all such pairs; where rounds merge too few to pay off, the rest is left to
a nearest-neighbour chain, which takes O(P²) whatever the points are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]  # in float64 or float32
Ints = NDArray[np.int64]

_BLOCK = 128  # rows of distances that are computed at a time: they stay in the cache
_CLOSE = 1e-6  # squared distances below this share of the largest norm² are computed anew, from differences
_SHRINK = 0.6  # the matrix is made smaller when only this share of its rows is alive
_FEW = 128  # a round that merges fewer than one of so many clusters hands over to the chain …
_SMALL = 64  # … unless there are only so many left


class Room:
    """Memory for the matrices of one picture of `count` points after another: getting it anew costs page faults."""

    def __init__(self, count: int, dtype: type[np.floating[Any]] = np.float64) -> None:
        half = max(_BLOCK, count // 2) * count  # a round merges half of the clusters at most
        self._flat = [np.empty(size, dtype) for size in (count * count, half, half)]
        self._block = np.empty(_BLOCK * count)

    def part(self, which: int, rows: int, columns: int) -> Matrix:
        """A matrix in one of the three parts; what was there is lost."""
        return self._flat[which][: rows * columns].reshape(rows, columns)

    def block(self, rows: int, columns: int) -> Floats:
        """Some rows in float64, whatever the type of the parts."""
        return self._block[: rows * columns].reshape(rows, columns)


def link(points: Floats, room: Room | None = None) -> tuple[Ints, Floats]:
    """Points [P, F] → into [P], height [P], the rows of a `Tree`."""
    room = Room(len(points)) if room is None else room
    return _merge(distances(points, room), room)


def distances(points: Floats, room: Room) -> Matrix:
    """[P, P], exactly symmetric: Euclidean distances, infinite on the diagonal; in part 0 of the room, in its type.

    ‖a − b‖² = (−2a, ‖a‖², 1)·(b, 1, ‖b‖²) is one matrix product. It loses digits where points nearly coincide, so
    those pairs are computed from their differences.
    """
    count = len(points)
    points = points - points.mean(0)  # smaller norms, fewer digits lost
    norms = np.einsum("pf,pf->p", points, points)[:, None]
    ones = np.ones((count, 1))
    left = torch.from_numpy(np.concatenate((-2 * points, norms, ones), 1))
    right = torch.from_numpy(np.concatenate((points, ones, norms), 1)).T
    limit = _CLOSE * float(norms.max())
    result = room.part(0, count, count)
    for start in range(0, count, _BLOCK):
        end = min(start + _BLOCK, count)
        squares = room.block(end - start, count - start)
        torch.mm(left[start:end], right[:, start:], out=torch.from_numpy(squares))
        np.fill_diagonal(squares, np.inf)
        if squares.min() < limit:
            _refine(squares, squares < limit, points[start:end], points[start:])
        corner = squares[:, : end - start]
        corner[...] = np.minimum(corner, corner.T)  # products of two orders differ in the last bit
        rows = result[start:end, start:]
        rows[...] = squares  # rounded, where the room is in float32
        np.sqrt(rows, out=rows)
        result[end:, start:end] = rows[:, end - start :].T
    return result


def _refine(block: Floats, close: NDArray[np.bool_], rows: Floats, columns: Floats) -> None:
    """Compute the squares of close pairs of a block anew, in place."""
    if close.mean() > 0.1:
        exact = torch.cdist(
            torch.from_numpy(rows), torch.from_numpy(columns), compute_mode="donot_use_mm_for_euclid_dist"
        ).numpy()
        np.copyto(block, exact * exact, where=close)
        return
    i, j = np.nonzero(close)
    apart = rows[i] - columns[j]
    block[i, j] = np.einsum("pf,pf->p", apart, apart)


def _merge(d: Matrix, room: Room) -> tuple[Ints, Floats]:
    """Distances [P, P] in part 0 of the room, which are used up → into [P], height [P]."""
    total = n = len(d)
    into, height = np.zeros(total, np.int64), np.full(total, np.inf)
    names = rows = np.arange(n)
    size = np.ones(n)
    alive = np.ones(n, bool)
    left = n
    nearest = d.argmin(1)
    near = d[rows, nearest]
    while left > 1:
        a = np.flatnonzero((nearest[nearest] == rows) & (rows < nearest) & alive)
        if not len(a):  # ties: nearest neighbours in a circle; the lowest of the closest pairs is always mutual
            nearest = d.argmin(1)
            near = d[rows, nearest]
            a = np.flatnonzero((nearest[nearest] == rows) & (rows < nearest) & alive)
        b = nearest[a]
        into[names[b]], height[names[b]] = names[a], near[a]
        both = size[a] + size[b]
        _combine(d, a, b, size[a] / both, size[b] / both, room)
        size[a] = both
        alive[b] = False
        left -= len(a)
        # Whoever's nearest did not merge keeps it: merged clusters came no nearer.
        touched = np.zeros(n, bool)
        touched[a] = touched[b] = True
        stale = alive & (touched | touched[nearest])
        if left > _SMALL and len(a) * _FEW < left:
            _chain(d, names, size, alive, into, height)
            break
        if left < _SHRINK * n:
            keep, place = np.flatnonzero(alive), alive.cumsum() - 1
            d = shrink(d, keep, room)
            names, size, near, stale, nearest = names[keep], size[keep], near[keep], stale[keep], place[nearest[keep]]
            n, rows, alive = left, np.arange(left), np.ones(left, bool)
        which = np.flatnonzero(stale)
        if 4 * len(which) > n:  # rows in a row are read much faster than picked ones
            nearest = d.argmin(1)
            near = d[rows, nearest]
        else:
            nearest[which] = first_least(d, which, room)
            near[which] = d[which, nearest[which]]
    return into, height


def take(d: Matrix, which: Ints, out: Matrix, axis: int = 0) -> Matrix:
    """Some rows or columns of a matrix, in the memory of `out`."""
    return np.take(d, which, axis, out=out, mode="clip")  # any other mode would go by way of a copy


def shrink(d: Matrix, keep: Ints, room: Room) -> Matrix:
    """Only some rows and columns of the matrix in part 0, in its place; some rows at a time, which the cache holds."""
    left = len(keep)
    smaller = room.part(0, left, left)
    for start in range(0, left, _BLOCK):  # what is written lies before what is still to be read
        chosen = keep[start : start + _BLOCK]
        rows = take(d, chosen, room.part(1, len(chosen), d.shape[1]))
        take(rows, keep, smaller[start : start + _BLOCK], 1)
    return smaller


def first_least(d: Matrix, which: Ints, room: Room) -> Ints:
    """Where some rows have their least value, of equals the first."""
    found = np.empty(len(which), np.int64)
    for start in range(0, len(which), _BLOCK):
        chosen = which[start : start + _BLOCK]
        take(d, chosen, room.part(1, len(chosen), d.shape[1])).argmin(1, out=found[start : start + _BLOCK])
    return found


def _combine(d: Matrix, a: Ints, b: Ints, share_a: Floats, share_b: Floats, room: Room) -> None:
    """Merge clusters b into clusters a, in place: row and column of a become the means, those of b infinite."""
    merged = take(d, a, room.part(1, len(a), len(d)))
    merged *= share_a[:, None]
    other = take(d, b, room.part(2, len(a), len(d)))
    other *= share_b[:, None]
    merged += other  # [M, P]; infinite at a and b themselves
    among = merged[:, a] * share_a + merged[:, b] * share_b  # [M, M]
    merged[:, a] = np.minimum(among, among.T)  # symmetric to the last bit
    merged[:, b] = np.inf
    d[a] = merged
    d[:, a] = merged.T
    d[:, b] = np.inf


def _chain(d: Matrix, names: Ints, size: Floats, alive: NDArray[np.bool_], into: Ints, height: Floats) -> None:
    """Merge what is left along chains of nearest neighbours, each ending in two clusters nearest to each other."""
    left = int(alive.sum())
    chain: list[int] = []
    while left > 1:
        if not chain:
            chain.append(0)  # cluster 0 never ends
        x = chain[-1]
        y = int(d[x].argmin())
        if len(chain) < 2 or d[x, chain[-2]] > d[x, y]:
            chain.append(y)
            continue
        y = chain[-2]  # on a tie too: else a chain could run in circles
        del chain[-2:]
        a, b = min(x, y), max(x, y)
        into[names[b]], height[names[b]] = names[a], d[a, b]
        both = size[a] + size[b]
        d[a] = d[:, a] = d[a] * (size[a] / both) + d[b] * (size[b] / both)  # infinite at a and b themselves
        d[:, b] = np.inf
        size[a] = both
        left -= 1
