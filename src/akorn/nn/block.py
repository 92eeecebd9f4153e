"""Blocks of a Kuramoto layer and a readout, and stacks of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.nn.checks import whole_steps
from akorn.nn.convolution import Conv2d
from akorn.nn.kuramoto import EnergyFunction, Evolution, KuramotoLayer
from akorn.nn.norm import GroupNorm


class KuramotoBlock(nn.Module):
    """One block: X ← T steps of the layer driven by C, then C ← readout(X)."""

    def __init__(self, layer: KuramotoLayer, readout: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.readout = readout

    def forward(self, x: Tensor, c: Tensor, steps: int, *, on_sphere: bool = False) -> tuple[Tensor, Tensor]:
        """{X, C} of the previous block → {X, C} of this one. on_sphere: asserts that X is already normalised."""
        # Passed only if true: a custom layer need not have this argument.
        x = self.layer(x, c, steps, on_sphere=True) if on_sphere else self.layer(x, c, steps)
        return x, self.readout(x)

    def evolve(
        self,
        x: Tensor,
        c: Tensor,
        steps: int,
        *,
        energy: EnergyFunction | None = None,
        trajectory: bool = False,
        on_sphere: bool = False,
    ) -> tuple[Evolution, Tensor]:
        """`forward`, with the layer's energies and trajectory if requested."""
        evolution = self.layer.evolve(x, c, steps, energy=energy, trajectory=trajectory, on_sphere=on_sphere)
        return evolution, self.readout(evolution.x)


class Transition(nn.Module):
    """Between blocks of different width or resolution: one strided convolution maps both X and C.

    (That the two streams share it is a choice of the published models.) The next layer puts X back on the sphere.
    """

    def __init__(self, channels: int, out_channels: int, *, stride: int = 2, kernel_size: int = 3) -> None:
        super().__init__()
        self.conv = Conv2d(channels, out_channels, kernel_size, stride)

    def forward(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """[B, C, H, W] both → [B, C′, H/stride, W/stride] both."""
        return self.conv(x), self.conv(c)


class KuramotoStack(nn.Module):
    """L blocks: each passes its last state and its readout to the next.

    Args:
        blocks: the blocks, first to last.
        norms: applied to C before each block but the first, usually `GroupNorm`; None for nothing.
        transitions: map {X, C} before each block but the first, usually `Transition`; None for nothing.

    """

    def __init__(
        self,
        blocks: Sequence[KuramotoBlock],
        *,
        norms: Sequence[nn.Module] | None = None,
        transitions: Sequence[nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if not blocks:
            raise ValueError("a stack needs at least one block")
        for name, between in (("norms", norms), ("transitions", transitions)):
            if between is not None and len(between) != len(blocks) - 1:
                raise ValueError(f"{len(blocks)} blocks have {len(blocks) - 1} gaps, got {len(between)} {name}")
        self.blocks = nn.ModuleList(blocks)
        self.norms = nn.ModuleList(norms) if norms is not None else None
        self.transitions = nn.ModuleList(transitions) if transitions is not None else None

    @classmethod
    def with_group_norm(
        cls, blocks: Sequence[KuramotoBlock], *, transitions: Sequence[nn.Module] | None = None
    ) -> KuramotoStack:
        """A stack with a GroupNorm on C between the blocks, one group per oscillator of the previous block."""
        norms = []
        for block in blocks[:-1]:
            channels = getattr(block.readout, "out_channels", block.layer.channels)
            osc.check_grouping(channels, block.layer.n)
            norms.append(GroupNorm(channels // block.layer.n, channels))
        return cls(blocks, norms=norms, transitions=transitions)

    def forward(self, x: Tensor, c: Tensor, steps: int | Sequence[int]) -> tuple[Tensor, Tensor]:
        """{X⁰, C⁰} → {X^L, C^L}; steps: one number for all blocks or one for each."""
        return self._run(x, c, steps, lambda block, *given, **promise: block(*given, **promise))

    def evolve(
        self,
        x: Tensor,
        c: Tensor,
        steps: int | Sequence[int],
        *,
        energy: EnergyFunction | None = None,
        trajectory: bool = False,
    ) -> tuple[list[Evolution], Tensor]:
        """`forward` with all details: each block's `evolve`, first to last, and C^L."""
        evolutions: list[Evolution] = []

        def run(block: KuramotoBlock, *given: Any, **promise: Any) -> tuple[Tensor, Tensor]:
            evolution, c = block.evolve(*given, energy=energy, trajectory=trajectory, **promise)
            evolutions.append(evolution)
            return evolution.x, c

        _, c = self._run(x, c, steps, run)
        return evolutions, c

    def _run(
        self, x: Tensor, c: Tensor, steps: int | Sequence[int], run: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Apply the blocks in order, each by run(block, x, c, steps), and what is between them."""
        each = list(steps) if isinstance(steps, Sequence) else [whole_steps(steps)] * len(self.blocks)
        if len(each) != len(self.blocks):
            raise ValueError(f"{len(self.blocks)} blocks need as many numbers of steps, got {len(each)}")
        for index, (block, count) in enumerate(zip(self.blocks, each, strict=True)):
            if index and self.norms is not None:
                c = self.norms[index - 1](c)
            if index and self.transitions is not None:
                x, c = self.transitions[index - 1](x, c)
            promise = {"on_sphere": True} if index and self._hands_on(index - 1) else {}
            x, c = run(block, x, c, count, **promise)
        return x, c

    def _hands_on(self, index: int) -> bool:
        """Whether the state after a block is already normalised for the next one."""
        blocks = [cast(KuramotoBlock, self.blocks[i]) for i in (index, index + 1)]
        before, after = (block.layer for block in blocks)
        return (
            self.transitions is None
            and before.rule.on_sphere
            and after.rule.on_sphere  # otherwise it may not start on the sphere
            and before.n == after.n
            and all(_leaves_alone(part) for part in (*blocks, before, after))
        )


def _leaves_alone(part: nn.Module) -> bool:
    """Whether no subclass or hook can change the state between two layers."""
    return type(part) in (KuramotoBlock, KuramotoLayer) and not (part._forward_hooks or part._forward_pre_hooks)
