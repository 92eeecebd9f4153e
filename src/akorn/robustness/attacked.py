"""What an attack of `akorn eval` is given, and how its figures are computed.

An attack that gives adversarial pictures is scored with starts that it has not seen (`Attempt.scored`). AutoAttack and
Square count robust pictures themselves (`Attempt.tested`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch

from akorn.robustness.adaptive import last_steps
from akorn.robustness.attack_suite import Figures
from akorn.robustness.autoattack import Version, autoattack
from akorn.robustness.data import Pictures
from akorn.robustness.evaluate import (
    EvalSettings,
    Perturb,
    Progress,
    as_float,
    asked,
    attacked_score,
    fixed_start,
    score,
)
from akorn.robustness.net import CifarNet
from akorn.robustness.protocol import Request


@dataclass(frozen=True)
class Attempt:
    """A model, the pictures to attack, and how hard to try."""

    model: CifarNet
    pictures: Pictures
    request: Request
    settings: EvalSettings
    purpose: str
    """The attack's key, which names the streams of random numbers."""
    source: CifarNet | None = None
    """The model for which transferred pictures are made."""
    progress: Progress | None = None

    def scored(self, attack: Perturb, source: CifarNet | None = None) -> Figures:
        """The score on the pictures that the attack makes, for this model or for `source`."""
        found = attacked_score(
            self.model, self.pictures.images, self.pictures.labels, attack, self.settings, source=source,
            progress=self.progress,
        )  # fmt: skip
        return {"": found.as_json()}

    def tested(self, version: Version) -> Figures:
        """AutoAttack's own count, and, as `…_unattacked`, how many pictures pass as many tests without an attack."""
        if version == "standard":  # which needs a function
            with fixed_start(self.model, self.settings.seed):
                return self._tested(version)
        return self._tested(version)

    def _tested(self, version: Version) -> Figures:
        model, request, settings = self.model, self.request, self.settings
        device = next(model.parameters()).device
        images, labels = as_float(self.pictures.images.to(device)), self.pictures.labels.to(device)
        with asked(model, settings.precision, search=True):
            made = autoattack(
                model, images, labels, version=version, epsilon=request.epsilon, eot=request.eot,
                queries=request.queries, seed=settings.seed, batch_size=settings.batch_size,
            )  # fmt: skip
        # Without any attack, with one start per test as in AutoAttack's own count.
        once = replace(settings, starts=1)
        each = [
            score(
                model, self.pictures.images, self.pictures.labels, once, purpose=f"{self.purpose}-test-{test}"
            ).correct
            for test in range(made.tests)
        ]
        behind = {
            "version": version,
            "pictures": len(labels),
            "starts": 1,
            "tests": made.tests,
            "start_seed": model.fixed_start,
        }
        attacked, unattacked = (
            {"accuracy": 100.0 * float(right.double().mean()), **behind}
            for right in (made.robust, torch.stack(each).all(0))
        )
        return {"": {**attacked, "warnings": list(made.warnings)}, "_unattacked": unattacked}


def gradients(model: CifarNet, *, adaptive: bool) -> AbstractContextManager[None]:
    """A context in which the model has the gradients that an attack follows."""
    return last_steps(model) if adaptive else nullcontext()
