"""Classifiers as programs: pictures, and noise where the model starts at random, in; probabilities and energies out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.export.program import BATCH, ENERGIES, Part, Port, Program, on_sphere
from akorn.hub import HubModel
from akorn.robustness.config import SIDE
from akorn.robustness.model import AkornNet
from akorn.robustness.net import CifarNet


def program(model: HubModel, steps: int | None = None) -> Program:
    """All steps of all blocks: pixels, noise0 → probabilities, energies, confidence."""
    if not isinstance(model, CifarNet) or model.config.head != "classes":
        raise AkornError("a model with SimCLR's head gives no answers yet: only classifiers can be exported")
    if steps is not None:
        raise AkornError(f"--steps {steps}: a classifier runs as many steps as in training, expected no --steps")
    each = model.config.steps if isinstance(model, AkornNet) else ()
    side = model.config.size if isinstance(model, AkornNet) else SIDE
    inputs = [Port("pixels", "float32", (BATCH, 3, side, side), "pictures, values from 0 to 1")]
    if isinstance(model, AkornNet) and isinstance(model.start, akn.RandomStart):
        shape = (BATCH, model.config.channels[0], side, side)
        inputs.append(Port("noise0", "float32", shape, "normal noise: where the oscillators of the first block start"))
    outputs = [
        Port("probabilities", "float32", (BATCH, model.config.classes), "of the classes; means over noise are best"),
        Port("confidence", "float32", (BATCH,), "the highest probability"),
    ]
    if _has_energies(model):
        about = "Eq. 3 before each step, block after block"
        outputs.insert(1, Port(ENERGIES, "float32", (BATCH, sum(each)), about))
    takes, gives = (tuple(port.name for port in ports) for ports in (inputs, outputs))
    return Program(inputs, outputs, [Part(_Whole(model), takes, gives)], sum(each))


def _has_energies(model: CifarNet) -> bool:
    """Whether C drives the oscillators of blocks that are one stack."""
    return isinstance(model, AkornNet) and isinstance(model.body, akn.KuramotoStack)


class _Whole(nn.Module):
    """The classifier with its start as an argument."""

    def __init__(self, model: CifarNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        """[B, 3, H, W] and [B, C, H, W] → probabilities [B, classes], energies [B, steps], confidence [B]."""
        model = self.model
        if not isinstance(model, AkornNet) or not isinstance(model.body, akn.KuramotoStack):
            chance = model(pixels).softmax(-1)
            return chance, chance.amax(-1)
        c = model.stem(2 * pixels - 1)
        x = on_sphere(noise, model.config.n) if noise is not None else model.start(c, None)  # type: ignore[misc]
        evolutions, c = model.body.evolve(x, c, model.config.steps, energy=osc.energy)
        energies = [evolution.energies.T for evolution in evolutions if evolution.energies is not None]  # [B, T] each
        chance = model.head(c.mean((2, 3))).softmax(-1)
        return chance, torch.cat(energies, 1), chance.amax(-1)
