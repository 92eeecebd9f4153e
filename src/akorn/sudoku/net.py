"""What all Sudoku models have in common: the interface of AKOrN and of the baselines.

Models take puzzles [B, 81], whole numbers with 0 for a blank, and give logits [B, 81, 9]. The number of steps T is
chosen at call time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.hub import HubModel
from akorn.nn import EnergyFunction
from akorn.sudoku.config import ARCHITECTURES, ModelConfig, check

GRID = (9, 9)


class Result(NamedTuple):
    """The output of a model for a batch of puzzles."""

    logits: Tensor
    """[B, 81, 9], float32: for digits 1 to 9 on every square."""
    energies: Tensor | None
    """[T, B], float32: the energy before each step of the last block; None for models without energy."""
    step_logits: Tensor | None
    """[T, B, 81, 9]: the logits after each step of the last block, if requested."""


class Runner(Protocol):
    """What the vote and the solver need from what runs a model: torch (`SudokuNet`) or onnxruntime (`OnnxRunner`)."""

    @property
    def random_start(self) -> bool:
        """Whether the answer depends on a random start."""
        ...

    @property
    def has_energy(self) -> bool:
        """Whether there are energies to vote by."""
        ...

    @property
    def device(self) -> torch.device:
        """Where puzzles and starts are wanted."""
        ...

    @property
    def channels(self) -> int:
        """C of the states."""
        ...

    @property
    def narrow_on_cpu(self) -> bool:
        """Whether it is on a CPU and runs faster there with products in bfloat16."""
        ...

    def evolve(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        *,
        x0: Tensor | None = None,
        energy: EnergyFunction | None = osc.energy,
        each_step: bool = False,
    ) -> Result:
        """The result for puzzles [B, 81] after T steps; see `SudokuNet.evolve`."""
        ...


class SudokuNet(HubModel):
    """What all Sudoku models have in common."""

    task: ClassVar[str] = "sudoku"
    config: ModelConfig
    random_start: bool = False
    """Whether the answer depends on a random start."""
    has_energy: ClassVar[bool] = False
    compiled = False
    """Whether `compile_step` was called."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check(config)
        self.config = config
        self.embedding = nn.Embedding(10, config.channels)
        self.head = nn.Linear(config.channels, 9)

    def forward(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        x0: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, 81, 9] after `steps` steps, by default as many as in training.

        generator: draws the start of the blanks. x0: [B, 81, C], the start of the blanks instead.
        """
        return self.evolve(puzzle, steps, generator=generator, x0=x0, energy=None).logits

    @abstractmethod
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
        """`forward`, with energies (`energy` chooses the kind, None for none) and the logits of each step."""

    def first_state(self, puzzle: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """[B, 81, C]: where puzzles [B, 81] start, for `carry_on`."""
        raise AkornError(f"{self.architecture} has no state that can be carried on")

    def carry_on(self, puzzle: Tensor, state: Tensor, steps: int | None = None) -> tuple[Tensor, Tensor]:
        """Logits [B, 81, 9] and the next state after `steps` steps from a state."""
        raise AkornError(f"{self.architecture} has no state that can be carried on")

    def on_sphere(self, state: Tensor) -> Tensor:
        """The nearest state that the model can be in: as it is, unless states are on a sphere."""
        return state

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.embedding.weight.device

    @property
    def channels(self) -> int:
        """C of the states."""
        return self.config.channels

    @property
    def narrow_on_cpu(self) -> bool:
        """Whether it is on a CPU and runs faster there with products in bfloat16."""
        return False

    @abstractmethod
    def compile_step(self, **options: object) -> None:
        """Compile one step of each block, with options of `torch.compile`."""

    def answer(self, c: Tensor) -> Tensor:
        """[B, 81, C] → logits [B, 81, 9], float32."""
        return self.head(F.relu(c)).float()

    def _embed(self, puzzle: Tensor, steps: int | None) -> tuple[Tensor, int]:
        if puzzle.ndim != 2 or puzzle.shape[1] != 81 or puzzle.is_floating_point():
            raise ValueError(f"puzzles must be whole numbers [B, 81], got {puzzle.dtype} {list(puzzle.shape)}")
        looked_at = puzzle.device.type == "cpu" and not torch.compiler.is_compiling()
        if looked_at and len(puzzle) and not 0 <= int(puzzle.min()) <= int(puzzle.max()) <= 9:
            raise ValueError(
                f"puzzles must hold digits from 0 to 9, these range from {int(puzzle.min())} to {int(puzzle.max())}"
            )
        return self.embedding(puzzle.long()), self.config.steps if steps is None else steps


def build(config: ModelConfig) -> SudokuNet:
    """The Sudoku model that a config describes, freshly initialised."""
    model: SudokuNet = ARCHITECTURES.build(config)
    return model
