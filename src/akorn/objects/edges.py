"""Clusters that end at the edges of the photograph: a conditional random field over all pairs of its pixels.

    q_i(k) ∝ exp(cos(y_i, μ_k) / τ + w Σ_j K_ij q_j(k)),    K_ij ∝ exp(−‖c_i − c_j‖² / 2σ² − ‖p_i − p_j‖² / 2ρ²)

Pixel i has the features y_i, the colours c_i and the place p_i; μ_k is the mean feature of cluster k, and rows of K sum
to one. A few mean-field steps update q, the probabilities of the clusters. Nothing is learned. The features alone only
know patches, so their clusters cut corners; pixels of similar colours nearby usually belong to one thing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects.kmeans import by_first_point

SIDE = 64  # side of the grid of pixels: all pairs of 4,096 take 64 MB
_STEPS = 5
_TAU = 0.1
_COLOUR = 0.1  # σ, of colours in 0–1
_PLACE = 0.1  # ρ, of a picture's sides
_LEAST = 1e-4  # probabilities below this one count as this one


def check_edges(weight: float) -> None:
    """AkornError unless w can be the weight of neighbours with similar colours."""
    if not 0 <= weight < float("inf"):
        raise AkornError(f"the weight of edges is {weight:g}, expected 0 or more")


def at_edges(labels: Tensor, features: Tensor, images: Tensor, weight: float, size: tuple[int, int]) -> Tensor:
    """Labels [B, h·w] of the points of features [B, F, h, w] → labels [B, H, W] that follow the pictures' edges.

    images: the pictures [B, 3 or 1, …] of any size, floats in 0–1. weight: w. size: H and W of the result. A cluster
    may lose all its pixels; the others are numbered from 0 again.
    """
    seen = F.interpolate(images, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    found = [
        _enlarged(mean_field(assignments(one, points), picture, weight), size)
        for one, points, picture in zip(labels, features, seen, strict=True)
    ]
    return by_first_point(torch.stack(found).flatten(1)).unflatten(1, size)


def assignments(labels: Tensor, features: Tensor) -> Tensor:
    """log of softmax(cos(y, μ) / τ) of labels [h·w] and features [F, h, w], enlarged to the grid: [K, side, side]."""
    points = F.normalize(features.float(), dim=0).flatten(1)  # [F, h·w]
    member = F.one_hot(labels, int(labels.max()) + 1).to(points)  # [h·w, K]
    means = F.normalize(points @ member, dim=0)  # [F, K]
    alike = (means.mT @ points / _TAU).softmax(0).unflatten(1, features.shape[1:])  # [K, h, w]
    return _resized(alike, (SIDE, SIDE)).clamp(min=_LEAST).log()


def mean_field(unary: Tensor, picture: Tensor, weight: float) -> Tensor:
    """Probabilities [K, h, w] of the clusters, from the logarithms of each pixel alone and the colours."""
    affinity = affinities(picture)  # [P, P]
    total = affinity.sum(1, keepdim=True)
    alone = unary.flatten(1).mT  # [P, K]
    q = alone.softmax(1)
    for _ in range(_STEPS):
        q = (alone + weight * (affinity @ q) / total).softmax(1)
    return q.mT.unflatten(1, picture.shape[1:])


def affinities(picture: Tensor) -> Tensor:
    """How near pixels of a picture [C, h, w] are to each other in colour and place: [P, P], 1 for a pixel itself."""
    sides = [(torch.arange(side, device=picture.device) + 0.5) / side for side in picture.shape[1:]]
    place = torch.stack(torch.meshgrid(*sides, indexing="ij"))
    both = torch.cat((picture / _COLOUR, place / _PLACE)).flatten(1).mT  # [P, C + 2]
    half = -0.5 * both.square().sum(1, keepdim=True)
    one = torch.ones_like(half)
    # −‖a − b‖² / 2 as one product; the diagonal, 0, may come out a little above.
    return (torch.cat((both, half, one), 1) @ torch.cat((both, one, half), 1).mT).clamp_(max=0).exp_()


def _enlarged(q: Tensor, size: tuple[int, int]) -> Tensor:
    return _resized(q, size).argmax(0)


def _resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """[K, h, w] → [K, H, W], bilinearly."""
    return F.interpolate(maps[None], size, mode="bilinear", align_corners=False)[0]
