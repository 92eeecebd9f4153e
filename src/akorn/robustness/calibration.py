"""Calibration: is the confidence of a prediction the chance that it is right?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15
"""The default of torchmetrics; the paper does not say how many it used."""


@dataclass(frozen=True)
class Reliability:
    """Predictions gathered by confidence, [bins + 1] each: the last bin holds those with a confidence of exactly 1."""

    edges: Tensor
    """[bins + 1]: bin i holds confidences from edges[i] up to, but not including, edges[i + 1]."""
    confidence: Tensor
    """The mean confidence in each bin; 0 in an empty one."""
    accuracy: Tensor
    """The share of correct predictions in each bin."""
    count: Tensor

    @property
    def ece(self) -> float:
        """Expected calibration error Σ_b (n_b / n) |accuracy_b − confidence_b|, in percent."""
        share = self.count / self.count.sum()
        return 100.0 * float((share * (self.accuracy - self.confidence).abs()).sum())


def reliability(probabilities: Tensor, labels: Tensor, bins: int = BINS) -> Reliability:
    """Gather predictions by their confidence, the largest of the probabilities [N, classes]; labels [N].

    The bins are those of torchmetrics' multiclass calibration error with the ℓ1 norm.
    """
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1] or not len(labels):
        raise ValueError(
            f"expected probabilities [N, classes] and labels [N], got {list(probabilities.shape)} and"
            f" {list(labels.shape)}"
        )
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    confidence, answer = probabilities.float().cpu().max(1)
    right = (answer == labels.cpu()).float()
    edges = torch.linspace(0, 1, bins + 1)
    place = (torch.bucketize(confidence, edges, right=True) - 1).clamp(0, bins)  # rounding may lift a 1 above 1

    def total(values: Tensor) -> Tensor:
        return torch.zeros(bins + 1, dtype=torch.float64).index_add_(0, place, values.double())

    count = total(torch.ones_like(confidence))
    some = count.clamp_min(1)
    return Reliability(edges, total(confidence) / some, total(right) / some, count.long())


def expected_calibration_error(probabilities: Tensor, labels: Tensor, bins: int = BINS) -> float:
    """ECE in percent; see `Reliability.ece`."""
    return reliability(probabilities, labels, bins).ece
