"""The attacks of `akorn eval --attacks`, each registered once with all that options, reports and tables need to know.

Torch-free: the code that runs an attack is imported when it runs. A new attack is a function here, or in any module
that is imported before the attack is used:

    @ATTACKS.add("mirror", label="mirrored pictures")
    def mirror(attempt: Attempt) -> Figures:
        return attempt.scored(lambda model, images, labels, generator: images.flip(3))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from akorn.registry import Registry
from akorn.robustness.protocol import EOT, QUERIES, STEPS, Request

if TYPE_CHECKING:
    from akorn.robustness.attacked import Attempt
    from akorn.robustness.attacks import PGD

Figures = dict[str, dict[str, Any]]
"""An attack's figures, each with its `accuracy` in percent, its `starts` and whatever else it is based on. The main one
has the key ""; any other key, such as "_unattacked", is appended to the attack's key in JSON."""
Run = Callable[["Attempt"], Figures]
Budget = Callable[[bool], Mapping[str, int]]
"""(does the model have a random start?) → the least that the tables accept, such as {"attack_steps": 50}."""


def no_budget(random_start: bool) -> Mapping[str, int]:
    """The budget of an attack whose only setting is ε."""
    return {}


def no_facts(request: Request) -> Mapping[str, Any]:
    """The facts of an attack that has only the settings which all attacks share."""
    return {}


@dataclass(frozen=True)
class Attack:
    """An attack, known by its name."""

    name: str
    """The name that `--attacks` takes."""
    run: Run
    label: str
    """Its row in tables."""
    about: str = ""
    """What the help of `--attacks` says about it."""
    adaptive: bool = False
    """Whether it uses the gradients of the last Kuramoto steps only; then the model must have Kuramoto layers."""
    transferred: bool = False
    """Whether its adversarial pictures are made for another model, `--source`."""
    needs_extra: bool = False
    """Whether it needs the extra `attacks`, the package pyautoattack."""
    one_start: bool = False
    """Whether its pictures are tested with a single start per test, however many starts other scores use."""
    budget: Budget = no_budget
    facts: Callable[[Request], Mapping[str, Any]] = no_facts
    """What a record says about its settings, besides those of all attacks."""

    @property
    def key(self) -> str:
        """The name of its figure in JSON."""
        return self.name.replace("-", "_")


class Attacks(Registry[Attack]):
    """Attacks by name, in the order in which help lists them."""

    def __init__(self) -> None:
        super().__init__("attack")

    def add(self, name: str, *, label: str, **known: Any) -> Callable[[Run], Run]:
        """Register the function that runs an attack; known: other fields of `Attack`."""

        def enter(run: Run) -> Run:
            self.register(name, Attack(name, run, label, **known))
            return run

        return enter

    def help(self) -> str:
        """The names, each with its description."""
        return ", ".join(f"{name} ({attack.about})" if attack.about else name for name, attack in self.items())


ATTACKS = Attacks()


def _starts(random_start: bool) -> Mapping[str, int]:
    return {"eot": EOT} if random_start else {}


def _steps(random_start: bool) -> Mapping[str, int]:
    return {"attack_steps": STEPS, **_starts(random_start)}


def _copies(random_start: bool) -> Mapping[str, int]:
    return {"smooth_eot": EOT, **_steps(random_start)}


def _queries(random_start: bool) -> Mapping[str, int]:
    return {"queries": QUERIES}


def _starts_or_queries(random_start: bool) -> Mapping[str, int]:
    return _starts(random_start) if random_start else _queries(random_start)


def _smoothing(request: Request) -> Mapping[str, Any]:
    """Every model needs several noisy copies, so their number is recorded separately from `eot`."""
    return {"smooth_eot": request.eot, "smooth_noise": request.epsilon / 2}


@ATTACKS.add("fgsm", label="FGSM", budget=_starts)
def fgsm(attempt: Attempt) -> Figures:
    """One step of size ε."""
    from akorn.robustness.attacks import FGSM

    return attempt.scored(FGSM(attempt.request.epsilon, attempt.request.eot))


@ATTACKS.add("pgd", label=f"PGD, {STEPS} steps", budget=_steps)
def pgd(attempt: Attempt) -> Figures:
    """Projected gradient descent."""
    return attempt.scored(_pgd(attempt.request))


@ATTACKS.add(
    "pgd-smooth",
    label="PGD on the smoothed loss",
    about="on the loss averaged over noisy pictures",
    budget=_copies,
    facts=_smoothing,
)
def pgd_smooth(attempt: Attempt) -> Figures:
    """PGD on the loss averaged over noisy pictures."""
    return attempt.scored(_pgd(attempt.request, noise=attempt.request.epsilon / 2))


@ATTACKS.add(
    "pgd-adaptive",
    label="PGD, last Kuramoto steps alone",
    about="with the gradients of the last Kuramoto steps only",
    adaptive=True,
    budget=_steps,
)
def pgd_adaptive(attempt: Attempt) -> Figures:
    """PGD; the flag `adaptive` has changed the gradients that it follows."""
    return attempt.scored(_pgd(attempt.request))


@ATTACKS.add("square", label="Square", needs_extra=True, one_start=True, budget=_queries)
def square(attempt: Attempt) -> Figures:
    """Square, which needs no gradients."""
    return attempt.tested("square")


@ATTACKS.add(
    "autoattack",
    label="AutoAttack (`rand` for random starts)",
    about="rand with EoT for a random start, else standard",
    needs_extra=True,
    one_start=True,
    budget=_starts_or_queries,
)
def autoattack(attempt: Attempt) -> Figures:
    """AutoAttack, in the version that fits the model."""
    return attempt.tested("rand" if attempt.model.random_start else "standard")


@ATTACKS.add(
    "autoattack-adaptive",
    label="AutoAttack, last Kuramoto steps alone",
    about="with the gradients of pgd-adaptive",
    adaptive=True,
    needs_extra=True,
    one_start=True,
    budget=_starts_or_queries,
)
def autoattack_adaptive(attempt: Attempt) -> Figures:
    """AutoAttack; the flag `adaptive` has changed the gradients that it follows."""
    return autoattack(attempt)


@ATTACKS.add(
    "autoattack-standard",
    label="AutoAttack `standard`, one start fixed",
    about="with the start fixed by the seed",
    needs_extra=True,
    one_start=True,
    budget=_queries,
)
def autoattack_standard(attempt: Attempt) -> Figures:
    """AutoAttack on the model with one fixed start, which makes it a function."""
    return attempt.tested("standard")


@ATTACKS.add("transfer", label="transfer from ResNet-18", about="needs --source", transferred=True, budget=_steps)
def transfer(attempt: Attempt) -> Figures:
    """PGD on another model."""
    return attempt.scored(_pgd(attempt.request), source=attempt.source)


def _pgd(request: Request, noise: float = 0.0) -> PGD:
    from akorn.robustness.attacks import PGD

    return PGD(request.epsilon, request.steps, request.eot, noise=noise)
