"""Features of pictures for clustering: C^(L), up-tiled or enlarged, normalised, reduced by PCA.

A feature extractor is any function from pictures [B, C, H, W], floats in 0–1, to features [B, K, h, w].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.errors import AkornError

COMPONENTS = 128  # as for the published scores

Extractor = Callable[[Tensor], Tensor]


def as_points(features: Tensor, components: int = COMPONENTS) -> Tensor:
    """Features [B, K, h, w] → points [B, h·w, F], float64: y/‖y‖ over channels, then F principal components.

    If a picture has at most `components` directions anyway, PCA would only rotate its points, which does not change
    distances; they are then only centred.
    """
    if features.ndim != 4:
        raise ValueError(f"features must be [B, K, h, w], got {list(features.shape)}")
    dtype = torch.float32 if features.device.type == "mps" else torch.float64  # an Apple GPU has no float64
    points = F.normalize(features.detach().to(dtype), dim=1).flatten(2).mT  # [B, h·w, K]
    if min(points.shape[1:]) <= components:
        return points - points.mean(1, keepdim=True)
    return principal_components(points, components)


def with_places(points: Tensor, grid: tuple[int, int], weight: float) -> Tensor:
    """Points [B, h·w, F] of a grid → [B, h·w, F + 2]: with their row and column, from 0 to `weight`."""
    line = [torch.linspace(0, weight, side, dtype=points.dtype, device=points.device) for side in grid]
    place = torch.stack(torch.meshgrid(*line, indexing="ij"), 2).flatten(0, 1)  # [h·w, 2]
    return torch.cat((points, place.expand(len(points), -1, -1)), 2)


def principal_components(points: Tensor, components: int) -> Tensor:
    """Points [B, P, K] → their coordinates [B, P, F] along the F directions of largest variance, per picture.

    With Y the centred points, the directions are the eigenvectors V of YᵀY, and the coordinates YV; where P < K,
    those of the smaller YYᵀ: its eigenvectors U, times √λ, are the coordinates at once. Signs are chosen so that
    the largest coordinate of each component is positive.
    """
    _, count, channels = points.shape
    if components < 1:
        raise ValueError(f"components must be at least 1, got {components}")
    y = points - points.mean(1, keepdim=True)
    if count < channels:
        values, vectors = torch.linalg.eigh(y @ y.mT)
        coordinates = vectors * values.clamp(min=0).sqrt()[:, None]
    else:
        coordinates = y @ torch.linalg.eigh(y.mT @ y)[1]
    coordinates = coordinates.flip(2)[:, :, :components]  # eigh's values rise
    most = coordinates.gather(1, coordinates.abs().argmax(1, keepdim=True))  # [B, 1, F]
    coordinates = coordinates * torch.where(most < 0, -1.0, 1.0).to(coordinates.dtype)
    return F.pad(coordinates, (0, components - coordinates.shape[2]))  # zeros for missing directions


def uptile(extract: Extractor, images: Tensor, patch: int, factor: int) -> Tensor:
    """Features [B, K, factor·h, factor·w] from shifted pictures (the paper's Code 1).

    The picture is enlarged by patch − stride pixels, stride = patch / factor, and viewed through factor² windows
    of its own size, a stride apart. Feature (i, j) of window (r, s) becomes feature (factor·i + r, factor·j + s).
    The windows of a row go through the extractor together.
    """
    check_factor(patch, factor)
    if factor == 1:
        return extract(images)
    pictures, _, height, width = images.shape
    stride = patch // factor
    larger = F.interpolate(
        images, (height + patch - stride, width + patch - stride), mode="bilinear", align_corners=False
    )
    rows = []
    for top in range(0, patch, stride):
        windows = [larger[:, :, top : top + height, left : left + width] for left in range(0, patch, stride)]
        row = extract(torch.cat(windows))  # [factor·B, K, h, w]
        rows.append(row.unflatten(0, (factor, pictures)))
    tiled = torch.stack(rows)  # [r, s, B, K, h, w]
    return tiled.permute(2, 3, 4, 0, 5, 1).flatten(4, 5).flatten(2, 3)  # [B, K, h·r, w·s]


def check_factor(patch: int, factor: int) -> None:
    """AkornError unless patches of that size can be up-tiled by the factor."""
    if factor < 1 or patch % factor:
        raise AkornError(f"up-tiling by {factor} is impossible: the factor must divide the patch size, {patch}")


def enlarge(features: Tensor, factor: int) -> Tensor:
    """Features [B, K, h, w] → [B, K, factor·h, factor·w], bilinearly, for comparison with up-tiling."""
    if factor < 1:
        raise AkornError(f"features cannot be enlarged by {factor}, the factor must be at least 1")
    if factor == 1:
        return features
    return F.interpolate(features.float(), scale_factor=factor, mode="bilinear", align_corners=False)


def as_masks(labels: Tensor, grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Labels [B, h·w] of the patches → labels [B, H, W] of the pixels, by nearest neighbour."""
    small = labels.unflatten(1, grid)[:, None].double()  # interpolate needs floats; exact for whole numbers
    if labels.device.type == "mps":
        small = small.float()
    return F.interpolate(small, size, mode="nearest-exact")[:, 0].long()
