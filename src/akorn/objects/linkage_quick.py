"""Average linkage on the CPU with distances in float32, half the memory to move, and float64 wherever that matters.

Rounds as in `linkage`. A rounded mean distance is off by a known share at most, so two clusters that are each other's
nearest by more than that are so for certain. Where a third is as near within the error, the few distances in question
are computed anew, in float64 from the points. So the tree is that of float64, and its heights are known up to the
error, which a `Tree` is told. Pictures with many such doubts, or with rounds that merge too few, are left to `linkage`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from akorn.objects import linkage
from akorn.objects.linkage import Floats, Ints, Matrix, Room, first_least, shrink, take

_ROUND = 2.0**-24  # the largest relative error of rounding to float32
_SHRINK = 0.7  # the matrix is made smaller when only this share of its rows is alive
_FEW = 128  # a round that merges fewer than one of so many clusters gives up …
_SMALL = 64  # … unless there are only so many left
_DOUBTS = 0.05  # doubts that are resolved at most, as a share of the points
_PAIRS = 2_000_000  # pairs of points that are looked at anew at most
_MANY = 4000  # pairs from which on distances are computed by a matrix product


class _GiveUp(Exception):
    """Too many doubts, or too few merges."""


@dataclass
class _Exact:
    """The points, the members of every cluster, and distances between clusters in float64."""

    points: Floats
    members: list[list[int]]
    pairs: int = 0
    doubts: int = 0

    def merge(self, a: Ints, b: Ints) -> None:
        """Clusters b go into clusters a."""
        for first, second in zip(a.tolist(), b.tolist(), strict=True):
            self.members[first] += self.members[second]

    def distance(self, first: list[int], second: list[int]) -> float:
        """The mean distance between two groups of points."""
        self.pairs += len(first) * len(second)
        if self.pairs > _PAIRS:
            raise _GiveUp
        one, two = (torch.from_numpy(self.points[group]) for group in (first, second))
        product = len(first) * len(second) > _MANY  # quicker; what it loses on single pairs does not show in the mean
        mode = "use_mm_for_euclid_dist" if product else "donot_use_mm_for_euclid_dist"
        return float(torch.cdist(one, two, compute_mode=mode).mean())

    def nearest(self, row: int, among: Ints, names: Ints) -> int:
        """Which of some clusters is nearest to one."""
        self.doubts += 1
        if self.doubts > 8 + _DOUBTS * len(self.points):
            raise _GiveUp
        mine = self.members[names[row]]
        apart = [self.distance(mine, self.members[names[other]]) for other in among.tolist()]
        return int(among[int(np.argmin(apart))])


def link(pictures: Iterable[Floats]) -> list[tuple[Ints, Floats, float]]:
    """Points [P, F] of each picture → into [P], height [P], the rows of a `Tree`, and the heights' error."""
    quick: Room | None = None
    slow: Room | None = None
    found = []
    for points in pictures:
        count = len(points)
        quick = Room(count, np.float32) if quick is None else quick
        # In units in which float32 neither overflows nor underflows; by a power of 2, which changes no digit.
        scale = 2.0 ** np.frexp(np.abs(points - points.mean(0)).max())[1]
        try:
            into, height, error = _merge(points / scale, quick)
        except _GiveUp:
            slow = Room(count) if slow is None else slow
            into, height = linkage.link(points / scale, slow)
            error = 0.0
        found.append((into, height * scale, error))
    return found


