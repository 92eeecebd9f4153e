"""Is a defence real? Checks that pass if the attacks miss nothing (Athalye et al., Carlini et al.).

A model that merely hides its gradients looks robust until it is attacked in another way. Each check compares accuracies
under attack on the same pictures, and holds or fails within two standard errors of their paired difference (`gradient`
has a threshold instead):

    steps       more steps of PGD only lower the accuracy, and it settles
    eot         more starts behind each gradient only lower it, and it settles
    epsilon     a larger ε only lowers it, down to nothing
    smooth      PGD on the loss averaged over noisy pictures does no better than PGD
    adaptive    PGD with gradients of the last Kuramoto steps only does no better than PGD
    gradient    gradients a quarter of a grey level apart point the same way, or there is nothing to follow; beside it,
                without a verdict, whether those of two random starts do, and those of two means over starts
    black-box   attacks without gradients (random noise, Square) and pictures made for another model do no better
                than PGD

Square takes a step if a single query says so, and on a random model a single query is noise: Square would find nothing,
whatever the gradients hide. So the black-box check is done on a function, the model whose start is fixed by the seed,
for PGD as for the other attacks. The other checks are done on the model as it is, with starts that the attack has not
seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from akorn.robustness.adaptive import adaptable, last_steps
from akorn.robustness.attacks import PGD, Attackable, gradient_agreement, start_agreement
from akorn.robustness.autoattack import autoattack
from akorn.robustness.evaluate import (
    EvalSettings,
    Score,
    as_float,
    asked,
    attacked_score,
    check_pictures,
    fixed_start,
    is_random,
    noisy_score,
    score,
)
from akorn.robustness.protocol import EPSILON

ERRORS = 2.0
"""How many standard errors a difference may be off."""

AGREEMENT = 50.0
"""The smallest mean cosine of nearby gradients, in percent, that counts as the same direction: an angle of 60°."""


Agreement = Callable[[Attackable, Tensor, Tensor, int, torch.Generator], Tensor]
"""(model, pictures, labels, starts behind a gradient, generator) → one cosine per picture"""


@dataclass(frozen=True)
class CheckSettings:
    """How hard the checks try; the defaults are for a GPU and 200 pictures."""

    epsilon: float = EPSILON
    steps: tuple[int, ...] = (10, 20, 50, 100)
    """Numbers of PGD steps, in increasing order; the other checks use the last."""
    eot: tuple[int, ...] = (1, 5, 20)
    """Numbers of starts behind a gradient, in increasing order; the other checks use the last."""
    epsilons: tuple[float, ...] = (8 / 255, 16 / 255, 32 / 255, 64 / 255, 128 / 255)
    """Sizes ε, in increasing order; at the last, accuracy should be 0."""
    queries: int = 1000
    """Number of Square's queries; 0 leaves it out."""
    noise: float = EPSILON / 2
    """σ of the noise over which the smooth check averages the loss."""

    def __post_init__(self) -> None:
        for name in ("steps", "eot", "epsilons"):
            values = getattr(self, name)
            if not values or list(values) != sorted(set(values)):
                raise ValueError(f"{name} of the checks must grow, got {values}")


@dataclass(frozen=True)
class Check:
    """One question, its answer and the figures behind it."""

    name: str
    passed: bool
    accuracies: dict[str, float]
    """Accuracies in percent, in the order in which they should fall (PGD first where attacks are compared); mean
    cosines for `gradient`."""
    reason: str
    """What failed, or what was found to hold."""
    starts: int = 1
    """The number of starts behind each accuracy; for `gradient`, the number over which gradients are averaged."""

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def check_defence(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: CheckSettings | None = None,
    asking: EvalSettings | None = None,
    *,
    source: nn.Module | None = None,
    progress: Callable[[str], None] | None = None,
    each: Callable[[Check], None] | None = None,
) -> list[Check]:
    """Run all checks on pictures [N, 3, H, W] with their labels; 200 of them are enough.

    source: another model, such as a ResNet-18, whose adversarial pictures are tried on this one. each: called with
    every check as soon as it is done.
    """
    settings = settings if settings is not None else CheckSettings()
    asking = asking if asking is not None else EvalSettings()
    check_pictures(images, labels)
    say = progress if progress is not None else lambda text: None
    strongest = PGD(settings.epsilon, settings.steps[-1], settings.eot[-1])
    found: list[Check] = []

    def add(check: Check) -> None:
        found.append(check)
        if each is not None:
            each(check)

    def under(attack: PGD, label: str, victim: nn.Module | None = None) -> Score:
        say(label)
        return attacked_score(model, images, labels, attack, asking, source=victim)

    white = under(strongest, f"PGD, {strongest.steps} steps")
    by_steps = [(str(s), under(replace(strongest, steps=s), f"PGD, {s} steps")) for s in settings.steps[:-1]]
    add(falls("steps", [*by_steps, (str(strongest.steps), white)]))
    if is_random(model):
        by_eot = [(str(e), under(replace(strongest, eot=e), f"PGD, EoT {e}")) for e in settings.eot[:-1]]
        add(falls("eot", [*by_eot, (str(strongest.eot), white)]))
    else:
        add(Check("eot", True, {}, "the model has no random start"))
    sizes = [
        (
            f"{255 * e:g}/255",
            white  # the same attack would only give the same score again
            if e == settings.epsilon
            else under(replace(strongest, epsilon=e), f"PGD, ε = {255 * e:g}/255"),
        )
        for e in settings.epsilons
    ]
    add(vanishes("epsilon", sizes))
    smooth = under(replace(strongest, noise=settings.noise), "PGD on the smoothed loss")
    add(no_better("smooth", white, [("smoothed", smooth)]))
    if adaptable(model):
        with last_steps(model):
            adaptive = under(strongest, "PGD, last Kuramoto steps alone")
        add(no_better("adaptive", white, [("last steps", adaptive)]))
    else:
        add(Check("adaptive", True, {}, "the model has no Kuramoto layers that C drives"))
    say("gradients nearby")
    add(_agrees(model, images, labels, strongest.eot, asking))

    random = is_random(model)
    with fixed_start(model, asking.seed):
        if random:
            white = under(strongest, "PGD, start fixed")
        say("random noise")
        black = [("noise", noisy_score(model, images, labels, asking, epsilon=settings.epsilon, kind="sign"))]
        if settings.queries:
            say(f"Square, {settings.queries} queries")
            black.append(("square", _square(model, images, labels, settings, asking)))
        if source is not None:
            black.append(("transfer", under(strongest, "transfer", source)))
    add(no_better("black-box", white, black))
    return found


