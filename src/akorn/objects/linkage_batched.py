"""Average linkage of many pictures at once on a GPU: in each round, all pairs that are mutual nearest neighbours merge.

Average linkage is reducible: a merged cluster is never nearer to a third than the nearer of its parts was. So mutual
nearest neighbours can merge at once, in any order, and except for ties the tree is the same as if the closest pair
merged first each time.

Clusters of a picture lie in the first rows and columns of its matrix; pictures with fewer clusters have empty rows
after them. Every round recomputes everything, since a GPU reads a whole matrix faster than it decides what to skip.
"""

from __future__ import annotations

import torch
from torch import Tensor

_CLOSE = 1e-6  # squared distances below this share of the largest norm² are computed from differences
_FAR = 1e300  # in place of ∞, which times a share of 0 would be NaN


def link(points: Tensor) -> tuple[Tensor, Tensor]:
    """Points [B, P, F] → into [B, P], height [B, P], the rows of a `Tree`."""
    points = points.double()
    d = _distances(points)  # [B, P, P]
    pictures, total = points.shape[:2]
    names = torch.arange(total, device=d.device).repeat(pictures, 1)
    size = torch.ones_like(names, dtype=torch.float64)
    into, height = torch.zeros_like(names), torch.full_like(size, torch.inf)
    left = torch.full((pictures, 1), total, device=d.device)
    while (n := d.shape[1]) > 1:
        d.diagonal(dim1=1, dim2=2).fill_(_FAR)
        near, nearest = d.min(2)  # the first among equals, so that the lowest of the closest pairs is always mutual
        rows = torch.arange(n, device=d.device)
        mutual = (nearest.gather(1, nearest) == rows) & (rows < left)
        first, second = mutual & (rows < nearest), mutual & (rows > nearest)
        into.scatter_(1, names, torch.where(second, names.gather(1, nearest), into.gather(1, names)))
        height.scatter_(1, names, torch.where(second, near, height.gather(1, names)))
        keep = (rows < left) & ~second
        left = keep.sum(1, keepdim=True)
        a = (
            (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(left.max())]
        )  # the remaining clusters, in order
        b = torch.where(first, nearest, rows).gather(1, a)
        share = torch.where(b != a, size.gather(1, b), 0.0)  # the share of the second cluster in the union
        size = size.gather(1, a) + share
        d = _combine(d, a, b, share / size, left)
        # Rows after the last cluster keep names of clusters that ended; nothing is written for them.
        names = names.gather(1, a)
    return into, height


def _combine(d: Tensor, a: Tensor, b: Tensor, share: Tensor, left: Tensor) -> Tensor:
    """[B, n, n] → [B, n′, n′]: cluster i is the union of a_i and b_i, or a_i alone where its share of b is 0."""
    rows = torch.lerp(_rows(d, a), _rows(d, b), share[:, :, None])  # [B, n′, n]
    both = torch.lerp(_rows(rows.mT, a), _rows(rows.mT, b), share[:, :, None])  # [B, n′, n′]
    both = torch.minimum(both, both.mT)  # symmetric to the last bit
    empty = torch.arange(both.shape[1], device=d.device) >= left  # [B, n′]
    return both.masked_fill_(empty[:, None], _FAR)


def _rows(d: Tensor, which: Tensor) -> Tensor:
    """Rows [B, M] of d [B, n, k] → [B, M, k]; whole rows at a time, which is faster than element by element."""
    start = torch.arange(len(d), device=d.device)[:, None] * d.shape[1]
    return d.reshape(-1, d.shape[2]).index_select(0, (which + start).flatten()).view(*which.shape, d.shape[2])


def _distances(points: Tensor) -> Tensor:
    """[B, P, P], symmetric: by a matrix product, unless points nearly coincide, since that would lose digits."""
    points = points - points.mean(1, keepdim=True)  # smaller norms lose fewer digits
    norms = points.square().sum(2, keepdim=True)
    squares = torch.baddbmm(norms + norms.mT, points, points.mT, alpha=-2)
    squares.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    if bool((squares.amin((1, 2)) < _CLOSE * norms.amax((1, 2))).any()):
        d = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        d = squares.sqrt_()
    return torch.minimum(d, d.mT)
