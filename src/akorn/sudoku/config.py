"""The Sudoku models' settings, one dataclass per architecture. Imports no torch, so that `--help` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from akorn.errors import AkornError
from akorn.registry import Architectures
from akorn.settings import check_fields

ARCHITECTURES = Architectures()


@ARCHITECTURES.add("akorn", model="akorn.sudoku.model:SudokuModel")
@dataclass(frozen=True)
class SudokuConfig:
    """AKOrN with attention; the defaults are the paper's model."""

    architecture: ClassVar[str]

    channels: int = 512
    n: int = 4
    """Rotating dimensions N."""
    heads: int = 8
    blocks: int = 1
    """Blocks L."""
    steps: int = 16
    """Steps T in training, and the default everywhere else."""
    omega: bool = True
    """Whether the oscillators have a natural frequency Ω."""
    symmetric: bool = False
    """The symmetrised coupling: shared query and key weights, symmetric value maps."""
    position: Literal["gta", "absolute", "rotary", "learned-rotary"] = "gta"
    """Absolute positions are added to C at the input; the others act in the attention. In the paper's rotary variant
    they are learned, from their usual values."""
    rule: Literal["kuramoto", "without-projection", "residual"] = "kuramoto"
    """The update rule: the paper's, without Proj, or the plain residual update without Proj and Π."""
    expansion: int | None = None
    """Put an MLP after the attention, at every step, with a hidden layer of this many times C; None for no MLP."""
    gradient_steps: int | None = None
    """In training, gradients go back through this many of the last steps; None for all."""
    recompute: bool = False
    """In training, recompute states in the backward pass: memory no longer grows with T."""
    step: Literal["gamma", "damped"] = "gamma"
    """The step size: γ itself, or γ/(1 + γ), as in the published models without Ω."""
    n_out: int | None = None
    """N′ of the readout; None for N."""
    absent: ClassVar[Mapping[str, Any]] = {"n_out": 4}
    """Values for model folders that do not name these settings."""


@ARCHITECTURES.add("itrsa", model="akorn.sudoku.baselines:ItrSASudoku")
@dataclass(frozen=True)
class ItrSAConfig:
    """Iterative self-attention; with eight blocks and one step it is the Transformer."""

    architecture: ClassVar[str]

    channels: int = 512
    heads: int = 8
    blocks: int = 1
    steps: int = 16
    position: Literal["absolute", "gta", "rotary", "learned-rotary"] = "absolute"
    start: Literal["embedding", "random"] = "embedding"
    """Where the blanks start: at their embedding, or at random, so that there are several starts to vote among."""
    expansion: int | None = None
    """Put an MLP after the attention, at every step, with a hidden layer of this many times C; None for no MLP."""
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """Values for model folders that do not name these settings."""


@ARCHITECTURES.add("energy-transformer", model="akorn.sudoku.baselines:EnergyTransformerSudoku")
@dataclass(frozen=True)
class EnergyTransformerConfig:
    """The Energy Transformer."""

    architecture: ClassVar[str]

    channels: int = 512
    heads: int = 8
    steps: int = 16
    memories: int = 2048
    alpha: float = 0.1


ModelConfig = SudokuConfig | ItrSAConfig | EnergyTransformerConfig


def check(config: ModelConfig) -> None:
    """Refuse impossible values and say what was expected."""
    check_fields(config)
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    absolute = isinstance(config, EnergyTransformerConfig) or config.position == "absolute"
    if (width := config.channels if absolute else config.channels // config.heads) % 4:
        what = "channels is" if absolute else "channels / heads is"
        raise AkornError(f"{what} {width}, but positions on the board need a multiple of 4")
    if isinstance(config, SudokuConfig) and (config.n < 2 or config.channels % config.n):
        raise AkornError(f"{config.channels} channels cannot be grouped into oscillators of n={config.n} dimensions")
    if isinstance(config, SudokuConfig) and config.step == "damped" and (config.omega or config.rule == "residual"):
        has = "natural frequencies" if config.omega else "the residual rule"
        raise AkornError(f"step is damped, expected gamma in a model with {has}")
