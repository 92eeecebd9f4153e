"""Object-discovery models as programs: pictures and noise in, the features that are clustered and the energies out."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from akorn import nn as akn
from akorn.errors import AkornError
from akorn.export.program import BATCH, ENERGIES, ENERGY, OneStep, Part, Port, Program, driven, on_sphere
from akorn.hub import HubModel
from akorn.nn.checks import whole_steps
from akorn.objects.model import AkornConvObjects, AkornObjects
from akorn.objects.net import as_picture, as_tokens


def program(model: HubModel, steps: int | None = None) -> Program:
    """All blocks, `steps` steps each (by default those of training): pixels, noise0 → features, energies."""
    if not isinstance(model, AkornObjects | AkornConvObjects):
        raise AkornError(f"{model.architecture} has no oscillators: only akorn models can be exported")
    config = model.config
    blocks = cast("list[akn.KuramotoBlock]", list(model.blocks))
    if not all(block.layer.rule.on_sphere for block in blocks):
        raise AkornError(f"the rule {config.rule} leaves the sphere: only models that stay on it can be exported")
    count = config.steps if steps is None else whole_steps(steps)
    height, width = model.grid
    channels, side = config.channels, config.image_size
    tokens = isinstance(model, AkornObjects)
    start: tuple[str | int, ...] = (BATCH, height * width, channels) if tokens else (BATCH, channels, height, width)
    parts = [Part(_Begin(model), ("pixels", "noise0"), ("x", "drive"))]
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        parts.append(Part(OneStep(block.layer), ("x", "drive"), ("x", ENERGY), count))
        if after is not None:
            parts.append(Part(_Between(block, after), ("x",), ("drive",)))
    parts.append(Part(_End(blocks[-1], model.grid), ("x",), ("features",)))
    return Program(
        [
            Port("pixels", "float32", (BATCH, config.image_channels, side, side), "pictures, values from 0 to 1"),
            Port("noise0", "float32", start, "normal noise: where the oscillators start"),
        ],
        [
            Port("features", "float32", (BATCH, channels, height, width), "what is clustered: C of the last block"),
            Port(ENERGIES, "float32", (BATCH, count * len(blocks)), "Eq. 3 before each step, block after block"),
        ],
        parts,
        count * len(blocks),
    )


class _Begin(nn.Module):
    """Patches, and noise on the sphere."""

    def __init__(self, model: AkornObjects | AkornConvObjects) -> None:
        super().__init__()
        self.patches, self.n = model.patches, model.config.n
        self.tokens = isinstance(model, AkornObjects)
        self.place = model.place if isinstance(model, AkornObjects) else None
        self.layer = cast(akn.KuramotoBlock, model.blocks[0]).layer

    def forward(self, pixels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """[B, image channels, H, W] and [B, h·w, C] or [B, C, h, w] → x and the first drive, like the noise."""
        c = self.patches(2 * pixels - 1)  # [B, C, h, w]
        c = as_tokens(c) if self.tokens else c
        c = c if self.place is None else self.place(c)
        return on_sphere(noise, self.n), driven(self.layer, c)


class _Between(nn.Module):
    """The readout of a block drives the next one."""

    def __init__(self, before: akn.KuramotoBlock, after: akn.KuramotoBlock) -> None:
        super().__init__()
        self.readout, self.layer = before.readout, after.layer

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """x → the next block's drive."""
        return (driven(self.layer, self.readout(x)),)


class _End(nn.Module):
    """The last block's readout, as a picture."""

    def __init__(self, block: akn.KuramotoBlock, grid: tuple[int, int]) -> None:
        super().__init__()
        self.readout, self.grid = block.readout, grid

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """x → [B, C, h, w]."""
        return (as_picture(self.readout(x), self.grid),)
