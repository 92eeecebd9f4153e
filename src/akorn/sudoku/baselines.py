"""The paper's baselines for Sudoku: ItrSA, the Transformer and the Energy Transformer, with the models' interface."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

import torch
from torch import Tensor

from akorn import oscillators as osc
from akorn.baselines import EnergyTransformer, ItrSA, ItrSABlock
from akorn.errors import AkornError
from akorn.nn import EnergyFunction
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig
from akorn.sudoku.net import GRID, Result, SudokuNet


class Baseline(SudokuNet):
    """Embedding, an iterated body, and a head. If the start is not random, `generator` and `x0` have no effect."""

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
        steps = self.config.steps if steps is None else steps
        x = self.begin(puzzle, steps, generator=generator, x0=x0)
        energies: list[Tensor] = []
        each: list[Tensor] = []
        for _ in range(steps):
            if self.has_energy and energy is not None:
                energies.append(self.energy(x))
            x = self.iterate(x)
            if each_step:
                each.append(self.answer(self.finish(x)))
        return Result(
            each[-1] if each else self.answer(self.finish(x)),
            torch.stack(energies) if energies else None,
            torch.stack(each) if each else None,
        )

    def begin(
        self, puzzle: Tensor, steps: int, *, generator: torch.Generator | None = None, x0: Tensor | None = None
    ) -> Tensor:
        """The state of puzzles [B, 81] before the last block's steps, [B, 81, C]."""
        x, steps = self._embed(puzzle, steps)
        if self.random_start:
            noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype) if x0 is None else x0
            x = torch.where((puzzle > 0)[..., None], x, noise.to(x.dtype))
        return self.prepare(x, steps)

    @abstractmethod
    def prepare(self, x: Tensor, steps: int) -> Tensor:
        """The state before the last block's steps."""

    @abstractmethod
    def iterate(self, x: Tensor) -> Tensor:
        """One step of the last block."""

    @abstractmethod
    def finish(self, x: Tensor) -> Tensor:
        """What follows the last step of the last block."""

    def energy(self, x: Tensor) -> Tensor:
        """The energy of a state, [B], if the model has one."""
        raise ValueError(f"{type(self).__name__} has no energy")


class ItrSASudoku(Baseline):
    """ItrSA for Sudoku, and the Transformer (eight blocks, one step)."""

    def __init__(self, config: ItrSAConfig | None = None) -> None:
        config = config if config is not None else ItrSAConfig()
        super().__init__(config)
        self.random_start = config.start == "random"
        self.final_norm = config.final_norm
        self.body = ItrSA(
            config.channels,
            config.heads,
            grid=GRID,
            blocks=config.blocks,
            position=config.position,
            norm=config.final_norm,
            inner=config.expansion,
        )

    def prepare(self, x: Tensor, steps: int) -> Tensor:
        """Positions and all blocks but the last."""
        x = self.body.prepare(x)
        for block in self.body.blocks[:-1]:
            x = block(x, steps)
        return x

    def first_state(self, puzzle: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See `SudokuNet.first_state`."""
        if len(self.body.blocks) > 1:
            raise AkornError(f"a model of {len(self.body.blocks)} blocks has no state that can be carried on")
        return self.begin(puzzle, 1, generator=generator)

    def carry_on(self, puzzle: Tensor, state: Tensor, steps: int | None = None) -> tuple[Tensor, Tensor]:
        """See `SudokuNet.carry_on`."""
        for _ in range(self.config.steps if steps is None else steps):
            state = self.iterate(state)
        return self.answer(self.finish(state)), state

    def iterate(self, x: Tensor) -> Tensor:
        """Attention."""
        return self._last.iterate(x)

    def finish(self, x: Tensor) -> Tensor:
        """The MLP, and the last norm."""
        return self.body.norm(self._last.finish(x))

    def answer(self, c: Tensor) -> Tensor:
        """[B, 81, C] → logits [B, 81, 9], float32: a linear map of the last norm's output."""
        return self.head(c).float() if self.final_norm else super().answer(c)

    def compile_step(self, **options: object) -> None:
        """Compile one step of each block."""
        self.compiled = True
        for block in self.body.blocks:
            cast(ItrSABlock, block).compile_step(**options)

    @property
    def _last(self) -> ItrSABlock:
        return cast(ItrSABlock, self.body.blocks[-1])


class EnergyTransformerSudoku(Baseline):
    """The Energy Transformer for Sudoku; its energy is its own."""

    has_energy = True

    def __init__(self, config: EnergyTransformerConfig | None = None) -> None:
        config = config if config is not None else EnergyTransformerConfig()
        super().__init__(config)
        self.body = EnergyTransformer(
            config.channels, config.heads, grid=GRID, memories=config.memories, alpha=config.alpha
        )

    def prepare(self, x: Tensor, steps: int) -> Tensor:
        """Positions."""
        return self.body.prepare(x)

    def iterate(self, x: Tensor) -> Tensor:
        """A step down the energy."""
        return self.body.iterate(x)

    def finish(self, x: Tensor) -> Tensor:
        """The layer norm."""
        return self.body.normalize(x)

    def energy(self, x: Tensor) -> Tensor:
        """The Energy Transformer's energy, [B]."""
        return self.body.energy(self.body.normalize(x))

    def compile_step(self, **options: object) -> None:
        """Compile one step."""
        self.compiled = True
        self.body.compile_step(**options)
