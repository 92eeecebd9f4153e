"""The tree of an agglomerative clustering: which clusters merged, at which distance, and where to cut it.

Average linkage splits off outliers first: of four clusters, three are often a few points each. `significant` says which
merges joined two clusters that both have a certain share of the points; cuts can be limited to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from akorn.errors import AkornError

Counts = int | Sequence[int] | Tensor
"""One number of clusters for all pictures, or one for each."""
Auto = Literal["auto"]
"""The number of clusters is chosen for each picture, by its tree."""
LEAST = 0.02
"""The smallest share of the points that a cluster may have, if the data chooses how many there are."""
RATIO = 0.75
"""If the data chooses, merges higher than this share of the highest one are undone."""
MOST = 12
"""The largest number of clusters that the data may choose."""


@dataclass(frozen=True)
class Tree:
    """The merges of B pictures of P points each.

    A cluster is named by its lowest point. When two clusters merge, the higher name disappears, so every point except
    point 0 disappears once: its row says where and when.
    """

    into: Tensor
    """[B, P], int64: the point that a point's cluster merged into, always a lower one; point 0 keeps 0."""
    height: Tensor
    """[B, P], float64: the mean distance between the two clusters; infinite for point 0."""

    def cut(self, clusters: Counts) -> Tensor:
        """Labels [B, P] of the partition into `clusters` clusters, numbered from 0 by their lowest point.

        As SciPy's `fcluster(…, criterion="maxclust")`: the lowest cut that leaves at most this many clusters. There
        are fewer if merges tie at the height of the cut, since all or none of those are undone.
        """
        pictures, points = self.into.shape
        counts = cluster_counts(clusters, pictures, points).to(self.into.device)
        # Heights of the merges in order; the cut is at that of merge P − k, and there is no merge if k = P.
        ordered = self.height.sort(dim=1).values
        ordered = torch.cat((ordered.new_full((pictures, 1), -torch.inf), ordered), 1)
        limit = ordered.gather(1, points - counts[:, None])  # [B, 1]
        return self._apart(self.height > limit)

    def cut_significant(self, clusters: Counts, least: float) -> Tensor:
        """Labels [B, P] like `cut`, but only merges of clusters with at least this share of the points are undone.

        Outliers stay with the cluster that they merged into. There are fewer clusters if a picture has not that many of
        this size.
        """
        pictures, points = self.into.shape
        counts = cluster_counts(clusters, pictures, points)
        heights = torch.where(self.significant(least), self.height.cpu(), -torch.inf)
        ordered = heights.sort(dim=1, descending=True).values
        limit = torch.where(  # the lowest merge that is undone
            counts > 1, ordered.gather(1, (counts[:, None] - 2).clamp(min=0))[:, 0], torch.inf
        )
        return self._apart(((heights >= limit[:, None]) & heights.isfinite()).to(self.into.device))

    def choose(self, least: float = LEAST, ratio: float = RATIO, most: int = MOST) -> Tensor:
        """[B]: how many clusters each picture has, according to its own merges.

        Of the merges of two clusters that both have at least the share `least` of the points, those higher than `ratio`
        times the highest count, and there is one cluster more than these; at least 2 if any two clusters are that
        large, and at most `most`.
        """
        heights = torch.where(self.significant(least), self.height.cpu(), -torch.inf)
        top = heights.amax(1, keepdim=True)
        return torch.where(top[:, 0].isfinite(), 1 + (heights > ratio * top).sum(1).clamp(1, most - 1), 1)

    def significant(self, least: float) -> Tensor:
        """[B, P], bool, on the CPU: whether a point's cluster, and the one it merged into, had this share of points."""
        pictures, points = self.into.shape
        found = torch.zeros(pictures, points, dtype=torch.bool)
        enough = max(1.0, least * points)
        orders = self.height.argsort(dim=1).tolist()
        for row, (order, into) in enumerate(zip(orders, self.into.tolist(), strict=True)):
            size = [1] * points
            kept = [False] * points
            for point in order[:-1]:  # the last, of infinite height, is point 0
                other = into[point]
                kept[point] = size[point] >= enough and size[other] >= enough
                size[other] += size[point]
            found[row] = torch.tensor(kept)
        return found

    def _apart(self, undone: Tensor) -> Tensor:
        """Labels [B, P] of the clusters that are left if the merges marked [B, P] are undone."""
        own = torch.arange(self.into.shape[1], device=self.into.device).expand_as(self.into)
        return _numbered(torch.where(undone, own, self.into))


def _numbered(root: Tensor) -> Tensor:
    """Pointers [B, P] to lower points, or to a point itself where its cluster begins → labels from 0."""
    own = torch.arange(root.shape[1], device=root.device).expand_as(root)
    for _ in range(max(1, (root.shape[1] - 1).bit_length())):  # each round doubles the reach of a pointer
        root = root.gather(1, root)
    return (root == own).cumsum(1).sub(1).gather(1, root)


def cluster_counts(clusters: Counts, pictures: int, points: int) -> Tensor:
    """[B], int64: how many clusters each picture gets; AkornError if that is impossible."""
    counts = torch.as_tensor(clusters, dtype=torch.int64).cpu()
    if counts.ndim > 1 or (counts.ndim == 1 and len(counts) != pictures):
        raise ValueError(f"clusters must be one number or one for each of {pictures} pictures, got {clusters!r}")
    counts = counts.expand(pictures)
    if pictures and int(counts.min()) < 1:
        raise AkornError(f"the number of clusters must be at least 1, got {int(counts.min())}")
    if pictures and int(counts.max()) > points:
        raise AkornError(f"{int(counts.max())} clusters were requested, but a picture has only {points} patches")
    return counts


def chunks(total: int, size: int) -> list[tuple[int, int]]:
    """(start, end) of consecutive pieces of at most `size`."""
    return list(pairwise([*range(0, total, max(1, size)), total])) if total else []
