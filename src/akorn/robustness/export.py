"""Classifiers as programs: pictures, and noise where the model starts at random, in; probabilities out."""

from __future__ import annotations

from torch import Tensor, nn

from akorn import nn as akn
from akorn.errors import AkornError
from akorn.export.program import BATCH, Part, Port, Program, on_sphere
from akorn.hub import HubModel
from akorn.robustness.config import SIDE
from akorn.robustness.model import AkornNet
from akorn.robustness.net import CifarNet


def program(model: HubModel, steps: int | None = None) -> Program:
    """All steps of all blocks: pixels, noise0 → probabilities, confidence."""
    if not isinstance(model, CifarNet) or model.config.head != "classes":
        raise AkornError("a model with SimCLR's head answers nothing yet: only classifiers leave as a graph")
    if steps is not None:
        raise AkornError(f"--steps {steps}: the steps of a classifier are as it was trained, expected none")
    each = model.config.steps if isinstance(model, AkornNet) else ()
    side = model.config.size if isinstance(model, AkornNet) else SIDE
    inputs = [Port("pixels", "float32", (BATCH, 3, side, side), "pictures, values from 0 to 1")]
    if isinstance(model, AkornNet) and isinstance(model.start, akn.RandomStart):
        shape = (BATCH, model.config.channels[0], side, side)
        inputs.append(Port("noise0", "float32", shape, "normal noise: where the oscillators of the first block start"))
    return Program(
        inputs,
        [
            Port(
                "probabilities", "float32", (BATCH, model.config.classes), "of the classes; means over noise are best"
            ),
            Port("confidence", "float32", (BATCH,), "the highest probability"),
        ],
        [Part(_Whole(model), tuple(port.name for port in inputs), ("probabilities", "confidence"))],
        sum(each),
    )


class _Whole(nn.Module):
    """The classifier with its start as an argument."""

    def __init__(self, model: CifarNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[B, 3, H, W] and [B, C, H, W] → probabilities [B, classes] and confidence [B]."""
        if noise is None or not isinstance(self.model, AkornNet):
            logits = self.model(pixels)
        else:
            c = self.model.stem(2 * pixels - 1)
            c = self.model.body(on_sphere(noise, self.model.config.n), c, self.model.config.steps)[1]
            logits = self.model.head(c.mean((2, 3)))
        chance = logits.softmax(-1)
        return chance, chance.amax(-1)
