"""Recipes: one function per row of the paper's tables, and one for the shipped solver. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from akorn.engine.config import CarryConfig, EmaConfig, OptimiserConfig, ScheduleConfig, TrainConfig
from akorn.registry import Recipes
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, ModelConfig, SudokuConfig


@dataclass(frozen=True)
class DataConfig:
    """Which boards to train on."""

    path: Path | None = None
    """A CSV file of `puzzle,solution` lines or a SATNet folder; None to generate boards."""
    count: int = 9000
    """How many boards to generate."""
    givens: tuple[int, int] = (31, 42)
    """The fewest and most givens of generated boards."""
    seed: int = 0
    """The seed of generated boards."""
    workers: int = 1
    """Number of processes that generate boards; with more than one, a script needs `if __name__ == "__main__":`."""
    symmetries: bool = False
    """Turn every board into a random equivalent one: digits, rows, columns, transposition."""
    reveal: tuple[int, int] | None = None
    """Reveal digits of the solution, so that the number of givens is uniform over this range; a board with more givens
    keeps them all."""
    revealed: float = 1.0
    """The share of the boards that `reveal` acts on, drawn anew each time."""


@dataclass(frozen=True)
class ValidConfig:
    """Which boards to score while training; never the test set."""

    path: Path | None = None
    """A CSV file of `puzzle,solution` lines; None to generate boards with the training set's givens."""
    count: int = 200
    """The largest number of boards, spread evenly over the file."""
    steps: int | None = None
    """Steps T; None for the model's own."""


