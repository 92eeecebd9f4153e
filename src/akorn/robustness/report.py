"""A whole evaluation: everything that was asked for, the cheapest first, with what is needed to read the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from akorn.errors import AkornError
from akorn.robustness.adaptive import check_adaptable
from akorn.robustness.attack_suite import ATTACKS
from akorn.robustness.attacked import Attempt, gradients
from akorn.robustness.checks import CheckSettings, check_defence
from akorn.robustness.corrupted import corrupted_score
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.data import CorruptedSet, Pictures, find_cifar10c
from akorn.robustness.evaluate import EvalSettings, Score, noisy_score, sample, score
from akorn.robustness.evaluation_plots import RELIABILITY, in_words, show_adversarial, show_curves
from akorn.robustness.net import CifarNet
from akorn.robustness.protocol import CHECKED, Request
from akorn.robustness.random_noise import NoiseName

Tell = Callable[[str, int, int], None]
"""(what, done, total)"""


@dataclass
class Report:
    """What an evaluation found."""

    fingerprint: str
    metrics: dict[str, float] = field(default_factory=dict)
    """In percent, under the names that `akorn eval --json` prints."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How the figures were measured: pictures, starts, ε and so on."""
    details: dict[str, Any] = field(default_factory=dict)
    """Details: `starts_of`, the number of starts of every metric; `scores`, with calibration error and number of
    pictures, and for AutoAttack tests and warnings; `corrupted`, the score on each corruption; `checks`."""
    plots: list[Path] = field(default_factory=list)

    def add(self, name: str, found: Score) -> None:
        """Add a score's accuracy, and what it is based on."""
        self.put(name, found.accuracy, found.as_json())

    def put(self, name: str, value: float, behind: dict[str, Any]) -> None:
        """Add a figure, and what it is based on: at least `starts`."""
        self.metrics[name] = value
        self.details.setdefault("scores", {})[name] = behind
        self.details.setdefault("starts_of", {})[name] = behind["starts"]

    def put_error(self, name: str, value: float, starts: int) -> None:
        """Add a calibration error, which is listed among the scores beside its accuracy."""
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
    """Score a model on test or validation pictures. source: the model that transferred pictures are made for.

    begun: called with the report before it has any score, so that the caller has what was scored even if this is
    interrupted.
    """
    say: Tell = tell if tell is not None else lambda what, done, total: None
    held = None
    if request.corrupted is not None:  # before hours of scoring, not after them
        held = find_cifar10c(request.corrupted, request.severity)
        if held.split != request.split:
            raise AkornError(f"{request.corrupted}: holds {held.split} pictures, but {request.split} ones are scored")
    _check_attacks(model, request, source)
    chosen = sample(len(pictures), request.limit, settings.seed)
    part = pictures.take(chosen)
    report = Report(part.fingerprint())
    report.facts = {
        "pictures": len(part),
        "starts": settings.starts if model.random_start else 1,
        "random_start": model.random_start,
        "noise_epsilon": request.noise,
        "noise_kind": "sign",  # of `noise`; records without this entry have uniform noise there, and noise_sign
    }
    if begun is not None:
        begun(report)
    images, labels = part.images, part.labels
    clean = score(model, images, labels, settings, progress=lambda d, t: say("clean", d, t))
    report.add("clean", clean)
    kinds: tuple[tuple[str, NoiseName], ...] = (("noise", "sign"), ("noise_uniform", "uniform"))
    for name, kind in kinds:
        noisy = noisy_score(model, images, labels, settings, epsilon=request.noise, kind=kind)
        report.add(name, noisy)
        say(name, 1, 1)
    report.put_error("ece", clean.ece, clean.starts)
    by = f", {in_words(clean)}" if model.random_start else ""
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
        done = report.details["checks"] = []  # filled one by one, so that finished ones stay if this is interrupted
        found = check_defence(
            model, few.images, few.labels, checks, settings, source=source,
            progress=lambda what: say(what, 0, 0), each=lambda check: done.append(check.as_json()),
        )  # fmt: skip
        report.facts["checks_passed"] = all(check.passed for check in found)
    if request.plots is not None:
        from akorn.robustness.plots import plot_reliability

        report.plots.append(plot_reliability(diagrams, request.plots / RELIABILITY))
        report.plots.append(show_adversarial(model, part, request, settings, request.plots))
        report.plots += show_curves(report.details.get("checks", []), report.facts.get("checked"), request.plots)
    return report


def _check_attacks(model: CifarNet, request: Request, source: CifarNet | None) -> None:
    """AkornError for an unknown attack, or one that cannot be run on the model."""
    for attack in (ATTACKS.find(name) for name in request.attacks):
        if attack.adaptive:
            check_adaptable(model)
        if attack.transferred and source is None:
            raise AkornError(f"{attack.name} needs a source, the model whose adversarial pictures are transferred")


def _corrupt(
    model: CifarNet,
    pictures: Pictures,
    request: Request,
    held: CorruptedSet,
    settings: EvalSettings,
    report: Report,
    say: Tell,
) -> Any:
    """The scores on the folder's corruptions; their mean is over the 15 only, and only if all of these are there."""
    # A folder made from the first pictures only has its own sample.
    chosen = sample(min(len(pictures), held.pictures), request.limit, settings.seed)
    report.facts |= {
        "severity": request.severity,
        "corruptions_by": "akorn" if held.ours else held.folder.name,
        "corrupted_pictures": len(chosen),
    }
    if held.frost is not None:
        report.facts["frost"] = held.frost
    if held.missing:
        report.facts["corruptions_missing"] = list(held.missing)
    single = report.details["corrupted"] = {}  # filled one by one, so that finished ones stay if this is interrupted

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
    attacks = [ATTACKS.find(name) for name in request.attacks]
    report.facts |= {
        "attacked": len(few),
        "epsilon": request.epsilon,
        "eot": request.eot if model.random_start else 1,
        "attack_steps": request.steps,
        "queries": request.queries,
    }
    for attack in attacks:
        report.facts |= attack.facts(request)
    for attack in attacks:
        say(attack.name, 0, 0)
        told = partial(say, attack.name)
        attempt = Attempt(model, few, request, settings, attack.key, source, told)
        with gradients(model, adaptive=attack.adaptive):
            found = attack.run(attempt)
        for figure, behind in found.items():
            report.put(attack.key + figure, behind["accuracy"], behind)
