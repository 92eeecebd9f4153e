"""Recipes: one function for each row of the paper, and one for the solver that ships. Torch-free to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from akorn.engine.config import EmaConfig, OptimiserConfig, ScheduleConfig, TrainConfig
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, ModelConfig, SudokuConfig


@dataclass(frozen=True)
class DataConfig:
    """Which boards to train on."""

    path: Path | None = None
    """A CSV file of `puzzle,solution` lines or a SATNet folder; None for boards that we generate."""
    count: int = 9000
    """How many boards to generate."""
    givens: tuple[int, int] = (31, 42)
    """The fewest and most givens of generated boards."""
    seed: int = 0
    """The seed of generated boards."""
    workers: int = 1
    """Processes that generate boards; more than one needs a script with `if __name__ == "__main__":`."""
    symmetries: bool = False
    """Turn every board into a random equivalent one: digits, rows, columns, transposition."""
    reveal: tuple[int, int] | None = None
    """Add digits of the solution, so that the numbers of givens spread evenly over this range; a board with more
    keeps them all."""


@dataclass(frozen=True)
class ValidConfig:
    """Which boards to score while training; never the test set."""

    path: Path | None = None
    """A CSV file of `puzzle,solution` lines; None for boards that we generate with the training set's givens."""
    count: int = 200
    """At most so many boards, evenly spread over the file."""
    steps: int | None = None
    """Steps T; None for the model's own."""


@dataclass(frozen=True)
class SudokuRecipe:
    """A whole Sudoku run: model, data and training."""

    name: str
    model: ModelConfig = field(default_factory=SudokuConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    steps: tuple[int, int] | None = None
    """Draw T anew for every batch from this range; None for the model's T."""


def _paper(learning_rate: float = 1e-3) -> TrainConfig:
    """The published protocol; TF32 and not bf16, which costs the energy vote."""
    return TrainConfig(
        epochs=100,
        batch_size=100,
        optimiser=OptimiserConfig(name="adam", learning_rate=learning_rate, clip=1.0),
        ema=EmaConfig(decay=0.995, every=10, after=100),
        precision="tf32",
        graph=True,
    )


def sudoku_akorn() -> SudokuRecipe:
    """AKOrN with attention (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_akorn", SudokuConfig(), _paper())


def sudoku_akorn_no_omega() -> SudokuRecipe:
    """AKOrN without natural frequencies (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_akorn_no_omega", SudokuConfig(omega=False), _paper())


def sudoku_akorn_symmetric() -> SudokuRecipe:
    """AKOrN with symmetrised attention (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_akorn_symmetric", SudokuConfig(symmetric=True), _paper())


def sudoku_akorn_ape() -> SudokuRecipe:
    """AKOrN with absolute positions (the paper's comparison of positions)."""
    return SudokuRecipe("sudoku_akorn_ape", SudokuConfig(position="absolute"), _paper())


def sudoku_akorn_rope() -> SudokuRecipe:
    """AKOrN with rotary positions (the paper's comparison of positions)."""
    return SudokuRecipe("sudoku_akorn_rope", SudokuConfig(position="rotary"), _paper())


def sudoku_akorn_no_proj() -> SudokuRecipe:
    """AKOrN without Proj (the paper's ablation)."""
    return SudokuRecipe("sudoku_akorn_no_proj", SudokuConfig(rule="without-projection"), _paper())


def sudoku_akorn_residual() -> SudokuRecipe:
    """The plain residual update, without Proj and Π (Tab. `kvsl`)."""
    return SudokuRecipe("sudoku_akorn_residual", SudokuConfig(rule="residual"), _paper())


def sudoku_akorn_n2() -> SudokuRecipe:
    """AKOrN with N = 2."""
    return SudokuRecipe("sudoku_akorn_n2", SudokuConfig(n=2), _paper())


def sudoku_akorn_n8() -> SudokuRecipe:
    """AKOrN with N = 8."""
    return SudokuRecipe("sudoku_akorn_n8", SudokuConfig(n=8), _paper())


def sudoku_akorn_n16() -> SudokuRecipe:
    """AKOrN with N = 16."""
    return SudokuRecipe("sudoku_akorn_n16", SudokuConfig(n=16), _paper())


def sudoku_itrsa() -> SudokuRecipe:
    """Iterative self-attention (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_itrsa", ItrSAConfig(), _paper(5e-4))


def sudoku_transformer() -> SudokuRecipe:
    """A Transformer of eight blocks (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_transformer", ItrSAConfig(blocks=8, steps=1), _paper(5e-4))


def sudoku_energy_transformer() -> SudokuRecipe:
    """The Energy Transformer (Tab. `sudoku`)."""
    return SudokuRecipe("sudoku_energy_transformer", EnergyTransformerConfig(), _paper())


def sudoku_best() -> SudokuRecipe:
    """The solver that ships: the paper's model, symmetries, T from a range, hard boards revealed to 17–38 givens.

    Meant for a `--data.path` with 17-clue boards; the boards we generate have 26 givens at least.
    """
    return SudokuRecipe(
        "sudoku_best",
        SudokuConfig(),
        TrainConfig(
            steps=40_000,
            batch_size=128,
            optimiser=OptimiserConfig(name="adam", learning_rate=1e-3, clip=1.0),
            schedule=ScheduleConfig(name="cosine", warmup=500, final=0.01),
            ema=EmaConfig(decay=0.995, every=10, after=100),
            precision="tf32",
            graph=True,
        ),
        DataConfig(givens=(26, 30), symmetries=True, reveal=(17, 38)),
        steps=(12, 24),
    )


RECIPES: dict[str, Callable[[], SudokuRecipe]] = {
    recipe.__name__: recipe
    for recipe in (
        sudoku_akorn,
        sudoku_akorn_no_omega,
        sudoku_akorn_symmetric,
        sudoku_akorn_ape,
        sudoku_akorn_rope,
        sudoku_akorn_no_proj,
        sudoku_akorn_residual,
        sudoku_akorn_n2,
        sudoku_akorn_n8,
        sudoku_akorn_n16,
        sudoku_itrsa,
        sudoku_transformer,
        sudoku_energy_transformer,
        sudoku_best,
    )
}

SHIPPED = {"sudoku": "sudoku_best", "sudoku-paper": "sudoku_akorn"}
"""Weights in the package → the recipe that made them."""
