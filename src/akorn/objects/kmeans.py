"""k-means of many pictures at once: k-means++ starts, Lloyd's steps, the best of several restarts.

minimise Σ_p ‖y_p − μ_{l(p)}‖²  over labels l and means μ
"""

from __future__ import annotations

import torch
from torch import Tensor


def kmeans(points: Tensor, clusters: int, *, restarts: int = 4, steps: int = 100, seed: int = 0) -> Tensor:
    """Points [B, P, F] → labels [B, P], numbered from 0 by their lowest point.

    Every picture gets the same random numbers, drawn on the CPU, so its labels depend neither on the others of its
    batch nor on the device. A cluster that loses all its points stays in place, empty.
    """
    pictures, count, _ = points.shape
    if restarts < 1 or steps < 1:
        raise ValueError(f"restarts and steps must be at least 1, got {restarts} and {steps}")
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(restarts, clusters, generator=generator).to(points.device, points.dtype)
    points = points - points.mean(1, keepdim=True)  # smaller norms lose fewer digits
    many = points.repeat_interleave(restarts, 0)  # [B·R, P, F]
    means = _starts(many, draws.repeat(pictures, 1))
    squares = _squares(many, means)
    labels = squares.argmin(2)
    for _ in range(steps):
        chosen = torch.nn.functional.one_hot(labels, clusters).to(points.dtype)  # [B·R, P, K]
        sizes = chosen.sum(1)[:, :, None]
        means = torch.where(sizes > 0, chosen.mT @ many / sizes.clamp(min=1), means)
        squares = _squares(many, means)
        before, labels = labels, squares.argmin(2)
        if torch.equal(before, labels):
            break
    inertia = squares.gather(2, labels[:, :, None]).sum((1, 2)).view(pictures, restarts)
    best = inertia.argmin(1)
    return by_first_point(labels.view(pictures, restarts, count)[torch.arange(pictures, device=best.device), best])


def by_first_point(labels: Tensor) -> Tensor:
    """Renumber labels [B, P] from 0, in the order in which they first appear in each picture."""
    pictures, count = labels.shape
    places = torch.arange(count, device=labels.device).expand(pictures, count)
    first = torch.full((pictures, int(labels.max()) + 1 if labels.numel() else 1), count, device=labels.device)
    first = first.scatter_reduce(1, labels, places, "amin").gather(
        1, labels
    )  # [B, P]: the first point of each point's cluster
    return (first == places).cumsum(1).sub(1).gather(1, first)


def _starts(points: Tensor, draws: Tensor) -> Tensor:
    """k-means++: each mean is a point, drawn by its squared distance from the previous means; [B, K, F]."""
    rows = torch.arange(len(points), device=points.device)
    count = points.shape[1]
    chosen = (draws[:, 0] * count).long().clamp(max=count - 1)
    # One array for all means: an array per mean would stay in the gap that a large array left, and the next large one
    # would no longer fit there. Memory would grow by one of them per cluster.
    means = points.new_empty(len(points), draws.shape[1], points.shape[2])
    means[:, 0] = points[rows, chosen]
    squares = (points - means[:, :1]).square().sum(2)  # [B, P]
    for k in range(1, draws.shape[1]):
        heap = squares.cumsum(1)
        chosen = torch.searchsorted(heap, draws[:, k, None] * heap[:, -1:], right=True)[:, 0].clamp(max=count - 1)
        means[:, k] = points[rows, chosen]
        squares = torch.minimum(squares, (points - means[:, k, None]).square().sum(2))
    return means


def _squares(points: Tensor, means: Tensor) -> Tensor:
    """Squared distances [B, P, K]."""
    norms = points.square().sum(2)[:, :, None] + means.square().sum(2)[:, None]
    return (norms - 2 * points @ means.mT).clamp_(min=0)
