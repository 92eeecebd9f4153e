"""FGSM and PGD within an ℓ∞ ball, with gradients averaged over random starts (EoT), and what all attacks share.

Pictures are [B, 3, H, W] from 0 to 1. A model that draws a random start is not a single function: its gradient at one
start says little about the next. Expectation over transformation (Athalye et al.) follows the mean of the gradients
over `eot` starts, drawn anew in every step; `start_agreement` measures whether that many are enough. Models without a
random start need only one. Where there are few pictures, several starts of each run at once: `at_once` limits how many
pictures that may be.

A loss may also be rough: its gradient is valid over less than a grey level (`gradient_agreement`) and says little. With
`noise`, PGD climbs the loss averaged over noisy pictures instead, whose gradient is the mean of nearby gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.errors import AkornError
from akorn.robustness.protocol import EOT, EPSILON, STEPS

LossName = Literal["cross-entropy", "margin"]


class Attackable(Protocol):
    """A classifier that maps pictures to logits; it draws its random starts, if any, from a generator."""

    @property
    def random_start(self) -> bool:
        """Whether two calls with the same pictures may differ."""
        ...

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Any:
        """Logits [B, classes]."""
        ...


@dataclass(frozen=True)
class PGD:
    """Projected gradient descent in the ℓ∞ ball: x ← Π_ε[x + α sign(mean over starts of ∇loss)].

    Every picture keeps the point with the highest loss found so far, averaged over starts.
    """

    epsilon: float = EPSILON
    steps: int = STEPS
    eot: int = EOT
    """Starts over which a gradient is averaged; models without a random start use one."""
    step_size: float | None = None
    """α; by default 2.5 ε / steps, at most ε."""
    restarts: int = 1
    """Number of random points in the ball to begin from, one after another."""
    loss: LossName = "cross-entropy"
    at_once: int | None = None
    """Pictures that run at once, each counted once per start; all pictures of the attack, with one start, always do."""
    noise: float = 0.0
    """σ of the Gaussian noise added to the pictures for each gradient, drawn anew for every start; 0 for none."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 0 <= self.noise < float("inf"):
            raise AkornError(f"the attack's noise must be at least 0, got {self.noise}")
        for name in ("steps", "eot", "restarts"):
            if getattr(self, name) < 1:
                raise AkornError(f"{name} of the attack must be at least 1, got {getattr(self, name)}")
        if self.step_size is not None and not 0 < self.step_size < float("inf"):
            raise AkornError(f"the attack's step size must be above 0, got {self.step_size}")
        _check_loss(self.loss)

    def __call__(self, model: Attackable, images: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Adversarial pictures in the shape of `images`; the generator draws first points and starts."""
        alpha = self.step_size if self.step_size is not None else min(self.epsilon, 2.5 * self.epsilon / self.steps)
        low, high = (images - self.epsilon).clamp(0, 1), (images + self.epsilon).clamp(0, 1)
        best = images.clone()
        highest = torch.full((len(images),), float("-inf"), device=images.device)

        def keep(point: Tensor, loss: Tensor) -> None:
            nonlocal best, highest
            higher = loss > highest  # NaN never is
            best = torch.where(higher[:, None, None, None], point, best)
            highest = torch.where(higher, loss, highest)

        for _ in range(self.restarts):
            place = torch.rand(images.shape, generator=generator, device=images.device, dtype=images.dtype)
            x = low + (high - low) * place
            for _ in range(self.steps):
                gradient, loss = loss_gradient(
                    model, x, labels, self.eot, generator, self.loss, self.at_once, self.noise
                )
                keep(x, loss)
                x = (x + alpha * gradient.sign()).clamp(low, high)
            keep(x, mean_loss(model, x, labels, self.eot, generator, self.loss, self.at_once, self.noise))
        return best


@dataclass(frozen=True)
class FGSM:
    """x + ε sign(mean over starts of ∇loss): one step, as far as ε allows."""

    epsilon: float = EPSILON
    eot: int = EOT
    loss: LossName = "cross-entropy"
    at_once: int | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.eot < 1:
            raise AkornError(f"eot of the attack must be at least 1, got {self.eot}")
        _check_loss(self.loss)

    def __call__(self, model: Attackable, images: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Adversarial pictures in the shape of `images`."""
        gradient, _ = loss_gradient(model, images, labels, self.eot, generator, self.loss, self.at_once)
        return (images + self.epsilon * gradient.sign()).clamp(0, 1)


def loss_gradient(
    model: Attackable,
    images: Tensor,
    labels: Tensor,
    eot: int,
    generator: torch.Generator | None,
    loss: LossName = "cross-entropy",
    at_once: int | None = None,
    noise: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The gradient of each picture's loss and the loss [B], both averaged over `eot` random starts and noisy copies."""
    eot = eot if model.random_start or noise else 1
    gradient = torch.zeros_like(images)
    total = torch.zeros(len(images), device=images.device)
    for starts in _shares(eot, len(images), at_once):
        with torch.enable_grad():
            x = _copies(images.detach(), starts, noise, generator).requires_grad_()
            each = per_picture(model(x, generator), labels.repeat(starts), loss)
            found = torch.autograd.grad(each.sum(), x)[0]
        gradient += found.unflatten(0, (starts, -1)).sum(0)
        total += each.detach().unflatten(0, (starts, -1)).sum(0)
    return gradient / eot, total / eot


@torch.no_grad()
def mean_loss(
    model: Attackable,
    images: Tensor,
    labels: Tensor,
    eot: int,
    generator: torch.Generator | None,
    loss: LossName = "cross-entropy",
    at_once: int | None = None,
    noise: float = 0.0,
) -> Tensor:
    """Each picture's loss, averaged over `eot` random starts and noisy copies: [B]."""
    eot = eot if model.random_start or noise else 1
    found = [
        per_picture(model(_copies(images, starts, noise, generator), generator), labels.repeat(starts), loss)
        for starts in _shares(eot, len(images), at_once)
    ]
    return torch.cat(found).unflatten(0, (eot, -1)).mean(0)


def gradient_agreement(
    model: Attackable,
    images: Tensor,
    labels: Tensor,
    eot: int,
    generator: torch.Generator,
    at_once: int | None = None,
    distance: float = 0.25 / 255,
) -> Tensor:
    """The cosine between the gradients at each picture and `distance` away in every pixel: [B], 0 without gradient.

    By default that is a quarter of a grey level. Both are gradients of the margin, with the same random starts. For a
    smooth loss the cosine is nearly 1; the smaller it is, the less a gradient says about the next step.
    """
    signs = torch.rand(images.shape, generator=generator, device=images.device).sub(0.5).sign()
    starts = generator.get_state()
    # The margin: cross-entropy has almost no gradient where the model is certain.
    here = loss_gradient(model, images, labels, eot, generator, "margin", at_once)[0].flatten(1)
    generator.set_state(starts)
    there = loss_gradient(model, images + distance * signs, labels, eot, generator, "margin", at_once)[0].flatten(1)
    return F.cosine_similarity(here, there, 1)


def start_agreement(
    model: Attackable,
    images: Tensor,
    labels: Tensor,
    eot: int,
    generator: torch.Generator,
    at_once: int | None = None,
) -> Tensor:
    """The cosine between two gradients at each picture, each averaged over its own `eot` starts: [B].

    With one start each, it says how much of a gradient comes from the picture and not from the start. With as many as
    an attack averages, it says whether those are enough: near 0, each step of the attack goes in another direction.
    """
    one, other = (
        loss_gradient(model, images, labels, eot, generator, "margin", at_once)[0].flatten(1) for _ in range(2)
    )
    return F.cosine_similarity(one, other, 1)


def _copies(images: Tensor, count: int, noise: float, generator: torch.Generator | None) -> Tensor:
    """Every picture `count` times, [count · B, 3, H, W], each copy with its own noise."""
    x = images.repeat(count, 1, 1, 1)
    if noise:
        x = x + noise * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return x


def _shares(eot: int, pictures: int, at_once: int | None) -> list[int]:
    """How many starts run at once, one number per pass: nearly equal, since cuDNN searches anew for each size."""
    most = max(1, min(eot, (at_once or 0) // max(1, pictures)))
    passes = -(-eot // most)
    return [eot // passes + (place < eot % passes) for place in range(passes)]


def per_picture(logits: Tensor, labels: Tensor, loss: LossName) -> Tensor:
    """The loss of each picture, [B]: cross-entropy, or the highest other logit minus the correct one."""
    if loss == "cross-entropy":
        return F.cross_entropy(logits, labels, reduction="none")
    right = F.one_hot(labels, logits.shape[1]).bool()
    return logits.masked_fill(right, float("-inf")).amax(1) - logits.gather(1, labels[:, None])[:, 0]


def _check_loss(loss: str) -> None:
    if loss not in ("cross-entropy", "margin"):
        raise AkornError(f"the attack's loss is {loss!r}, expected cross-entropy or margin")


def check_epsilon(epsilon: float) -> None:
    """AkornError unless ε is from 0 to 1, as the pixels are."""
    if not 0 <= epsilon <= 1:
        raise AkornError(f"epsilon must be from 0 to 1 (for pixels from 0 to 1, such as 8/255 = 0.0314), got {epsilon}")