@dataclass(frozen=True)
class SudokuRecipe:
    """A whole Sudoku run: model, data and training."""

    name: str = ""  # the name of its function, set by `RECIPES`
    model: ModelConfig = field(default_factory=SudokuConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    steps: tuple[int, int] | None = None
    """The range from which the number of Kuramoto steps T is drawn for every batch; None for the model's T. (The number
    of training steps is `--train.steps`.)"""
    loss: Literal["squares", "blanks"] = "squares"
    """Take the cross-entropy on all squares, or only on the blanks."""
    noise: float = 0.0
    """Size σ of the noise on the state before each segment, if states are carried: Π[x + σξ], with ξ normal."""
    init: str | None = None
    """Start from these weights: a shipped model's name, or a folder. Parts that it lacks, such as an MLP, stay new."""


RECIPES: Recipes[SudokuRecipe] = Recipes()


def _paper(model: ModelConfig, learning_rate: float = 1e-3) -> SudokuRecipe:
    """The published protocol, in TF32: training in bf16 spoils the energy vote."""
    train = TrainConfig(
        epochs=100,
        batch_size=100,
        optimiser=OptimiserConfig(name="adam", learning_rate=learning_rate, clip=1.0),
        ema=EmaConfig(decay=0.995, every=10, after=100),
        precision="tf32",
        graph=True,
    )
    return SudokuRecipe(model=model, train=train)


@RECIPES.add(weights="sudoku-paper")
def sudoku_akorn() -> SudokuRecipe:
    """AKOrN with attention (Table 19)."""
    return _paper(SudokuConfig())


@RECIPES.add
def sudoku_akorn_no_omega() -> SudokuRecipe:
    """AKOrN without natural frequencies (Table 19).

    A published model without Ω adds x itself in place of Ωx, so its step is γ/(1 + γ), with γ learned from 1; set
    model.step to gamma to remove Ω and nothing else.
    """
    return _paper(SudokuConfig(omega=False, step="damped"))


@RECIPES.add
def sudoku_akorn_symmetric() -> SudokuRecipe:
    """AKOrN with symmetrised attention (Table 19)."""
    return _paper(SudokuConfig(symmetric=True))


@RECIPES.add
def sudoku_akorn_ape() -> SudokuRecipe:
    """AKOrN with absolute positions (the paper's comparison of positions)."""
    return _paper(SudokuConfig(position="absolute"))


@RECIPES.add
def sudoku_akorn_rope() -> SudokuRecipe:
    """AKOrN with rotary positions, learned from their usual values (the paper's comparison of positions)."""
    return _paper(SudokuConfig(position="learned-rotary"))


@RECIPES.add
def sudoku_akorn_no_proj() -> SudokuRecipe:
    """AKOrN without Proj (the paper's ablation)."""
    return _paper(SudokuConfig(rule="without-projection"))


@RECIPES.add
def sudoku_akorn_residual() -> SudokuRecipe:
    """The plain residual update, without Proj and Π (Table 6)."""
    return _paper(SudokuConfig(rule="residual"))


@RECIPES.add
def sudoku_akorn_n2() -> SudokuRecipe:
    """AKOrN with N = N′ = 2."""
    return _paper(SudokuConfig(n=2))


@RECIPES.add
def sudoku_akorn_n8() -> SudokuRecipe:
    """AKOrN with N = N′ = 8."""
    return _paper(SudokuConfig(n=8))


@RECIPES.add
def sudoku_akorn_n16() -> SudokuRecipe:
    """AKOrN with N = N′ = 16."""
    return _paper(SudokuConfig(n=16))


@RECIPES.add
def sudoku_itrsa() -> SudokuRecipe:
    """Iterative self-attention (Table 19)."""
    return _paper(ItrSAConfig(), 5e-4)


@RECIPES.add
def sudoku_itrsa_gta() -> SudokuRecipe:
    """Iterative self-attention with GTA positions (the paper's comparison of positions)."""
    return _paper(ItrSAConfig(position="gta"), 5e-4)


@RECIPES.add
def sudoku_transformer() -> SudokuRecipe:
    """A Transformer of eight blocks (Table 19)."""
    return _paper(ItrSAConfig(blocks=8, steps=1), 5e-4)


@RECIPES.add
def sudoku_energy_transformer() -> SudokuRecipe:
    """The Energy Transformer (Table 19)."""
    return _paper(EnergyTransformerConfig())


@RECIPES.add(weights="sudoku-base")
def sudoku_best() -> SudokuRecipe:
    """The first shipped solver: the paper's model, symmetries, T from a range, hard boards with 17–38 digits shown.

    Meant for a `--data.path` with 17-clue boards; generated boards have at least 26 givens.
    """
    return SudokuRecipe(
        model=SudokuConfig(),
        train=TrainConfig(
            steps=40_000,
            batch_size=128,
            optimiser=OptimiserConfig(name="adam", learning_rate=1e-3, clip=1.0),
            schedule=ScheduleConfig(name="cosine", warmup=500, final=0.01),
            ema=EmaConfig(decay=0.995, every=10, after=100),
            precision="tf32",
            graph=True,
        ),
        data=DataConfig(givens=(26, 30), symmetries=True, reveal=(17, 38)),
        steps=(12, 24),
    )


@RECIPES.add(weights="sudoku")
def sudoku_hard() -> SudokuRecipe:
    """The shipped solver of the hardest boards: an MLP after the attention, and states that are carried on.

    It starts from the weights of `sudoku-base`, and is meant for a `--data` file of boards that need search, mixed with
    17-clue boards (docs/sudoku.md).
    """
    return SudokuRecipe(
        model=SudokuConfig(expansion=2),
        train=TrainConfig(
            steps=20_000,
            batch_size=512,
            optimiser=OptimiserConfig(name="muon", learning_rate=2e-3, clip=1.0),
            schedule=ScheduleConfig(name="cosine", warmup=300, final=0.02),
            ema=EmaConfig(decay=0.999, every=5, after=100),
            carry=CarryConfig(segments=(1, 16)),
            precision="bf16",
            graph=True,
        ),
        data=DataConfig(givens=(26, 30), symmetries=True, reveal=(17, 34), revealed=0.2),
        valid=ValidConfig(count=500, steps=128),
        init="sudoku-base",
    )


@RECIPES.add
def sudoku_hard_itrsa() -> SudokuRecipe:
    """ItrSA instead of AKOrN in `sudoku_hard`: the same MLP, boards and training, random starts, from scratch.

    With an MLP of three times C it has about as many parameters, 3.7 million. `benchmarks/hard_boards.py compare`
    trains both from scratch.
    """
    hard = sudoku_hard()
    return replace(hard, model=ItrSAConfig(position="gta", start="random", expansion=3), init=None)


@RECIPES.add
def sudoku_quick() -> SudokuRecipe:
    """A small solver of easy boards (58–70 givens), for a first try: learns in about five minutes on two CPU cores.

    It shows that training works, not how well: 4 steps of 64 channels where the paper's model has 16 of 512.
    """
    return SudokuRecipe(
        model=SudokuConfig(channels=64, heads=4, steps=4),
        train=TrainConfig(
            steps=1600,
            batch_size=50,
            optimiser=OptimiserConfig(name="adam", learning_rate=4e-3, clip=1.0),
            schedule=ScheduleConfig(name="cosine", warmup=50, final=0.02),
            compile="no",  # compiling would take a good part of the five minutes
            checkpoint_every=200,
            log_every=20,
            eval_every=200,
        ),
        data=DataConfig(count=2000, givens=(58, 70), symmetries=True),
        valid=ValidConfig(count=100),
    )
