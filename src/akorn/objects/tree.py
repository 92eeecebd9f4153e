"""The tree of an agglomerative clustering: which clusters merged, at which distance, and where to cut it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from akorn.errors import AkornError

Counts = int | Sequence[int] | Tensor
"""One number of clusters for all pictures, or one for each."""


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
        own = torch.arange(points, device=self.into.device).expand(pictures, points)
        root = torch.where(self.height <= limit, self.into, own)
        for _ in range(max(1, (points - 1).bit_length())):  # each round doubles the reach of a pointer
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
