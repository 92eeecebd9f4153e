"""A whole evaluation: what was asked for, in the order of its cost, with what is needed to read the figures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.robustness.adaptive import check_adaptable, last_steps
from akorn.robustness.attacks import FGSM, PGD
from akorn.robustness.autoattack import Version, autoattack
from akorn.robustness.checks import CheckSettings, check_defence
from akorn.robustness.corrupted import corrupted_score
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.data import CorruptedSet, Pictures, find_cifar10c
from akorn.robustness.evaluate import (
    EvalSettings,
    Score,
    as_float,
    asked,
    attacked_score,
    fixed_start,
    noisy_score,
    sample,
    score,
)
from akorn.robustness.net import CifarNet
from akorn.robustness.protocol import CHECKED, EOT, EPSILON, NOISE, QUERIES, STEPS

Tell = Callable[[str, int, int], None]
"""(what, done, total)"""

SHOWN = 8  # pairs in the plot of adversarial pictures
RELIABILITY, ADVERSARIAL = "reliability.png", "adversarial.png"
PLOTS = (RELIABILITY, ADVERSARIAL, "steps.png", "epsilon.png")
"""What a folder for plots may get."""


@dataclass(frozen=True)
class Request:
    """What is asked for beside clean accuracy, noise and calibration."""

    attacks: tuple[str, ...] = ()
    """Of fgsm, pgd, pgd-smooth, pgd-adaptive, square, autoattack, autoattack-adaptive, autoattack-standard,
    transfer."""
    limit: int | None = None
    attack_limit: int | None = None
    epsilon: float = EPSILON
    eot: int = EOT
    steps: int = STEPS
    queries: int = QUERIES
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
    """What is behind them: `starts_of`, the number of starts of every metric; `scores`, with calibration error and
    pictures, for AutoAttack tests and warnings; `corrupted`, the score on each corruption; `checks`."""
    plots: list[Path] = field(default_factory=list)

    def add(self, name: str, found: Score) -> None:
        """Put in a score's accuracy, and what it rests on."""
        self.put(name, found.accuracy, found.as_json())

    def put(self, name: str, value: float, behind: dict[str, Any]) -> None:
        """Put in a figure, and what it rests on: at least `starts`."""
        self.metrics[name] = value
        self.details.setdefault("scores", {})[name] = behind
        self.details.setdefault("starts_of", {})[name] = behind["starts"]

    def put_error(self, name: str, value: float, starts: int) -> None:
        """Put in a calibration error, which stands among the scores beside its accuracy."""
        self.metrics[name] = value
        self.details["starts_of"][name] = starts


