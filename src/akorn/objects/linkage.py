"""Average linkage on the CPU: the mean distance between the points of two clusters decides which merge.

    d(A, B) = 1/(|A| |B|) Σ_{a∈A, b∈B} ‖a − b‖,    d(A∪B, C) = (|A| d(A, C) + |B| d(B, C)) / (|A| + |B|)

Average linkage is reducible: a merged cluster is never nearer to a third than the nearer of its parts was. So any two
clusters that are each other's nearest can merge at once, in any order, and the tree is the same, ties aside, as if the
closest pair merged first each time. A round merges all such pairs; where rounds merge too few to pay off, the rest is
left to a nearest-neighbour chain, which takes O(P²) whatever the points are.

Distances are kept in float32, half the memory to move. A rounded mean distance is off by a known share at most, so two
clusters that are each other's nearest by more than that are so for certain. Where a third is as near within the error,
the few distances in question are computed anew, in float64 from the points. So the tree is that of float64, and its
heights are known up to the error, which a `Tree` is told. With many such doubts, or rounds that merge too few, the
distances between the clusters that are left are computed in float64, and merging goes on with those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from akorn.objects.linkage_distances import (
    BLOCK,
    Doubts,
    Floats,
    Ints,
    Matrix,
    Room,
    TooManyDoubts,
    between_clusters,
    distances,
)

_ROUND = 2.0**-24  # the largest relative error of rounding to float32
_STRIP = 64  # rows of unions that are computed at a time
_SHRINK = 0.7  # the matrix is made smaller when only this share of its rows is alive
_FEW = 128  # a round that merges fewer than one of so many clusters ends the rounds …
_SMALL = 64  # … unless there are only so many left


def link(points: Floats, room: Room | None = None) -> tuple[Ints, Floats, float]:
    """Points [P, F] → into [P], height [P], the rows of a `Tree`, and the heights' error; room: in float32."""
    room = Room(len(points), np.float32) if room is None else room
    points, scale = _scaled(points)
    merging = _Merging(points, room)
    if not merging.rounds(Doubts(points)):
        again = Room(len(points))
        merging.go_on(between_clusters(distances(points, again), merging.roots(), merging.names), again)
    return merging.into, merging.height * scale, merging.error


def link_exactly(points: Floats) -> tuple[Ints, Floats]:
    """Points [P, F] → into [P], height [P], all in float64."""
    room = Room(len(points))
    points, scale = _scaled(points)
    merging = _Merging(points, room)
    merging.finish()
    return merging.into, merging.height * scale


def _scaled(points: Floats) -> tuple[Floats, float]:
    """In units in which float32 neither overflows nor underflows; by a power of 2, which changes no digit."""
    scale = 2.0 ** int(np.frexp(np.abs(points - points.mean(0)).max())[1])
    return points / scale, scale


