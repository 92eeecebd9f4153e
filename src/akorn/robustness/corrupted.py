"""Scores of a CIFAR model on CIFAR-10-C: each corruption, and their mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.robustness.data import load_cifar10c
from akorn.robustness.evaluate import EvalSettings, Progress, Score, score


@dataclass(frozen=True)
class Corrupted:
    """Scores on CIFAR-10-C at one severity."""

    scores: dict[str, Score]
    severity: int
    fingerprint: str
    """SHA-256 of all pictures that were scored."""

    def over(self, corruptions: Iterable[str]) -> Corrupted:
        """The same for some of the corruptions."""
        return replace(self, scores={name: self.scores[name] for name in corruptions})

    @property
    def accuracy(self) -> float:
        """The mean over the corruptions, in percent."""
        return sum(s.accuracy for s in self.scores.values()) / len(self.scores)

    @property
    def ece(self) -> float:
        """The mean of the corruptions' calibration errors, in percent."""
        return sum(s.ece for s in self.scores.values()) / len(self.scores)

    @property
    def pooled(self) -> Score:
        """All corruptions together as one set: its calibration error is the other reading of "ECE on CIFAR-10-C"."""
        each = list(self.scores.values())
        return Score(torch.cat([s.probabilities for s in each]), torch.cat([s.labels for s in each]), each[0].starts)


def corrupted_score(
    model: nn.Module,
    folder: Path,
    corruptions: tuple[str, ...],
    settings: EvalSettings | None = None,
    *,
    severity: int = 5,
    chosen: Tensor | None = None,
    progress: Progress | None = None,
    each: Callable[[str, Score], None] | None = None,
) -> Corrupted:
    """The scores on each corruption of a folder in CIFAR-10-C's layout.

    chosen: which pictures, by number. each: called with every corruption's score as soon as it is known.
    """
    if not corruptions:
        raise ValueError("there is no corruption to score")
    scores, digest = {}, hashlib.sha256()
    for done, name in enumerate(corruptions, 1):
        data = load_cifar10c(folder, name, severity)
        if chosen is not None:
            if len(chosen) and int(chosen.max()) >= len(data):
                raise AkornError(f"{folder}: {name} has {len(data)} pictures, too few for the sample")
            data = data.take(chosen)
        digest.update(f"{name} {severity} {data.fingerprint()}".encode())
        scores[name] = score(model, data.images, data.labels, settings, purpose=f"corrupted-{name}")
        if each is not None:
            each(name, scores[name])
        if progress is not None:
            progress(done, len(corruptions))
    return Corrupted(scores, severity, digest.hexdigest())
