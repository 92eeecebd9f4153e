"""A whole evaluation: what was asked for, in the order of its cost, with what is needed to read the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.robustness.attacks import EPSILON, FGSM, PGD
from akorn.robustness.autoattack import EOT, Version, autoattack
from akorn.robustness.checks import CheckSettings, check_defence
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.data import Pictures, check_cifar10c, load_cifar10c, made_by_us
from akorn.robustness.evaluate import (
    EvalSettings,
    Score,
    as_float,
    asked,
    attacked_score,
    corrupted_score,
    fixed_start,
    noisy_score,
    sample,
    score,
)
from akorn.robustness.net import CifarNet
from akorn.robustness.noise import EPSILON as NOISE

Tell = Callable[[str, int, int], None]
"""(what, done, total)"""

CHECKED = 200  # pictures of the checks
SHOWN = 8  # pairs in the plot of adversarial pictures


@dataclass(frozen=True)
class Request:
    """What is asked for beside clean accuracy, noise and calibration."""

    attacks: tuple[str, ...] = ()
    """Of fgsm, pgd, pgd-smooth, square, autoattack, autoattack-standard, transfer."""
    limit: int | None = None
    attack_limit: int | None = None
    epsilon: float = EPSILON
    eot: int = EOT
    steps: int = 50
    queries: int = 5000
    noise: float = NOISE
    corrupted: Path | None = None
    severity: int = 5
    checks: bool = False
    plots: Path | None = None


@dataclass
class Report:
    """What an evaluation found."""

    fingerprint: str
    metrics: dict[str, float] = field(default_factory=dict)
    """In percent, under the names that `akorn eval --json` prints."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How the figures came about: pictures, starts, ε and so on."""
    details: dict[str, Any] = field(default_factory=dict)
    """Scores with their numbers of starts, each corruption, AutoAttack's warnings, the checks."""
    plots: list[Path] = field(default_factory=list)

    def add(self, name: str, found: Score) -> None:
        """Put in a score's accuracy, and what it rests on."""
        self.metrics[name] = found.accuracy
        self.details.setdefault("scores", {})[name] = found.as_json()


def evaluate(
    model: CifarNet,
    pictures: Pictures,
    request: Request,
    settings: EvalSettings,
    *,
    source: CifarNet | None = None,
    tell: Tell | None = None,
) -> Report:
    """Score a model on test pictures. source: the model that transferred pictures are made for."""
    say: Tell = tell if tell is not None else lambda what, done, total: None
    if request.corrupted is not None:  # before hours of scoring, not after them
        check_cifar10c(request.corrupted, COMMON, request.severity)
    chosen = sample(len(pictures), request.limit, settings.seed)
    part = pictures.take(chosen)
    report = Report(part.fingerprint())
    report.facts = {
        "pictures": len(part),
        "starts": settings.starts if model.random_start else 1,
        "random_start": model.random_start,
        "noise_epsilon": request.noise,
    }
    images, labels = part.images, part.labels
    clean = score(model, images, labels, settings, progress=lambda d, t: say("clean", d, t))
    report.add("clean", clean)
    for name, kind in (("noise", "uniform"), ("noise_sign", "sign")):
        noisy = noisy_score(model, images, labels, settings, epsilon=request.noise, kind=kind)  # type: ignore[arg-type]
        report.add(name, noisy)
        say(name, 1, 1)
    report.metrics["ece"] = clean.ece
    diagrams = {"clean": clean.reliability}
    if request.corrupted is not None:
        label = "corrupted by us, pooled" if made_by_us(request.corrupted) else "corrupted, pooled"
        diagrams[label] = _corrupt(model, pictures, request, request.corrupted, settings, report, say)
    if request.attacks:
        few = part.take(sample(len(part), request.attack_limit, settings.seed))
        _attack(model, few, request, settings, source, report, say)
    if request.checks:
        few = part.take(sample(len(part), CHECKED, settings.seed))
        checks = CheckSettings(epsilon=request.epsilon, queries=min(request.queries, 1000), noise=request.epsilon / 2)
        found = check_defence(
            model, few.images, few.labels, checks, settings, source=source, progress=lambda what: say(what, 0, 0)
        )
        report.details["checks"] = [check.as_json() for check in found]
        report.facts |= {"checked": len(few), "checks_passed": all(check.passed for check in found)}
    if request.plots is not None:
        from akorn.robustness.plots import plot_reliability

        report.plots.append(plot_reliability(diagrams, request.plots / "reliability.png"))
        report.plots.append(_show(model, part, request, settings, request.plots))
        report.plots += _curves(report.details.get("checks", []), report.facts.get("checked"), request.plots)
    return report


