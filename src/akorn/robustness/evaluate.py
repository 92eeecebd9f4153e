"""Scores of a CIFAR model: accuracy and calibration, on clean, noisy and attacked pictures.

Accuracies are in percent. A model with a random start is run `starts` times, and its answer is the mean of the
probabilities; every score says how many starts it used. All randomness follows from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from akorn.augment import image_batch
from akorn.errors import AkornError
from akorn.robustness.attacks import FGSM, PGD, Attackable
from akorn.robustness.calibration import Reliability, reliability
from akorn.robustness.protocol import NOISE
from akorn.robustness.random_noise import NoiseName, random_noise
from akorn.runtime.precision import numerics
from akorn.runtime.randomness import derive_seed

Precision = Literal["float32", "tf32", "bf16"]
Progress = Callable[[int, int], None]
"""(done, total)"""


@dataclass(frozen=True)
class EvalSettings:
    """How a model is evaluated."""

    starts: int = 1
    """Random starts K whose probabilities are averaged."""
    seed: int = 0
    batch_size: int = 500
    precision: Precision = "float32"
    """float32 unless speed matters more: an attack should see the gradient as it is."""

    def __post_init__(self) -> None:
        for name in ("starts", "batch_size"):
            if getattr(self, name) < 1:
                raise AkornError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Score:
    """How a model did on some pictures."""

    probabilities: Tensor
    """[N, classes], averaged over the starts."""
    labels: Tensor
    starts: int
    """The number of starts behind each prediction; 1 for a model without a random start."""

    @property
    def correct(self) -> Tensor:
        """[N]: which answers are right."""
        return self.probabilities.argmax(1) == self.labels

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100.0 * float(self.correct.double().mean())

    @property
    def reliability(self) -> Reliability:
        """The predictions by confidence."""
        return reliability(self.probabilities, self.labels)

    @property
    def ece(self) -> float:
        """Expected calibration error in percent."""
        return self.reliability.ece

    def as_json(self) -> dict[str, float | int]:
        """The figures as JSON values."""
        return {"accuracy": self.accuracy, "ece": self.ece, "pictures": len(self.labels), "starts": self.starts}


Change = Callable[[Tensor, Tensor, torch.Generator], Tensor]
"""(pictures from 0 to 1, labels, generator) → the pictures as the model gets them."""
Perturb = Callable[[Any, Tensor, Tensor, torch.Generator], Tensor]
"""An attack, such as PGD: (model, pictures from 0 to 1, labels, generator) → adversarial pictures."""


@torch.no_grad()
def score(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: EvalSettings | None = None,
    *,
    change: Change | None = None,
    purpose: str = "clean",
    progress: Progress | None = None,
    search: bool = False,
) -> Score:
    """Run a model on pictures [N, 3, H, W], bytes or floats from 0 to 1, and compare its answers with the labels [N].

    change: what is done to each batch first, noise or an attack. purpose: names the stream of random numbers. search:
    let cuDNN look for its fastest algorithms.
    """
    settings = settings if settings is not None else EvalSettings()
    check_pictures(images, labels)
    device = next(model.parameters()).device
    draws = torch.Generator(device).manual_seed(derive_seed(settings.seed, purpose, "change"))
    found = []
    with asked(model, settings.precision, search=search):
        starts = settings.starts if is_random(model) else 1
        generator = torch.Generator(device).manual_seed(derive_seed(settings.seed, purpose, "starts"))
        for begin in range(0, len(images), settings.batch_size):
            batch = as_float(images[begin : begin + settings.batch_size].to(device))
            if change is not None:
                batch = change(batch, labels[begin : begin + settings.batch_size].to(device), draws)
            found.append(probabilities(model, batch, starts, generator).cpu())
            if progress is not None:
                progress(min(begin + settings.batch_size, len(images)), len(images))
    return Score(torch.cat(found), labels.cpu(), starts)


def probabilities(model: Attackable | nn.Module, images: Tensor, starts: int, generator: torch.Generator) -> Tensor:
    """[B, classes], the mean over `starts` random starts."""
    total = model(images, generator).float().softmax(1)
    for _ in range(starts - 1):
        total = total + model(images, generator).float().softmax(1)
    return total / starts


def noisy_score(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: EvalSettings | None = None,
    *,
    epsilon: float = NOISE,
    kind: NoiseName = "sign",
    progress: Progress | None = None,
) -> Score:
    """The score on pictures with random noise, ±64/255 on every value (Figure 8)."""

    def change(batch: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        return random_noise(batch, epsilon, generator, kind)

    return score(model, images, labels, settings, change=change, purpose=f"noise-{kind}", progress=progress)


def attacked_score(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    attack: Perturb,
    settings: EvalSettings | None = None,
    *,
    source: nn.Module | None = None,
    keep: list[Tensor] | None = None,
    progress: Progress | None = None,
) -> Score:
    """The score on adversarial pictures, made for this model, or for `source` and transferred.

    The pictures are scored with starts that the attack has not seen. keep: a list to which the adversarial pictures of
    each batch are appended.
    """
    settings = settings if settings is not None else EvalSettings()
    victim = source if source is not None else model
    if isinstance(attack, PGD | FGSM) and attack.at_once is None:
        attack = replace(attack, at_once=settings.batch_size)

    def change(batch: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        adversarial = attack(victim, batch, labels, generator)  # type: ignore[arg-type]  # a module with random_start
        if keep is not None:
            keep.append(adversarial.cpu())
        return adversarial

    with asked(victim, settings.precision, search=True):
        return score(model, images, labels, settings, change=change, purpose="attack", progress=progress, search=True)


def sample(count: int, limit: int | None, seed: int) -> Tensor:
    """Which of `count` pictures are scored: all, or `limit` drawn at random by the seed, in order."""
    if limit is not None and limit < 1:
        raise AkornError(f"limit must be at least 1, got {limit}")
    if limit is None or limit >= count:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(derive_seed(seed, "sample"))
    return torch.randperm(count, generator=generator)[:limit].sort().values


def as_float(images: Tensor) -> Tensor:
    """[B, 3, H, W] in float32 from 0 to 1: bytes are divided by 255, floats of any precision keep their values."""
    return image_batch.as_float(images).float()


def check_pictures(images: Tensor, labels: Tensor) -> None:
    """ValueError unless these are pictures, each with a label."""
    if images.ndim != 4 or images.shape[1] != 3 or labels.shape != images.shape[:1] or not len(images):
        raise ValueError(
            f"expected pictures [N, 3, H, W] and labels [N], got {list(images.shape)} and {list(labels.shape)}"
        )


def is_random(model: nn.Module) -> bool:
    """Whether the model draws a random start."""
    return bool(getattr(model, "random_start", False))


@contextmanager
def asked(model: nn.Module, precision: Precision = "float32", *, search: bool = False) -> Iterator[None]:
    """Inside the context, the model is in eval mode and its weights need no gradients; afterwards it is as before.

    search: let cuDNN look for its fastest algorithms, which pays off if the same shapes occur often, as in attacks.
    """
    training = model.training
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    device = next(model.parameters()).device
    tensor_cores = device.type == "cuda" and precision != "float32"
    model.eval()
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        with (
            numerics(precision, autocast=device, search=search),
            channels_last(model) if tensor_cores else nullcontext(),
        ):
            yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
        model.train(training)


@contextmanager
def channels_last(model: nn.Module) -> Iterator[None]:
    """Inside the context, the model's kernels have channels last in memory, as tensor cores want; then they are
    restored.

    Afterwards they are the very same arrays as before, since optimisers and CUDA graphs know them by their place in
    memory.
    """
    before = [(parameter, parameter.data) for parameter in model.parameters() if parameter.ndim == 4]
    for parameter, data in before:
        parameter.data = data.contiguous(memory_format=torch.channels_last)
    try:
        yield
    finally:
        for parameter, data in before:
            parameter.data = data


@contextmanager
def fixed_start(model: nn.Module, seed: int) -> Iterator[None]:
    """The model with the one start that `seed` draws; a model without a random start as it is."""
    if not is_random(model):
        yield
        return
    if not hasattr(model, "fix_start"):
        raise ValueError(f"{type(model).__name__} draws random starts, and has no fix_start(seed) to fix one")
    model.fix_start(seed)  # type: ignore[operator]
    try:
        yield
    finally:
        model.fix_start(None)  # type: ignore[operator]