class _Merging:
    """What is known while clusters merge: distances between those that are left, and the tree so far.

    Rows of clusters that ended stay in the matrix for a while; their columns are infinite.
    """

    def __init__(self, points: Floats, room: Room) -> None:
        total = len(points)
        self.into, self.height = np.zeros(total, np.int64), np.full(total, np.inf)
        self.names, self._size = np.arange(total), np.ones(total)  # [n]: the cluster of every row
        if len(np.unique(points.sum(1))) < total:
            self._join_equals(points)
        self._d, self._room = distances(points[self.names], room), room
        self.error = 0.0 if self._d.dtype == np.float64 else _error(0)  # of two heights, relative to each other
        self._depth = np.zeros(len(self._d))  # how many merges deep, each of which rounds
        self._alive = np.ones(len(self._d), bool)
        self._look()

    def _join_equals(self, points: Floats) -> None:
        """Merge points that are the same, which would take one round each."""
        _, first, group, size = np.unique(points, axis=0, return_index=True, return_inverse=True, return_counts=True)
        lowest = first[group]
        ends = lowest != self.names
        self.into[ends], self.height[ends] = lowest[ends], 0
        self.names, self._size = self.names[~ends], size[group][~ends].astype(np.float64)

    def roots(self) -> Ints:
        """[P]: the cluster of every point."""
        root = np.where(np.isinf(self.height), np.arange(len(self.into)), self.into)
        while (further := root[root]).tolist() != root.tolist():
            root = further
        return root

    def go_on(self, d: Matrix, room: Room) -> None:
        """Finish with other distances between the clusters that are left; room: theirs."""
        self._d, self._room = room.part(0, *d.shape), room
        self._d[...] = d
        self._look()
        self.finish()

    def finish(self) -> None:
        """Merge to the end, with distances in float64."""
        if not self.rounds(None):
            self._chain()

    def rounds(self, doubts: Doubts | None) -> bool:
        """Merge in rounds; False where that ended early, with the clusters left in the matrix and nothing else."""
        idle = 0
        while (left := int(np.count_nonzero(self._alive))) > 1:
            rows = np.arange(len(self._d))
            a = ((self._nearest[self._nearest] == rows) & (rows < self._nearest) & self._alive).nonzero()[0]
            b = self._nearest[a]
            shares = (np.stack((self._size[a], self._size[b])) / (self._size[a] + self._size[b])).astype(self._d.dtype)
            merged, third = self._union(a, b, shares)
            if doubts is not None:
                try:
                    sure = self._settle(a, b, third, doubts)
                except TooManyDoubts:
                    break
                if not sure.all():
                    a, b, merged, shares = a[sure], b[sure], merged[sure], shares[:, sure]
            if len(a):
                idle = 0
                self._merge(a, b, merged, shares)
                if left - len(a) > _SMALL and len(a) * _FEW < left:
                    break
            elif doubts is None:  # ties: nearest neighbours in a circle; the lowest of the closest pairs is mutual
                self._look()
            elif idle:
                break
            else:  # others are nearest than was thought: they may be mutual
                idle = 1
        else:
            return True
        self._shrink()
        return False

    def _union(self, a: Ints, b: Ints, shares: Matrix) -> tuple[Matrix, Matrix]:
        """[M, n], [M]: distances of the unions of clusters a and b, in part 1 of the room, and from a third to one."""
        merged = self._room.part(1, len(a), len(self._d))
        third = np.empty(len(a), self._d.dtype)
        share_a, share_b = shares[:, :, None]
        for start in range(0, len(a), _STRIP):
            part = slice(start, start + _STRIP)
            one = take(self._d, a[part], merged[part])
            two = take(self._d, b[part], self._room.part(2, len(one), len(self._d)))
            count = np.arange(len(one))
            one[count, b[part]] = two[count, a[part]] = np.inf
            np.minimum(one.min(1), two.min(1), out=third[part])
            one *= share_a[part]
            two *= share_b[part]
            one += two
        return merged, third

    def _settle(self, a: Ints, b: Ints, third: Matrix, doubts: Doubts) -> NDArray[np.bool_]:
        """[M]: which pairs are each other's nearest for certain, where a third is not as near within the error.

        Where it is in doubt, the nearest is found exactly, and kept if it is another.
        """
        limit = self._near[a].astype(np.float64) * (1 + self.error)
        sure = np.ones(len(a), bool)
        for index in (third <= limit).nonzero()[0].tolist():
            for row, other in ((a[index], b[index]), (b[index], a[index])):
                among = np.flatnonzero(self._d[row] <= limit[index])
                if len(among) > 1:
                    best = among[doubts.nearest(self.names[row], self.names[among], self.roots())]
                    if best != other:
                        sure[index] = False
                        self._nearest[row], self._near[row] = best, self._d[row, best]
        return sure

    def _merge(self, a: Ints, b: Ints, merged: Matrix, shares: Matrix) -> None:
        """Merge clusters b into clusters a: row and column of a become those of the union, those of b infinite."""
        first, second = self.names[a], self.names[b]
        self.into[second], self.height[second] = first, self._near[a]
        share_a, share_b = shares
        among = merged.take(a, 1) * share_a + merged.take(b, 1) * share_b  # [M, M]: from union to union
        among = np.minimum(among, among.T)  # symmetric to the last bit
        self._size[a] += self._size[b]
        self._depth[a] = np.maximum(self._depth[a], self._depth[b]) + 1
        if self._d.dtype == np.float32:
            self.error = _error(self._depth.max())  # which the next round's doubts go by
        self._alive[b] = False
        # Whoever's nearest did not merge keeps it: merged clusters came no nearer.
        touched = np.zeros(len(self._d), bool)
        touched[a] = touched[b] = True
        stale = self._alive & (touched | touched[self._nearest])
        if np.count_nonzero(self._alive) < _SHRINK * len(self._d):
            keep, place = self._shrink()
            merged, a, stale = merged.take(keep, 1), place[a], stale[keep]
        else:
            merged[:, b] = np.inf
            self._d[:, b] = np.inf
        merged[:, a] = among
        self._d[a] = merged
        self._d[:, a] = merged.T
        self._look(stale.nonzero()[0])

    def _look(self, which: Ints | None = None) -> None:
        """Find the nearest cluster to all, or to some; of equals the first."""
        if which is None:
            self._nearest = self._d.argmin(1)
            self._near = self._d[np.arange(len(self._d)), self._nearest]
            return
        for start in range(0, len(which), BLOCK):
            chosen = which[start : start + BLOCK]
            rows = take(self._d, chosen, self._room.part(2, len(chosen), len(self._d)))
            self._nearest[chosen] = rows.argmin(1)
        self._near[which] = self._d[which, self._nearest[which]]

    def _shrink(self) -> tuple[Ints, Ints]:
        """Keep only rows and columns of clusters that are left, in the same memory; which those are, and where now."""
        keep, place = np.flatnonzero(self._alive), self._alive.cumsum() - 1
        left = len(keep)
        smaller = self._room.part(0, left, left)
        for start in range(0, left, BLOCK):  # what is written lies before what is still to be read
            chosen = keep[start : start + BLOCK]
            rows = take(self._d, chosen, self._room.part(2, len(chosen), len(self._d)))
            take(rows, keep, smaller[start : start + BLOCK], 1)
        self._d = smaller
        self.names, self._size, self._depth = self.names[keep], self._size[keep], self._depth[keep]
        self._near, self._nearest = self._near[keep], place[self._nearest[keep]]
        self._alive = np.ones(left, bool)
        return keep, place

    def _chain(self) -> None:
        """Merge what is left along chains of nearest neighbours, each ending in two clusters nearest to each other."""
        d, size = self._d, self._size
        chain: list[int] = []
        for _ in range(len(d) - 1):
            while True:
                if not chain:
                    chain.append(0)  # cluster 0 never ends
                x = chain[-1]
                y = int(d[x].argmin())
                if len(chain) > 1 and d[x, chain[-2]] <= d[x, y]:  # on a tie too: else a chain could run in circles
                    break
                chain.append(y)
            a, b = sorted(chain[-2:])
            del chain[-2:]
            self.into[self.names[b]], self.height[self.names[b]] = self.names[a], d[a, b]
            both = size[a] + size[b]
            d[a] = d[:, a] = d[a] * (size[a] / both) + d[b] * (size[b] / both)  # infinite at a and b themselves
            d[:, b] = np.inf
            size[a] = both


def _error(depth: float) -> float:
    """By how much, relative to each other, two of the rounded distances can be wrong at most.

    The first rounding, then three for each merge on either side (share, product, sum), of both distances; and a
    little for the squares of so small numbers.
    """
    return float(2 * _ROUND * (2 + 3 * 2 * depth))


def take(d: Matrix, which: Ints, out: Matrix, axis: int = 0) -> Matrix:
    """Some rows or columns of a matrix, in the memory of `out`."""
    return d.take(which, axis, out, "clip")  # any other mode would go by way of a copy