def falls(name: str, scores: Sequence[tuple[str, Score]]) -> Check:
    """Each accuracy is at most the one before, and the last two are the same, within two standard errors."""
    reason = _rises(scores)
    if reason is None and len(scores) > 1:
        (before, a), (after, b) = scores[-2:]
        drop, error = paired(a.correct, b.correct)
        if drop > ERRORS * error:
            reason = f"not settled: still {100 * drop:.1f} points lower from {before} to {after}"
    return _check(name, scores, reason, "falls and settles")


def vanishes(name: str, scores: Sequence[tuple[str, Score]]) -> Check:
    """Each accuracy is at most the one before, and the last is 0, within two standard errors."""
    reason = _rises(scores)
    if reason is None:
        where, last = scores[-1]
        left = float(last.correct.double().mean())
        error = math.sqrt(left * (1 - left) / len(last.labels))
        if left > ERRORS * error:
            reason = f"{100 * left:.1f} % are still right at {where}"
    return _check(name, scores, reason, "falls to nothing")


def no_better(name: str, white: Score, black: Sequence[tuple[str, Score]]) -> Check:
    """No other attack's accuracy is below PGD's by more than two standard errors."""
    reason = None
    for label, other in black:
        drop, error = paired(white.correct, other.correct)
        if drop > ERRORS * error and reason is None:
            reason = f"{label} gets {100 * drop:.1f} points below PGD"
    return _check(name, [("pgd", white), *black], reason, "none gets below PGD")


def paired(a: Tensor, b: Tensor) -> tuple[float, float]:
    """The mean of a − b over the same pictures, and its standard error; both [N], right or wrong."""
    difference = a.double() - b.double()
    error = float(difference.std()) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return float(difference.mean()), error


def _rises(scores: Sequence[tuple[str, Score]]) -> str | None:
    for (before, a), (after, b) in pairwise(scores):
        rise, error = paired(b.correct, a.correct)
        if rise > ERRORS * error:
            return f"{100 * rise:.1f} points higher at {after} than at {before}"
    return None


def _check(name: str, scores: Sequence[tuple[str, Score]], reason: str | None, fine: str) -> Check:
    accuracies = {label: found.accuracy for label, found in scores}
    return Check(name, reason is None, accuracies, fine if reason is None else reason, scores[0][1].starts)


def _agrees(model: nn.Module, images: Tensor, labels: Tensor, eot: int, asking: EvalSettings) -> Check:
    """The check `gradient`, with as many starts behind each gradient as the attacks use."""
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(asking.seed)

    def mean(agreement: Agreement, starts: int) -> float:
        cosines = [
            agreement(model, as_float(part.to(device)), truth.to(device), starts, generator)  # type: ignore[arg-type]
            for part, truth in zip(images.split(asking.batch_size), labels.split(asking.batch_size), strict=True)
        ]
        return 100 * float(torch.cat(cosines).mean())

    with asked(model, asking.precision, search=True):
        figures = {"cosine, %": mean(gradient_agreement, eot)}
        if is_random(model):
            figures["between starts"] = mean(start_agreement, 1)
            figures[f"between means over {eot}"] = mean(start_agreement, eot)
    same = figures["cosine, %"] >= AGREEMENT
    reason = "nearby gradients agree" if same else "gradients a quarter of a grey level apart do not agree"
    return Check("gradient", same, figures, reason, eot if is_random(model) else 1)


def _square(model: nn.Module, images: Tensor, labels: Tensor, settings: CheckSettings, asking: EvalSettings) -> Score:
    """The score on the pictures of Square, which needs a function."""
    device = next(model.parameters()).device
    pictures, truth = as_float(images.to(device)), labels.to(device)
    with asked(model, asking.precision, search=True):
        made = autoattack(
            model,  # type: ignore[arg-type]  # a module with random_start
            pictures,
            truth,
            version="square",
            epsilon=settings.epsilon,
            queries=settings.queries,
            seed=asking.seed,
            batch_size=asking.batch_size,
        )
    return score(model, made.adversarial.detach(), labels, asking, purpose="square")
