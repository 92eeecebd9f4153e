"""The Sudoku models' settings, one dataclass an architecture. Torch-free, so that `--help` reads them quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, get_args, get_type_hints

from akorn.errors import AkornError


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
    return {"architecture": config.architecture, **asdict(config)}


def from_settings(settings: Mapping[str, Any]) -> ModelConfig:
    """What `to_settings` wrote; AkornError names the field that is unknown or has a value of the wrong kind."""
    architecture = settings.get("architecture")
    kind = _CLASSES.get(architecture) if isinstance(architecture, str) else None
    if kind is None:
        raise AkornError(f"architecture is {architecture!r}, expected one of {', '.join(_CLASSES)}")
    values = {name: value for name, value in settings.items() if name != "architecture"}
    known = {field.name for field in fields(kind)}
    if foreign := sorted(set(values) - known):
        raise AkornError(f"unknown setting {foreign[0]!r}, expected some of {', '.join(sorted(known))}")
    config = kind(**values)
    check(config)
    return config


def check(config: ModelConfig) -> None:
    """Refuse values that cannot be, each with what was expected."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        if options := get_args(hint):
            fine, expected = value in options, f"one of {', '.join(options)}"
        elif hint is bool:
            fine, expected = isinstance(value, bool), "true or false"
        elif hint is int:
            fine = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            expected = "a whole number of at least 1"
        else:
            fine = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            expected = "a number above 0"
        if not fine:
            raise AkornError(f"{field.name} is {value!r}, expected {expected}")
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    if isinstance(config, SudokuConfig) and (config.n < 2 or config.channels % config.n):
        raise AkornError(f"{config.channels} channels cannot be grouped into oscillators of n={config.n} dimensions")
