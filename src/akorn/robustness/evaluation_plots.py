"""The plots that an evaluation writes: adversarial pictures, and the accuracies that its checks found.

`plots.py` draws them; this module decides what is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from akorn.robustness.attack_suite import ATTACKS
from akorn.robustness.attacked import gradients
from akorn.robustness.attacks import PGD
from akorn.robustness.data import Pictures
from akorn.robustness.evaluate import EvalSettings, Score, as_float, attacked_score, score
from akorn.robustness.net import CifarNet
from akorn.robustness.protocol import NOISE, Request

SHOWN = 8  # pairs in the plot of adversarial pictures
RELIABILITY, ADVERSARIAL = "reliability.png", "adversarial.png"
PLOTS = (RELIABILITY, ADVERSARIAL, "steps.png", "epsilon.png")
"""The files that may be written to a folder for plots."""


def shown_passes(model: CifarNet, request: Request) -> tuple[int, int, int]:
    """The work behind the plot of adversarial pictures: pictures, and forward and backward passes for each."""
    starts = request.eot if model.random_start else 1
    pictures = SHOWN if request.limit is None else min(SHOWN, request.limit)
    return pictures, (request.steps + 1) * starts, request.steps * starts


def show_adversarial(model: CifarNet, part: Pictures, request: Request, settings: EvalSettings, folder: Path) -> Path:
    """Plot adversarial pictures at 64/255 beside the originals, with adaptive gradients if one of the attacks is."""
    from akorn.robustness.plots import plot_adversarial

    few = part.take(slice(SHOWN))
    kept: list[Tensor] = []
    before = score(model, few.images, few.labels, settings)
    pgd = PGD(NOISE, request.steps, request.eot)
    adaptive = any(ATTACKS[name].adaptive for name in request.attacks)
    with gradients(model, adaptive=adaptive):
        after = attacked_score(model, few.images, few.labels, pgd, settings, keep=kept)
    says, then = ([part.classes[place] for place in found.probabilities.argmax(1)] for found in (before, after))
    truth = [part.classes[place] for place in few.labels]
    how = f"PGD, {request.steps} steps" + (f", EoT {request.eot}" if model.random_start else "")
    how += ", gradients of the last Kuramoto steps alone" if adaptive else ""
    asked_of = f" from {in_words(before)}" if model.random_start else ""
    title = f"{how}, ‖ε‖∞ = 64/255\nabove each picture the model's answer{asked_of}, red where it is wrong"
    path = folder / ADVERSARIAL
    return plot_adversarial(as_float(few.images), torch.cat(kept), says, then, truth, path, title=title)


def in_words(found: Score) -> str:
    """The number of starts behind a score, in words."""
    return f"{found.starts} start{'s' if found.starts > 1 else ''}"


def show_curves(checks: list[dict[str, Any]], pictures: int | None, folder: Path) -> list[Path]:
    """Plot accuracy against the attack's steps and against ε, where the checks found them on so many pictures."""
    from akorn.robustness.plots import plot_accuracy

    written = []
    for check in checks:
        if check["name"] in ("steps", "epsilon") and check["accuracies"]:
            points = {float(label.removesuffix("/255")): value for label, value in check["accuracies"].items()}
            against = "steps of PGD" if check["name"] == "steps" else "ε (of 255)"
            path = folder / f"{check['name']}.png"
            written.append(plot_accuracy({"PGD": points}, path, against=against, log=True, pictures=pictures))
    return written
