"""Which patches of two views show the same place of a picture, and regions of a picture that look alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.augment.image_batch import as_float
from akorn.augment.views import Located
from akorn.objects.floors import blocks

Grid = tuple[int, int]

_SIDE = 32  # side of the pictures in which regions are looked for
_ROUNDS = 5
_PLACE = 0.5  # weight of the place against the colours, both in 0–1


def places(boxes: Tensor, mirrored: Tensor, grid: Grid) -> Tensor:
    """Where the middles of a view's patches lie in its picture, as shares of its sides: [V, h·w, 2], row and column."""
    rows, columns = ((torch.arange(side, device=boxes.device) + 0.5) / side for side in grid)
    down, across = (each.flatten() for each in torch.meshgrid(rows, columns, indexing="ij"))
    across = torch.where(mirrored[:, None], 1 - across, across)  # [V, h·w]
    top, left, high, wide = boxes[:, :, None].unbind(1)  # [V, 1]
    return torch.stack((top + down * high, left + across * wide), 2)


def patch_at(points: Tensor, boxes: Tensor, mirrored: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """The patch of a view that shows a place of the picture [V, P, 2]: its number [V, P], and whether there is one."""
    top, left, high, wide = boxes[:, :, None].unbind(1)
    down, across = (points[:, :, 0] - top) / high, (points[:, :, 1] - left) / wide
    across = torch.where(mirrored[:, None], 1 - across, across)
    inside = (down >= 0) & (down < 1) & (across >= 0) & (across < 1)
    row = (down * grid[0]).floor().long().clamp(0, grid[0] - 1)
    column = (across * grid[1]).floor().long().clamp(0, grid[1] - 1)
    return row * grid[1] + column, inside


def matches(views: Located, grid: Grid, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Patches of first views drawn at random, those of second views at their places, and whether these exist.

    Three arrays [B, samples]: patches that the other view shows are drawn first.
    """
    first, second = views.apart()
    return matches_between(first, second, grid, samples, generator)


def matches_between(
    first: Located, second: Located, grid: Grid, samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """As `matches`, for views of the same pictures that are kept apart."""
    there, inside = patch_at(places(first.boxes, first.mirrored, grid), second.boxes, second.mirrored, grid)  # [B, h·w]
    keys = torch.rand(inside.shape, generator=generator, device=inside.device) + inside.float()
    chosen = keys.topk(min(samples, keys.shape[1]), dim=1).indices  # [B, samples]
    return chosen, there.gather(1, chosen), inside.gather(1, chosen)


@torch.no_grad()
def colour_regions(images: Tensor, count: int) -> Tensor:
    """Labels [B, 32, 32] of regions of similar colour and place: k-means from a grid of blocks, a few rounds."""
    with torch.autocast(images.device.type, enabled=False):  # bfloat16 cannot tell similar colours apart
        return _regions(images, count)


def _regions(images: Tensor, count: int) -> Tensor:
    seen = F.interpolate(as_float(images), (_SIDE, _SIDE), mode="bilinear", align_corners=False, antialias=True)
    line = torch.linspace(0, 1, _SIDE, device=seen.device)
    place = _PLACE * torch.stack(torch.meshgrid(line, line, indexing="ij")).expand(len(seen), -1, -1, -1)
    return _from_blocks(torch.cat((seen, place), 1), count)


@torch.no_grad()
def feature_regions(features: Tensor, count: int) -> Tensor:
    """Labels [B, h, w] of regions of similar features [B, C, h, w], compared by their angle: k-means as above."""
    with torch.autocast(features.device.type, enabled=False):
        return _from_blocks(F.normalize(features.float(), dim=1), count)


def _from_blocks(maps: Tensor, count: int) -> Tensor:
    """k-means of the points of maps [B, F, h, w], a few rounds from a grid of blocks: labels [B, h, w]."""
    points = maps.flatten(2).mT  # [B, P, F]
    height, width = maps.shape[2:]
    member = blocks(count, height, width, points.device).flatten(2).expand(len(points), -1, -1)  # [B, R, P]
    label = member.argmax(1)
    for _ in range(_ROUNDS):
        means = (member @ points) / member.sum(2, keepdim=True).clamp(min=1)  # [B, R, F]
        far = points.square().sum(2, keepdim=True) - 2 * points @ means.mT + means.square().sum(2)[:, None]
        far = far.masked_fill((member.sum(2) == 0)[:, None], torch.inf)  # a region that lost all its points is gone
        label = far.argmin(2)
        member = _members(label, count, points)
    return label.unflatten(1, (height, width))


def seen_regions(labels: Tensor, boxes: Tensor, mirrored: Tensor, grid: Grid) -> Tensor:
    """The region [V, h·w] at the middle of each patch, of label maps [V, H, W] of the pictures."""
    height, width = labels.shape[1:]
    where = places(boxes, mirrored, grid)
    row = (where[:, :, 0] * height).long().clamp(0, height - 1)
    column = (where[:, :, 1] * width).long().clamp(0, width - 1)
    return labels.flatten(1).gather(1, row * width + column)


def region_means(features: Tensor, regions: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean features [V, R, C] of the patches [V, P, C] in each region [V, P], and how many there are [V, R]."""
    member = _members(regions, count, features)  # [V, R, P]
    size = member.sum(2)
    with torch.autocast(features.device.type, enabled=False):
        return member @ features / size.clamp(min=1)[:, :, None], size


def _members(labels: Tensor, count: int, like: Tensor) -> Tensor:
    """Labels [B, P] → [B, R, P], 1 where a point is in a region. (`one_hot` may wait for the device.)"""
    return (labels[:, None] == torch.arange(count, device=labels.device)[:, None]).to(like.dtype)
