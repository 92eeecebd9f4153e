"""Scores for your own network: any torch module that maps pictures from 0 to 1 to logits.

    test = akorn.robustness.load_cifar10("cifar-10-batches-py", "test")
    scores = akorn.robustness.benchmark(net, test, attacks=("pgd", "autoattack"), limit=1000)
    print(scores["clean"], scores["ece"], scores["pgd"], scores["autoattack"], scores["corrupted"])

A network that needs normalised pixels must normalise them itself, as in RobustBench: attacks work on pixels from 0 to
1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from akorn.augment.image_batch import check_range
from akorn.errors import AkornError
from akorn.nn.checks import can_be_looked_at
from akorn.robustness.config import SIDE
from akorn.robustness.corruptions import COMMON, check_name, check_severity, corrupt
from akorn.robustness.data import Pictures
from akorn.robustness.evaluate import EvalSettings, Score, as_float, sample, score
from akorn.robustness.net import CifarNet
from akorn.robustness.protocol import Request
from akorn.robustness.report import evaluate


class OwnModel(nn.Module):
    """Wraps a plain module for the functions of this package: `score`, `PGD`, `evaluate`, `check_defence`.

    Args:
        model: maps pictures [B, 3, H, W] from 0 to 1 to logits [B, classes]; a function of the pictures alone.

    The first pictures are looked at, and refused if they are from 0 to 255.

    """

    random_start = False
    fixed_start: int | None = None

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._looked = False  # at pictures: only once, since it waits for the device
        if next(model.parameters(), None) is None:  # its device is read from its parameters
            self.register_parameter("place", nn.Parameter(torch.empty(0), requires_grad=False))

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits [B, classes]; there is nothing to draw."""
        if not self._looked and can_be_looked_at(images):
            check_range(images)
            self._looked = True
        logits: Tensor = self.model(images)
        return logits


def benchmark(
    model: nn.Module,
    pictures: Pictures,
    *,
    attacks: Sequence[str] = ("pgd",),
    corruptions: Sequence[str] = COMMON,
    severity: int = 5,
    limit: int | None = None,
    request: Request | None = None,
    settings: EvalSettings | None = None,
) -> dict[str, float]:
    """Score a model on test pictures: clean, with noise, corrupted, attacked, and how well it is calibrated.

    Scores are in percent, under the names of `akorn eval --json`: `clean` and `ece`; `noise` and `noise_uniform`,
    random noise of ±64/255 on every value or uniform in that box; `corrupted` and `corrupted_ece`, the means over the
    corruptions; and each attack, within 8/255.

    model: one of akorn's, or any module that maps pictures from 0 to 1 to logits. pictures: 32 × 32 if they are to be
    corrupted. attacks: names from `akorn.robustness.ATTACKS`. corruptions: names, or none. limit: score only this many
    pictures, drawn at random. request: the attacks' ε, steps and so on. settings: seed, batch size, starts.
    """
    settings = settings if settings is not None else EvalSettings()
    asked = replace(request if request is not None else Request(), attacks=tuple(attacks), limit=limit)
    for name in corruptions:
        check_name(name)
    check_severity(severity)
    if len(corruptions) and tuple(pictures.images.shape[2:]) != (SIDE, SIDE):
        size = " × ".join(map(str, pictures.images.shape[2:]))
        raise AkornError(f"corruptions are made for {SIDE} × {SIDE} pixels, got {size}; corruptions=() leaves them out")
    one = model if hasattr(model, "random_start") else OwnModel(model)
    part = pictures.take(sample(len(pictures), limit, settings.seed))
    _check_logits(one, part)
    found = evaluate(cast(CifarNet, one), pictures, asked, settings).metrics  # OwnModel has all that `evaluate` uses
    if len(corruptions):
        each = [_corrupted(one, part, name, severity, settings) for name in corruptions]
        found["corrupted"] = sum(one.accuracy for one in each) / len(each)
        found["corrupted_ece"] = sum(one.ece for one in each) / len(each)
    return found


def _corrupted(model: nn.Module, pictures: Pictures, name: str, severity: int, settings: EvalSettings) -> Score:
    worse = torch.from_numpy(corrupt(pictures.images.cpu().numpy(), name, severity, settings.seed))
    return score(model, worse, pictures.labels, settings, purpose=f"corrupted-{name}")


@torch.no_grad()
def _check_logits(model: nn.Module, pictures: Pictures) -> None:
    """AkornError unless the model gives finite logits for the first pictures, one for each class."""
    few = pictures.images[:2]
    training = model.training
    try:
        logits: Any = model.eval()(as_float(few.to(next(model.parameters()).device)))
    finally:
        model.train(training)
    least = int(pictures.labels.max()) + 1
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(few) or logits.shape[1] < least:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise AkornError(f"the model gives {got} for {len(few)} pictures, expected [{len(few)}, {least} or more]")
    if not bool(logits.isfinite().all()):
        raise AkornError("the model gives logits that are not finite (NaN or infinite)")
