"""AutoAttack (Croce and Hein), from the optional package pyautoattack.

Its `rand` version is for models with random starts: APGD on two losses, with gradients averaged over 20 starts. Its
`standard` version adds targeted attacks, FAB and Square. It needs a function, so it is given a model whose start is
fixed.

A picture counts as robust if it was classified correctly in every test, with one start per test: before the attacks,
and after each of them. A picture that withstood an attack is tested unchanged. So a random model loses pictures to bad
luck alone, and more of them the more tests there are: compare the count with the share of pictures that are classified
correctly in as many tests without any attack. The adversarial pictures say nothing more about a random model: where an
attack failed, the original is returned, and a picture that was misclassified in the first test was never attacked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.robustness.attacks import Attackable, check_epsilon
from akorn.robustness.protocol import EOT, EPSILON, QUERIES
from akorn.runtime import randomness
from akorn.runtime.randomness import derive_seed

Version = Literal["rand", "standard", "square"]


@dataclass(frozen=True)
class AutoAttacked:
    """What AutoAttack found."""

    adversarial: Tensor
    """Adversarial pictures, in the shape of the originals; a picture that withstood every attack is unchanged."""
    robust: Tensor
    """[N]: which were classified correctly before and after every attack."""
    tests: int
    """In how many tests a robust picture was classified correctly, each with its own random start; 1 for a function."""
    version: Version
    warnings: tuple[str, ...]
    """What AutoAttack itself finds suspicious about the model."""


def autoattack(
    model: Attackable,
    images: Tensor,
    labels: Tensor,
    *,
    version: Version,
    epsilon: float = EPSILON,
    eot: int = EOT,
    queries: int = QUERIES,
    seed: int = 0,
    batch_size: int = 250,
) -> AutoAttacked:
    """Attack pictures [N, 3, H, W] from 0 to 1, on the model's device, within the ℓ∞ ball of size ε.

    eot: number of starts over which a gradient is averaged (rand). queries: number of Square's queries (square and
    standard).
    """
    check_epsilon(epsilon)
    if version not in ("rand", "standard", "square"):
        raise AkornError(f"AutoAttack's version is {version!r}, expected rand, standard or square")
    if eot < 1 or queries < 1:
        raise AkornError(f"eot and queries must be at least 1, got {eot} and {queries}")
    if version == "standard" and model.random_start:
        raise AkornError("AutoAttack's standard version needs a model whose start is fixed: model.fix_start(seed)")
    package = _package()
    function = _Drawing(model, torch.Generator(images.device).manual_seed(derive_seed(seed, "autoattack", version)))
    options: dict[str, Any] = {"norm": "Linf", "eps": epsilon, "device": images.device, "seed": seed % 2**32}
    if version == "square":
        options |= {"version": "custom", "attacks": ["square"]}
    else:
        options["version"] = version
    told: list[str] = []
    with _listening(told), randomness.undisturbed(images.device), torch.no_grad():
        attack = package.AutoAttack(function, **options)
        if version == "rand":
            attack.apgd.eot_iter = eot
        attack.square.n_queries = queries
        adversarial, answers = attack.run_standard_evaluation(images, labels, batch_size=batch_size)
    tests = 1 + len(attack.attacks_to_run) if model.random_start else 1
    return AutoAttacked(adversarial, answers == labels, tests, version, tuple(dict.fromkeys(told)))


def _package() -> Any:
    try:
        return import_module("pyautoattack")
    except ImportError as error:
        raise AkornError(
            f"AutoAttack and Square need a package that is not installed: pip install 'akorn[attacks]' ({error})"
        ) from error


class _Drawing(nn.Module):
    """The model as a function of pictures alone, with new random starts at every call.

    Without gradients cuDNN does not search for its fastest algorithms: Square asks about fewer and fewer pictures, and
    each new number of them would start a new search for every convolution, which takes longer than thousands of
    queries.
    """

    def __init__(self, model: Attackable, generator: torch.Generator) -> None:
        super().__init__()
        self.model, self.generator = model, generator

    def forward(self, images: Tensor) -> Tensor:
        search = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = search and torch.is_grad_enabled()
        try:
            return self.model(images, self.generator)
        finally:
            torch.backends.cudnn.benchmark = search


@contextmanager
def _listening(told: list[str]) -> Iterator[None]:
    """Gather the warnings of AutoAttack's logger instead of printing them."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logger, handler = logging.getLogger("auto-attack"), Handler(logging.WARNING)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
