"""Where the oscillators start: from C, learned, random, or a mixture.

A start maps the first stimuli C to the first state X of the same shape, on the sphere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.execution.ops import per_channel, to_sphere


class Start(nn.Module):
    """The interface: C (and a generator for random starts) → X."""

    def __init__(self, n: int) -> None:
        super().__init__()
        osc.check_grouping(n, n)
        self.n = n

    def forward(self, c: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The first state: Π of what `draw` returns."""
        return to_sphere(self.draw(c, generator), self.n)

    def draw(self, c: Tensor, generator: torch.Generator | None) -> Tensor:
        """A state in the shape of c, not yet normalised: by default c itself."""
        return c

    def extra_repr(self) -> str:
        """What print() shows of the start."""
        return f"n={self.n}"


class FromStimulus(Start):
    """xᵢ = cᵢ / ‖cᵢ‖."""


class RandomStart(Start):
    """Uniform on the sphere."""

    def draw(self, c: Tensor, generator: torch.Generator | None) -> Tensor:
        """Normal numbers, whose directions are uniform."""
        return torch.randn(c.shape, generator=generator, device=c.device, dtype=c.dtype)


class LearnedStart(Start):
    """One learned direction per oscillator, the same at every position and in every sample."""

    def __init__(self, n: int, channels: int) -> None:
        super().__init__(n)
        osc.check_grouping(channels, n)
        self.embedding = nn.Parameter(torch.randn(channels))

    def draw(self, c: Tensor, generator: torch.Generator | None) -> Tensor:
        """The learned directions at every position."""
        return per_channel(self.embedding, c).to(c.dtype).expand_as(c)

    def extra_repr(self) -> str:
        """What print() shows of the start."""
        return f"n={self.n}, channels={len(self.embedding)}"


class MixedStart(Start):
    """One start where a mask is True, another elsewhere; for Sudoku, C on the givens and random on the blanks.

    Args:
        inside: the start where the mask is True.
        outside: the start where it is False.

    """

    def __init__(self, inside: Start, outside: Start) -> None:
        super().__init__(inside.n)
        if outside.n != inside.n:
            raise ValueError(f"the two starts have n={inside.n} and n={outside.n}")
        self.inside = inside
        self.outside = outside

    def forward(self, c: Tensor, generator: torch.Generator | None = None, mask: Tensor | None = None) -> Tensor:
        """mask: [B, tokens] or [B, H, W], boolean; required."""
        positions = c.shape[:1] + (c.shape[1:-1] if osc.channel_axis(c) == -1 else c.shape[2:])
        if mask is None or mask.dtype != torch.bool or mask.shape != positions:
            got = "none" if mask is None else f"{mask.dtype} {list(mask.shape)}"
            raise ValueError(f"a mixed start needs a boolean mask of shape {list(positions)}, got {got}")
        chosen = mask.unsqueeze(osc.channel_axis(c))
        return torch.where(chosen, self.inside(c, generator), self.outside(c, generator))
