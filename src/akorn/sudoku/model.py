"""AKOrN for Sudoku."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn._moved import with_old_names
from akorn.nn import EnergyFunction
from akorn.nn.checks import whole_steps
from akorn.nn.solve import has_fast_form
from akorn.runtime.devices import quick_bfloat16
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.net import GRID, Result, SudokuNet

if not TYPE_CHECKING:
    __getattr__ = with_old_names(__name__)


class SudokuModel(SudokuNet):
    """AKOrN for Sudoku: the embedded digits are the stimulus C, and the oscillators of the givens start there.

    The oscillators of the blanks start at random points of the sphere. After T steps of every block the readout of the
    last one gives the logits: g is a residual block of two (ReLU, linear), then ReLU and linear.
    """

    config: SudokuConfig
    random_start = True
    has_energy = True

    def __init__(self, config: SudokuConfig | None = None) -> None:
        config = config if config is not None else SudokuConfig()
        super().__init__(config)
        self.place = akn.AbsolutePosition(GRID, config.channels) if config.position == "absolute" else None
        self.start = akn.MixedStart(akn.FromStimulus(config.n), akn.RandomStart(config.n))
        self.blocks = nn.ModuleList(_block(config) for _ in range(config.blocks))
        groups = config.channels // config.n
        self.norms = nn.ModuleList(akn.GroupNorm(groups, config.channels) for _ in range(config.blocks - 1))

    def evolve(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        *,
        generator: torch.Generator | None = None,
        x0: Tensor | None = None,
        energy: EnergyFunction | None = osc.energy,
        each_step: bool = False,
    ) -> Result:
        """See `SudokuNet.evolve`."""
        x, c, steps = self.begin(puzzle, steps, generator=generator, x0=x0)
        last = cast(akn.KuramotoBlock, self.blocks[-1])
        if may_fuse(x):
            return self._solve(last, x, c, whole_steps(steps), energy, each_step)
        evolution, c = last.evolve(x, c, steps, energy=energy, trajectory=each_step, on_sphere=len(self.blocks) == 1)
        each = None
        if evolution.trajectory is not None:
            each = torch.stack([self.answer(last.readout(state)) for state in evolution.trajectory[1:]])
        return Result(self.answer(c), evolution.energies, each)

    def _solve(
        self,
        last: akn.KuramotoBlock,
        x: Tensor,
        c: Tensor,
        steps: int,
        energy: EnergyFunction | None,
        each_step: bool,
    ) -> Result:
        """The last block's steps in their fast form: all at once, or one by one with the logits after each."""
        logits, energies = [], []
        for size in [1] * steps if each_step else [steps]:
            x, values = akn.solve_steps(last.layer, x, c, size, ENERGY_NAMES[energy])
            logits.append(self.answer(last.readout(x)))
            energies.append(values)
        whole = None if energy is None else torch.cat(cast("list[Tensor]", energies))
        return Result(logits[-1], whole, torch.stack(logits) if each_step else None)

    def begin(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        *,
        generator: torch.Generator | None = None,
        x0: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, int]:
        """Where the last block begins: its first state and its stimulus, [B, 81, C] each, and T."""
        c, steps = self._stimulus(puzzle, steps)  # [B, 81, C]
        given = puzzle > 0
        if x0 is None:
            x = self.start(c, generator, given)
        else:
            x = torch.where(given[..., None], self.start.inside(c), self.start.inside(x0.to(c.dtype)))
        *first, _ = cast("list[akn.KuramotoBlock]", list(self.blocks))
        for block, norm in zip(first, self.norms, strict=True):
            x, c = block(x, c, steps)
            c = norm(c)
        return x, c, steps

    @property
    def narrow_on_cpu(self) -> bool:
        """Only if the steps take the fast form: the plain loop casts more than it gains."""
        if self.device.type != "cpu" or len(self.blocks) > 1 or not quick_bfloat16():
            return False
        return has_fast_form(cast(akn.KuramotoBlock, self.blocks[-1]).layer)

    def first_state(self, puzzle: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See `SudokuNet.first_state`."""
        c, _ = self._stimulus(puzzle, None)
        return cast(Tensor, self.start(c, generator, puzzle > 0))

    def carry_on(self, puzzle: Tensor, state: Tensor, steps: int | None = None) -> tuple[Tensor, Tensor]:
        """See `SudokuNet.carry_on`. The last block's state is carried on to the first block.

        With one block, k calls of T steps are one call of k · T steps.
        """
        c, steps = self._stimulus(puzzle, steps)
        x = state
        for number, block in enumerate(self.blocks):
            c = self.norms[number - 1](c) if number else c
            x, c = block(x, c, steps, on_sphere=True)
        return self.answer(c), x

    def on_sphere(self, state: Tensor) -> Tensor:
        """Π of a state."""
        return self.start.inside(state)

    def _stimulus(self, puzzle: Tensor, steps: int | None) -> tuple[Tensor, int]:
        """C of the first block, [B, 81, C], and T."""
        c, steps = self._embed(puzzle, steps)
        return c if self.place is None else self.place(c), steps

    def compile_step(self, **options: object) -> None:
        """Compile one Kuramoto step of each block."""
        self.compiled = True
        for block in self.blocks:
            cast(akn.KuramotoBlock, block).layer.compile_step(**options)


ENERGY_NAMES: dict[EnergyFunction | None, Literal["eq3", "published"] | None] = {
    osc.energy: "eq3",
    osc.published_energy: "published",
    None: None,
}
"""The names of energies in `akorn.nn.solve_steps`."""


def may_fuse(x: Tensor) -> bool:
    """Fused kernels are for solving: under autocast in bfloat16, and on CPUs in float32 without it."""
    if x.device.type == "cpu":
        return not torch.is_grad_enabled() and (
            not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") == torch.bfloat16
        )
    bfloat16 = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
    return x.is_cuda and bfloat16 and not torch.is_grad_enabled()


class _Residual(nn.Module):
    """m plus the result of applying ReLU and a linear map to m twice."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Linear(channels, channels)
        self.second = nn.Linear(channels, channels)

    def forward(self, m: Tensor) -> Tensor:
        return m + self.second(F.relu(self.first(F.relu(m))))


def _block(config: SudokuConfig) -> akn.KuramotoBlock:
    channels, n = config.channels, config.n
    position: akn.Position | None = None  # GTA, which comes with the grid
    if config.position in ("rotary", "learned-rotary"):
        learn = config.position == "learned-rotary"
        position = akn.RotaryPosition(GRID, channels // config.heads, learn=learn, symmetric=config.symmetric)
    coupling: nn.Module = akn.AttentionCoupling(
        channels,
        config.heads,
        grid=GRID if config.position != "absolute" else None,
        position=position,
        symmetric=config.symmetric,
    )
    if config.expansion is not None:
        coupling = akn.FeedForwardCoupling(coupling, channels, expansion=config.expansion)
    omega: nn.Module | None = None
    if config.omega:  # an odd N has no pairs: use any antisymmetric matrix, also shared
        omega = akn.NaturalFrequency(n, init=0.5) if n % 2 else akn.PairwiseFrequency(n, init=0.5)
    rules: dict[str, Callable[[], akn.UpdateRule]] = {
        "kuramoto": akn.Kuramoto,
        "without-projection": akn.WithoutProjection,
        "residual": akn.Residual,
    }
    way = akn.Recompute() if config.recompute else akn.Store()
    layer = akn.KuramotoLayer(
        channels,
        n,
        coupling,
        omega=omega,
        gamma=1.0,
        learn_gamma=True,
        damped=config.step == "damped",
        rule=rules[config.rule](),
        bias=True,
        gradients=way if config.gradient_steps is None else akn.LastSteps(config.gradient_steps, then=way),
    )
    g = nn.Sequential(_Residual(channels), nn.ReLU(), nn.Linear(channels, channels))
    return akn.KuramotoBlock(layer, akn.Readout(channels, n_out=n if config.n_out is None else config.n_out, g=g))