def evaluate(
    model: CifarNet,
    pictures: Pictures,
    request: Request,
    settings: EvalSettings,
    *,
    source: CifarNet | None = None,
    tell: Tell | None = None,
    begun: Callable[[Report], None] | None = None,
) -> Report:
    """Score a model on test pictures. source: the model that transferred pictures are made for.

    begun: gets the report before it has any score, and so what was scored even if this ends half-way.
    """
    say: Tell = tell if tell is not None else lambda what, done, total: None
    held = None
    if request.corrupted is not None:  # before hours of scoring, not after them
        held = find_cifar10c(request.corrupted, request.severity)
    if any(name.endswith("-adaptive") for name in request.attacks):
        check_adaptable(model)
    chosen = sample(len(pictures), request.limit, settings.seed)
    part = pictures.take(chosen)
    report = Report(part.fingerprint())
    report.facts = {
        "pictures": len(part),
        "starts": settings.starts if model.random_start else 1,
        "random_start": model.random_start,
        "noise_epsilon": request.noise,
    }
    if begun is not None:
        begun(report)
    images, labels = part.images, part.labels
    clean = score(model, images, labels, settings, progress=lambda d, t: say("clean", d, t))
    report.add("clean", clean)
    for name, kind in (("noise", "uniform"), ("noise_sign", "sign")):
        noisy = noisy_score(model, images, labels, settings, epsilon=request.noise, kind=kind)  # type: ignore[arg-type]
        report.add(name, noisy)
        say(name, 1, 1)
    report.put_error("ece", clean.ece, clean.starts)
    by = f", {_starts(clean)}" if model.random_start else ""
    diagrams = {f"clean{by}": clean.reliability}
    if held is not None:
        label = "corrupted by us, pooled" if held.ours else "corrupted, pooled"
        diagrams[label + by] = _corrupt(model, pictures, request, held, settings, report, say)
    if request.attacks:
        few = part.take(sample(len(part), request.attack_limit, settings.seed))
        _attack(model, few, request, settings, source, report, say)
    if request.checks:
        few = part.take(sample(len(part), CHECKED, settings.seed))
        checks = CheckSettings(epsilon=request.epsilon, queries=min(request.queries, 1000), noise=request.epsilon / 2)
        report.facts |= {"checked": len(few), "check_epsilon": request.epsilon}
        done = report.details["checks"] = []  # filled one by one: what is done stays if this ends half-way
        found = check_defence(
            model, few.images, few.labels, checks, settings, source=source,
            progress=lambda what: say(what, 0, 0), each=lambda check: done.append(check.as_json()),
        )  # fmt: skip
        report.facts["checks_passed"] = all(check.passed for check in found)
    if request.plots is not None:
        from akorn.robustness.plots import plot_reliability

        report.plots.append(plot_reliability(diagrams, request.plots / RELIABILITY))
        report.plots.append(_show(model, part, request, settings, request.plots))
        report.plots += _curves(report.details.get("checks", []), report.facts.get("checked"), request.plots)
    return report


def _corrupt(
    model: CifarNet,
    pictures: Pictures,
    request: Request,
    held: CorruptedSet,
    settings: EvalSettings,
    report: Report,
    say: Tell,
) -> Any:
    """The scores on what the folder holds; their mean only over the 15, and where all of these are there."""
    # A folder that was made of the first pictures only is sampled for itself.
    chosen = sample(min(len(pictures), held.pictures), request.limit, settings.seed)
    report.facts |= {
        "severity": request.severity,
        "corruptions_by": "akorn" if held.ours else held.folder.name,
        "corrupted_pictures": len(chosen),
    }
    if held.missing:
        report.facts["corruptions_missing"] = list(held.missing)
    single = report.details["corrupted"] = {}  # filled one by one: what is done stays if this ends half-way

    def keep(name: str, each: Score) -> None:
        single[name] = each.as_json()

    found = corrupted_score(
        model, held.folder, held.names, settings, severity=request.severity, chosen=chosen,
        progress=lambda d, t: say("corrupted", d, t), each=keep,
    )  # fmt: skip
    pooled = found.over(held.common or held.names).pooled
    if held.complete:
        common = found.over(COMMON)
        mean = {"accuracy": common.accuracy, "ece": common.ece, "ece_pooled": pooled.ece}
        report.put("corrupted", common.accuracy, {**mean, "pictures": len(chosen), "starts": pooled.starts})
        report.put_error("corrupted_ece", common.ece, pooled.starts)
        report.put_error("corrupted_ece_pooled", pooled.ece, pooled.starts)
    report.details["corrupted_fingerprint"] = found.fingerprint
    return pooled.reliability


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
        "pgd-adaptive": pgd,
        "transfer": pgd,
    }
    for name in request.attacks:
        say(name, 0, 0)
        if name in by_gradients:
            victim = source if name == "transfer" else None
            if name == "transfer" and source is None:
                raise AkornError("transfer needs a source, the model whose adversarial pictures are transferred")
            with _gradients(model, name):
                found = attacked_score(
                    model, few.images, few.labels, by_gradients[name], settings, source=victim,
                    progress=lambda d, t, name=name: say(name, d, t),  # type: ignore[misc]
                )  # fmt: skip
            report.add(name.replace("-", "_"), found)
        else:
            with _gradients(model, name):
                _autoattack(model, few, request, settings, name, report)