def _merge(points: Floats, room: Room) -> tuple[Ints, Floats, float]:
    """Points [P, F] → into [P], height [P], error."""
    d = linkage.distances(points, room)
    total = n = left = len(d)
    exact = _Exact(points, [[point] for point in range(total)])
    into, height = np.zeros(total, np.int64), np.full(total, np.inf)
    names = rows = np.arange(n)
    size, depth = np.ones(n), np.zeros(n)  # depth: how many merges deep, each of which rounds
    alive = np.ones(n, bool)
    nearest = d.argmin(1)
    near = d[rows, nearest]
    idle = 0
    while left > 1:
        a = np.flatnonzero((nearest[nearest] == rows) & (rows < nearest) & alive)
        b = nearest[a]
        one, two = take(d, a, room.part(1, len(a), n)), take(d, b, room.part(2, len(a), n))
        sure = _settle(d, a, b, one, two, nearest, near, _error(depth), exact, names)
        if not sure.all():
            a, b, one, two = a[sure], b[sure], one[sure], two[sure]
        idle = 0 if len(a) else idle + 1
        if idle > 1 or (left > _SMALL and len(a) * _FEW < left and not idle):
            raise _GiveUp
        into[names[b]], height[names[b]] = names[a], near[a]
        exact.merge(names[a], names[b])
        both = size[a] + size[b]
        _combine(d, a, b, one, two, (size[a] / both).astype(d.dtype), (size[b] / both).astype(d.dtype))
        size[a], depth[a] = both, np.maximum(depth[a], depth[b]) + 1
        alive[b] = False
        left -= len(a)
        # Whoever's nearest did not merge keeps it: merged clusters came no nearer.
        touched = np.zeros(n, bool)
        touched[a] = touched[b] = True
        stale = alive & (touched | touched[nearest])
        if left < _SHRINK * n:
            keep, place = np.flatnonzero(alive), alive.cumsum() - 1
            d = shrink(d, keep, room)
            names, size, depth, near, stale = names[keep], size[keep], depth[keep], near[keep], stale[keep]
            nearest = place[nearest[keep]]
            n, rows, alive = left, np.arange(left), np.ones(left, bool)
        which = np.flatnonzero(stale)
        nearest[which] = first_least(d, which, room)
        near[which] = d[which, nearest[which]]
    return into, height, _error(depth)


def _error(depth: Floats) -> float:
    """By how much, relative to each other, two of the rounded distances can be wrong at most.

    The first rounding, then three for each merge on either side (share, product, sum), of both distances; and a
    little for the squares of so small numbers.
    """
    return float(2 * _ROUND * (2 + 3 * 2 * depth.max()))


def _settle(
    d: Matrix, a: Ints, b: Ints, one: Matrix, two: Matrix, nearest: Ints, near: Matrix, error: float, exact: _Exact,
    names: Ints,
) -> NDArray[np.bool_]:  # fmt: skip
    """[M]: which pairs are each other's nearest for certain; rows of d at a and b are `one` and `two`.

    Where it is in doubt, the nearest is found exactly, and kept if it is another.
    """
    count = np.arange(len(a))
    one[count, b] = two[count, a] = np.inf
    limit = near[a] * (1 + error)
    doubtful = np.flatnonzero(np.minimum(one.min(1), two.min(1)) <= limit)
    sure = np.ones(len(a), bool)
    for index in doubtful.tolist():
        for row, other in ((a[index], b[index]), (b[index], a[index])):
            among = np.flatnonzero(d[row] <= limit[index])
            best = exact.nearest(int(row), among, names) if len(among) > 1 else int(other)
            if best != other:
                sure[index] = False
                nearest[row], near[row] = best, d[row, best]
    return sure


def _combine(d: Matrix, a: Ints, b: Ints, one: Matrix, two: Matrix, share_a: Matrix, share_b: Matrix) -> None:
    """Merge clusters b into clusters a, in place: row and column of a become the means, those of b infinite.

    `one` and `two` are rows a and b of d, infinite at a and b themselves; they are used up.
    """
    one *= share_a[:, None]
    two *= share_b[:, None]
    one += two  # [M, n]
    among = one[:, a] * share_a + one[:, b] * share_b  # [M, M]
    one[:, a] = np.minimum(among, among.T)  # symmetric to the last bit
    one[:, b] = np.inf
    d[a] = one
    d[:, a] = one.T
    d[:, b] = np.inf