def _corrupt(
    model: CifarNet,
    pictures: Pictures,
    request: Request,
    folder: Path,
    settings: EvalSettings,
    report: Report,
    say: Tell,
) -> Any:
    # A folder that was made of the first pictures only is sampled for itself.
    stored = min(len(pictures), len(load_cifar10c(folder, COMMON[0], request.severity)))
    chosen = sample(stored, request.limit, settings.seed)
    found = corrupted_score(
        model, folder, COMMON, settings, severity=request.severity, chosen=chosen,
        progress=lambda d, t: say("corrupted", d, t),
    )  # fmt: skip
    report.metrics |= {"corrupted": found.accuracy, "corrupted_ece": found.ece}
    report.metrics["corrupted_ece_pooled"] = found.pooled.ece
    report.facts |= {
        "severity": request.severity,
        "corruptions_by": "akorn" if made_by_us(folder) else folder.name,
        "corrupted_pictures": len(chosen),
    }
    report.details["corrupted"] = {name: each.as_json() for name, each in found.scores.items()}
    report.details["corrupted_fingerprint"] = found.fingerprint
    return found.pooled.reliability


def _attack(
    model: CifarNet,
    few: Pictures,
    request: Request,
    settings: EvalSettings,
    source: CifarNet | None,
    report: Report,
    say: Tell,
) -> None:
    report.facts |= {
        "attacked": len(few),
        "epsilon": request.epsilon,
        "eot": request.eot if model.random_start else 1,
        "attack_steps": request.steps,
        "queries": request.queries,
    }
    if "pgd-smooth" in request.attacks:  # which needs several noisy copies, whatever the model
        report.facts |= {"smooth_eot": request.eot, "smooth_noise": request.epsilon / 2}
    pgd = PGD(request.epsilon, request.steps, request.eot)
    by_gradients: dict[str, PGD | FGSM] = {
        "fgsm": FGSM(request.epsilon, request.eot),
        "pgd": pgd,
        "pgd-smooth": replace(pgd, noise=request.epsilon / 2),
        "transfer": pgd,
    }
    for name in request.attacks:
        say(name, 0, 0)
        if name in by_gradients:
            victim = source if name == "transfer" else None
            if name == "transfer" and source is None:
                raise AkornError("transfer needs a source, the model whose adversarial pictures are transferred")
            found = attacked_score(
                model, few.images, few.labels, by_gradients[name], settings, source=victim,
                progress=lambda d, t, name=name: say(name, d, t),  # type: ignore[misc]
            )  # fmt: skip
            report.add(name.replace("-", "_"), found)
        else:
            _autoattack(model, few, request, settings, name, report)


def _autoattack(
    model: CifarNet, few: Pictures, request: Request, settings: EvalSettings, name: str, report: Report
) -> None:
    """AutoAttack's own count, and how its pictures fare with new starts (`…_again`)."""
    key = name.replace("-", "_")
    version: Version = "square" if name == "square" else "rand" if model.random_start else "standard"
    if name == "autoattack-standard":
        version = "standard"
    device = next(model.parameters()).device
    images, labels = as_float(few.images.to(device)), few.labels.to(device)
    start = settings.seed if version == "standard" else None

    def attack() -> None:
        with asked(model, settings.precision, search=True):
            made = autoattack(
                model, images, labels, version=version, epsilon=request.epsilon, eot=request.eot,
                queries=request.queries, seed=settings.seed, batch_size=settings.batch_size,
            )  # fmt: skip
        report.metrics[key] = 100.0 * float(made.robust.double().mean())
        again = score(model, made.adversarial, few.labels, settings, purpose=key)
        report.add(f"{key}_again", again)
        report.details.setdefault("autoattack", {})[key] = {
            "version": version,
            "pictures": len(few),
            "starts": 1,
            "start_seed": start if model.random_start or model.fixed_start is not None else None,
            "warnings": list(made.warnings),
        }

    if start is not None:
        with fixed_start(model, start):
            attack()
    else:
        attack()


def _show(model: CifarNet, part: Pictures, request: Request, settings: EvalSettings, folder: Path) -> Path:
    """Adversarial pictures at 64/255 beside the originals."""
    from akorn.robustness.plots import plot_adversarial

    few = part.take(slice(SHOWN))
    size = 64 / 255
    kept: list[Tensor] = []
    before = score(model, few.images, few.labels, settings)
    after = attacked_score(model, few.images, few.labels, PGD(size, request.steps, request.eot), settings, keep=kept)
    says, then = ([part.classes[place] for place in found.probabilities.argmax(1)] for found in (before, after))
    title = f"PGD, {request.steps} steps, ‖ε‖∞ = 64/255; above each picture the model's answer"
    path = folder / "adversarial.png"
    return plot_adversarial(as_float(few.images), torch.cat(kept), says, then, path, title=title)


def _curves(checks: list[dict[str, Any]], pictures: int | None, folder: Path) -> list[Path]:
    """Accuracy against the attack's steps and against ε on so many pictures, where the checks have found them."""
    from akorn.robustness.plots import plot_accuracy

    written = []
    for check in checks:
        if check["name"] in ("steps", "epsilon") and check["accuracies"]:
            points = {float(label.removesuffix("/255")): value for label, value in check["accuracies"].items()}
            against = "steps of PGD" if check["name"] == "steps" else "ε (of 255)"
            path = folder / f"{check['name']}.png"
            written.append(plot_accuracy({"PGD": points}, path, against=against, log=True, pictures=pictures))
    return written
