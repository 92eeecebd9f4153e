"""The Sudoku models' settings, one dataclass an architecture. Torch-free, so that `--help` reads them quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from akorn.errors import AkornError
from akorn.settings import as_json, check_fields, from_json


@dataclass(frozen=True)
class SudokuConfig:
    """AKOrN with attention; the defaults are the paper's model."""

    architecture: ClassVar[str] = "akorn"

    channels: int = 512
    n: int = 4
    """Rotating dimensions N."""
    heads: int = 8
    blocks: int = 1
    """Blocks L."""
    steps: int = 16
    """Steps T in training, and when nothing else is said."""
    omega: bool = True
    """Whether the oscillators have a natural frequency Ω."""
    symmetric: bool = False
    """The symmetrised coupling: shared query and key weights, symmetric value maps."""
    position: Literal["gta", "absolute", "rotary"] = "gta"
    """Absolute positions are added to C at the input; the other two act in the attention."""
    rule: Literal["kuramoto", "without-projection", "residual"] = "kuramoto"
    """The update rule: the paper's, without Proj, or the plain residual update without Proj and Π."""
    recompute: bool = False
    """In training, recompute states in the backward pass: memory no longer grows with T."""


@dataclass(frozen=True)
class ItrSAConfig:
    """Iterative self-attention; with eight blocks and one step it is the Transformer."""

    architecture: ClassVar[str] = "itrsa"

    channels: int = 512
    heads: int = 8
    blocks: int = 1
    steps: int = 16
    position: Literal["absolute", "gta", "rotary"] = "absolute"
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """What models had whose folders do not tell."""


@dataclass(frozen=True)
class EnergyTransformerConfig:
    """The Energy Transformer."""

    architecture: ClassVar[str] = "energy-transformer"

    channels: int = 512
    heads: int = 8
    steps: int = 16
    memories: int = 2048
    alpha: float = 0.1


ModelConfig = SudokuConfig | ItrSAConfig | EnergyTransformerConfig

_CLASSES: dict[str, type[ModelConfig]] = {
    kind.architecture: kind for kind in (SudokuConfig, ItrSAConfig, EnergyTransformerConfig)
}


def to_settings(config: ModelConfig) -> dict[str, Any]:
    """The config as JSON values, with its architecture."""
    return as_json(config)


def from_settings(settings: Mapping[str, Any]) -> ModelConfig:
    """What `to_settings` wrote; AkornError names the field that is unknown or has a value of the wrong kind."""
    config = from_json(settings, _CLASSES)
    check(config)
    return config


def check(config: ModelConfig) -> None:
    """Refuse values that cannot be, each with what was expected."""
    check_fields(config)
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    if isinstance(config, SudokuConfig) and (config.n < 2 or config.channels % config.n):
        raise AkornError(f"{config.channels} channels cannot be grouped into oscillators of n={config.n} dimensions")
