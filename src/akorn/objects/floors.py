"""What any method must beat, scored by the same protocol: colours, colours and places, a grid of blocks.

    akorn eval floor:colours --data voc

They have no weights and learn nothing. A network that was never trained is a floor too: `akorn eval untrained:RECIPE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.registry import unknown

NAMES = ("blocks", "colours", "colours-and-places")


@dataclass(frozen=True)
class FloorConfig:
    """What the evaluation needs to know: pictures and patches are those of the models for photographs."""

    name: str
    patch: int = 4
    image_size: int = 64
    image_channels: int = 3
    channels: int = 6


class Floor(nn.Module):
    """Features of patches that are not learned: [B, K, h, w] of pictures [B, 3, H, W] in 0–1."""

    def __init__(self, name: str) -> None:
        super().__init__()
        if name not in NAMES:
            raise AkornError(unknown("floor", name, NAMES))
        self.config = FloorConfig(name)
        self.clusters = 4
        """How many blocks there are, if it is a grid of blocks."""
        self.unit = nn.Parameter(torch.ones(()), requires_grad=False)  # has the device

    def features(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """A patch's mean colours, its colours and its place, or its block."""
        seen = F.avg_pool2d(images, self.config.patch)  # [B, 3, h, w]
        if self.config.name == "blocks":
            return blocks(self.clusters, seen.shape[2], seen.shape[3], seen.device).expand(len(seen), -1, -1, -1)
        if self.config.name == "colours-and-places":
            rows, columns = (torch.linspace(0, 1, side, device=seen.device) for side in seen.shape[2:])
            place = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(len(seen), -1, -1, -1)
            seen = torch.cat((seen, place), 1)
        # On a quarter of a circle: features are normalised before they are clustered, which would lose the brightness.
        angle = seen * (math.pi / 2)
        return torch.cat((angle.cos(), angle.sin()), 1)


def blocks(count: int, height: int, width: int, device: torch.device | None = None) -> Tensor:
    """One-hot [1, count, h, w]: a grid of this many blocks, in rows of nearly equal length (7 are 3, 2, 2)."""
    lines = max(1, round(math.sqrt(count)))
    label = torch.zeros(height, width, dtype=torch.long, device=device)
    first = 0
    for line in range(lines):
        across = count // lines + (line < count % lines)
        top, bottom = line * height // lines, (line + 1) * height // lines
        label[top:bottom] = first + torch.arange(width, device=device) * across // width
        first += across
    return (label == torch.arange(count, device=device)[:, None, None])[None].float()