def _gradients(model: CifarNet, attack: str) -> AbstractContextManager[None]:
    """The gradients that an attack is named for."""
    return last_steps(model) if attack.endswith("-adaptive") else nullcontext()


def _autoattack(
    model: CifarNet, few: Pictures, request: Request, settings: EvalSettings, name: str, report: Report
) -> None:
    """AutoAttack's own count, and what as many tests leave of the pictures without any attack (`…_unattacked`)."""
    key = name.replace("-", "_")
    version: Version = "square" if name == "square" else "rand" if model.random_start else "standard"
    if name == "autoattack-standard":
        version = "standard"
    device = next(model.parameters()).device
    images, labels = as_float(few.images.to(device)), few.labels.to(device)

    def attack() -> None:
        with asked(model, settings.precision, search=True):
            made = autoattack(
                model, images, labels, version=version, epsilon=request.epsilon, eot=request.eot,
                queries=request.queries, seed=settings.seed, batch_size=settings.batch_size,
            )  # fmt: skip
        behind = {
            "version": version,
            "pictures": len(few),
            "starts": 1,
            "tests": made.tests,
            "start_seed": model.fixed_start,
        }
        # Without any attack, and of one start each as AutoAttack's own.
        each = [
            score(model, few.images, few.labels, replace(settings, starts=1), purpose=f"{key}-test-{test}").correct
            for test in range(made.tests)
        ]
        for label, right in ((key, made.robust), (f"{key}_unattacked", torch.stack(each).all(0))):
            accuracy = 100.0 * float(right.double().mean())
            report.put(label, accuracy, {"accuracy": accuracy, **behind})
        report.details["scores"][key]["warnings"] = list(made.warnings)

    if version == "standard":  # which wants a function
        with fixed_start(model, settings.seed):
            attack()
    else:
        attack()


def shown_passes(model: CifarNet, request: Request) -> tuple[int, int, int]:
    """What the attack for the plot of adversarial pictures takes: pictures, and their passes forward and backward."""
    starts = request.eot if model.random_start else 1
    pictures = SHOWN if request.limit is None else min(SHOWN, request.limit)
    return pictures, (request.steps + 1) * starts, request.steps * starts


def _show(model: CifarNet, part: Pictures, request: Request, settings: EvalSettings, folder: Path) -> Path:
    """Adversarial pictures at 64/255 beside the originals, by adaptive gradients where such an attack was asked for."""
    from akorn.robustness.plots import plot_adversarial

    few = part.take(slice(SHOWN))
    kept: list[Tensor] = []
    before = score(model, few.images, few.labels, settings)
    pgd = PGD(NOISE, request.steps, request.eot)
    adaptive = any(name.endswith("-adaptive") for name in request.attacks)
    with _gradients(model, "pgd-adaptive" if adaptive else "pgd"):
        after = attacked_score(model, few.images, few.labels, pgd, settings, keep=kept)
    says, then = ([part.classes[place] for place in found.probabilities.argmax(1)] for found in (before, after))
    truth = [part.classes[place] for place in few.labels]
    how = f"PGD, {request.steps} steps" + (f", EoT {request.eot}" if model.random_start else "")
    how += ", gradients of the last Kuramoto steps alone" if adaptive else ""
    asked_of = f" from {_starts(before)}" if model.random_start else ""
    title = f"{how}, ‖ε‖∞ = 64/255\nabove each picture the model's answer{asked_of}, red where it is wrong"
    path = folder / ADVERSARIAL
    return plot_adversarial(as_float(few.images), torch.cat(kept), says, then, truth, path, title=title)


def _starts(found: Score) -> str:
    """Over how many starts it was predicted, in words."""
    return f"{found.starts} start{'s' if found.starts > 1 else ''}"


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
