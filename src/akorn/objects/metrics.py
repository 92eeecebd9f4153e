"""How well clusters match objects: FG-ARI, ARI and MBO of many pictures at once, on any device.

Label maps are whole numbers [B, H, W] (or any [B, …]). In the truth −1 is ignored, 0 is the background, and 1 and more
are objects. A predicted label below 0 is a pixel in no cluster. Scores are per picture, float64 in −0.5..1 (ARI) and
0..1 (MBO), and NaN if a picture has nothing to score; `mean` leaves those out.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MOST = 4096  # labels above this are renumbered, so that tables stay small


def ari(predicted: Tensor, truth: Tensor) -> Tensor:
    """[B]: adjusted Rand index over all pixels that are not ignored, background included."""
    return _adjusted_rand(contingency(predicted, truth))


def fg_ari(predicted: Tensor, truth: Tensor) -> Tensor:
    """[B]: adjusted Rand index over the pixels of objects only.

    Let a be the number of pairs of pixels together in both, b only in the truth, c only in the prediction, and d in
    neither: 2(ad − bc) / ((a + b)(b + d) + (a + c)(c + d)), and 1 if b = c = 0 (one object in one cluster, for
    example). One object in several clusters scores 0.
    """
    return _adjusted_rand(contingency(predicted, truth)[:, 1:])


def mbo(predicted: Tensor, truth: Tensor) -> Tensor:
    """[B]: mean best overlap, the mean over true objects of the best IoU with any cluster.

    The background is not an object, but its pixels count in the union; ignored pixels count nowhere. (The paper's text
    assigns clusters to objects instead, but its numbers are computed as here.)
    """
    table = contingency(predicted, truth)
    sizes = table[:, 1:].sum(2)  # [B, objects]
    shared = table[:, 1:, 1:]  # [B, objects, clusters]
    union = sizes[:, :, None] + table[:, :, 1:].sum(1)[:, None] - shared
    if shared.shape[1] == 0:
        return sizes.new_full((len(sizes),), torch.nan)
    best = (shared / union.clamp(min=1)).amax(2) if shared.shape[2] else torch.zeros_like(sizes)
    return best.sum(1) / (sizes > 0).sum(1)  # 0 / 0 if there is no object


def mean(scores: Tensor) -> float:
    """The mean over the pictures that have something to score; NaN if none has."""
    return float(scores.nanmean())


def contingency(predicted: Tensor, truth: Tensor) -> Tensor:
    """[B, 1 + objects, 1 + clusters], float64: pixels by true and predicted label.

    Row 0 is the background, column 0 the pixels in no cluster; ignored pixels are left out.
    """
    if predicted.shape != truth.shape or predicted.ndim < 2:
        raise ValueError(
            "predicted and true labels must have the same shape [B, …],"
            f" got {list(predicted.shape)} and {list(truth.shape)}"
        )
    if predicted.is_floating_point() or truth.is_floating_point():
        raise ValueError(f"labels must be whole numbers, got {predicted.dtype} and {truth.dtype}")
    truth = _compact(truth.to(predicted.device).flatten(1).long())
    predicted = _compact(predicted.flatten(1).long().clamp(min=-1) + 1)
    pictures = len(truth)
    rows = max(int(truth.max()), 0) + 1 if truth.numel() else 1  # all may be ignored
    columns = int(predicted.max()) + 1 if predicted.numel() else 1
    cell = truth.clamp(min=0) * columns + predicted
    # float32 counts exactly to 2²⁴, and an Apple GPU has no more
    dtype = torch.float32 if cell.device.type == "mps" else torch.float64
    table = torch.zeros(pictures, rows * columns, dtype=dtype, device=cell.device)
    table.scatter_add_(1, cell, (truth >= 0).to(dtype))
    if dtype == torch.float32:
        table = table.cpu().double()
    return table.view(pictures, rows, columns)


def _adjusted_rand(table: Tensor) -> Tensor:
    """[B, rows, columns] → [B]."""
    total = table.sum((1, 2))
    squares = table.square().sum((1, 2))
    rows, columns = table.sum(2).square().sum(1), table.sum(1).square().sum(1)
    both = squares - total  # ordered pairs together in both
    truth_only, predicted_only = rows - squares, columns - squares
    neither = total.square() - rows - columns + squares
    above = 2 * (both * neither - truth_only * predicted_only)
    below = (both + truth_only) * (truth_only + neither) + (both + predicted_only) * (predicted_only + neither)
    same = (truth_only == 0) & (predicted_only == 0)
    score = torch.where(same, 1.0, above / torch.where(below == 0, 1.0, below))
    return torch.where(total > 0, score, torch.nan)


def _compact(labels: Tensor) -> Tensor:
    """The labels, or their ranks if they are large; negative ones and 0 stay."""
    if not labels.numel() or int(labels.max()) <= _MOST:
        return labels
    values, ranks = labels.clamp(min=0).unique(return_inverse=True)
    ranks = ranks if int(values[0]) == 0 else ranks + 1
    return torch.where(labels < 0, labels, ranks)
