"""The terms of the loss besides SimCLR's: single patches, regions, hidden patches and prototypes (`LossConfig`).

They are made for binding: SimCLR asks only that two views of a picture agree as a whole. Shapes never depend on data,
so that a step can be recorded as a CUDA graph.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.augment.image_batch import as_float
from akorn.augment.views import Located
from akorn.objects.config import LossConfig, ModelConfig
from akorn.objects.contrast import paired_contrast, pick, projection, swapped_prediction
from akorn.objects.net import ObjectsNet, as_tokens
from akorn.objects.places import colour_regions, feature_regions, matches, region_means, seen_regions
from akorn.objects.teacher import TeacherParts


class LossParts(nn.Module):
    """What the terms learn besides the model; it is not part of the finished model."""

    def __init__(self, model: ModelConfig, loss: LossConfig) -> None:
        super().__init__()
        channels = model.channels
        compared = [name for name in ("dense", "regions", "prototypes") if getattr(loss, name)]
        self.project = nn.ModuleDict({name: projection(channels) for name in compared})
        self.prototypes = nn.Parameter(torch.randn(loss.prototype_count, channels)) if loss.prototypes else None
        self.token = nn.Parameter(torch.zeros(channels)) if loss.masked else None
        self.pixels = nn.Linear(channels, model.image_channels * model.patch**2) if loss.masked else None
        self.teacher = TeacherParts(channels, loss.teacher) if loss.teacher.used else None


def needs_parts(loss: LossConfig) -> bool:
    """Whether the loss has a term that learns something besides the model."""
    return bool(loss.dense or loss.regions or loss.masked or loss.prototypes or loss.teacher.used)


def terms(
    model: ObjectsNet,
    features: Tensor,
    images: Tensor,
    views: Located,
    loss: LossConfig,
    temperature: float,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The terms whose weight is not 0, by name. features: of the views, [2·B, C, h, w]; images: the pictures."""
    parts, grid = cast(LossParts, model.extras), model.grid
    tokens = as_tokens(features)  # [2·B, h·w, C]
    found = {}
    if loss.dense or loss.prototypes:
        chosen, there, inside = matches(views, grid, loss.samples, generator)
        pair = [pick(half, which) for half, which in zip(tokens.chunk(2), (chosen, there), strict=True)]
    if loss.dense:
        first, second = (parts.project["dense"](half).float() for half in pair)
        found["dense"] = paired_contrast(first, second, inside, temperature, within=loss.within)
    if loss.prototypes:
        assert parts.prototypes is not None
        first, second = (parts.project["prototypes"](half).float() for half in pair)
        found["prototypes"] = swapped_prediction(first, second, inside, parts.prototypes, temperature)
    if loss.regions:
        labels = _regions(model, images, loss, generator).repeat(2, 1, 1)
        here = seen_regions(labels, views.boxes, views.mirrored, grid)
        means, size = region_means(tokens, here, loss.region_count)
        first, second = parts.project["regions"](means).float().chunk(2)
        both = (size.chunk(2)[0] > 0) & (size.chunk(2)[1] > 0)
        found["regions"] = paired_contrast(first, second, both, temperature, within=loss.within)
    if loss.masked:
        found["masked"] = hidden_patches(model, views.images.chunk(2)[0], loss.hidden, generator)
    return found


def _regions(model: ObjectsNet, images: Tensor, loss: LossConfig, generator: torch.Generator) -> Tensor:
    """The regions of the whole pictures, labels [B, h, w]: of similar colours, or of similar features."""
    if loss.alike == "colours":
        return colour_regions(images, loss.region_count)
    side = model.config.image_size
    with torch.no_grad():
        seen = F.interpolate(as_float(images), (side, side), mode="bilinear", align_corners=False, antialias=True)
        return feature_regions(model.features(seen, None, generator), loss.region_count)


def hidden_patches(model: ObjectsNet, images: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Mean squared error of the pixels of hidden patches, predicted from the others; a scalar.

    Hidden patches are replaced by a learned vector before the first block. Pixels are normalised within each patch, so
    that texture counts as much as contrast.
    """
    parts = cast(LossParts, model.extras)
    assert parts.token is not None
    assert parts.pixels is not None
    token, patch = parts.token, model.config.patch
    keys = torch.rand(len(images), model.grid[0] * model.grid[1], generator=generator, device=images.device)
    count = max(1, round(share * keys.shape[1]))
    hidden = keys.argsort(1).argsort(1) < count  # [B, h·w]
    where = hidden.unflatten(1, model.grid)[:, None]
    features = model.features(
        images, None, generator, lambda c: torch.where(where, token[None, :, None, None].to(c.dtype), c)
    )
    predicted = parts.pixels(as_tokens(features)).float()  # [B, h·w, C·patch²]
    target = F.unfold(2 * images - 1, patch, stride=patch).mT  # [B, h·w, C·patch²]
    target = (target - target.mean(2, keepdim=True)) / (target.var(2, keepdim=True, correction=0) + 1e-2).sqrt()
    error = (predicted - target).square().mean(2)
    return (error * hidden).sum() / hidden.sum()
