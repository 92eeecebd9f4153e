"""The object-discovery models' settings, one dataclass an architecture. Torch-free: `--help` reads them quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from akorn.errors import AkornError
from akorn.settings import as_json, check_fields, from_json

Position = Literal["gta", "absolute", "rotary"]
Rule = Literal["kuramoto", "without-projection", "residual"]


@dataclass(frozen=True)
class _Pictures:
    """What all models are told: the pictures, and the size of the network."""

    image_size: int = 32
    """Height and width of the pictures in training; others are taken too, if patches fit."""
    image_channels: int = 3
    """1 for grey pictures, 3 for colours."""
    patch: int = 4
    """Height and width of a patch, in pixels."""
    channels: int = 128
    """The tables' channel size: oscillators times N."""
    blocks: int = 1
    """Blocks L."""


@dataclass(frozen=True)
class _Kuramoto(_Pictures):
    """What both kinds of AKOrN are told."""

    steps: int = 8
    """Steps T of each block."""
    n: int = 4
    """Rotating dimensions N."""
    gamma: float = 0.5
    """The step size γ, which is not learned. (The published code's 1 without Ω is the paper's 0.5.)"""
    norm_c: bool = False
    """GroupNorm on C in front of every block, one group an oscillator; without it, in front of all but the first."""
    rule: Rule = "kuramoto"
    """The update rule: the paper's, without Proj, or the plain residual update without Proj and Π."""
    recompute: bool = False
    """In training, recompute states in the backward pass: memory no longer grows with T."""


@dataclass(frozen=True)
class AkornConfig(_Kuramoto):
    """AKOrN with attention."""

    architecture: ClassVar[str] = "akorn"

    heads: int = 8
    position: Position = "gta"
    """Absolute positions are added to C at the input; the other two act in the attention."""


@dataclass(frozen=True)
class AkornConvConfig(_Kuramoto):
    """AKOrN with convolution."""

    architecture: ClassVar[str] = "akorn-conv"

    kernel: int = 5
    """Odd size of the convolutions, in patches."""


@dataclass(frozen=True)
class ItrSAConfig(_Pictures):
    """Iterative self-attention."""

    architecture: ClassVar[str] = "itrsa"

    steps: int = 8
    heads: int = 8
    position: Position = "absolute"
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """What models had whose folders do not tell."""
    recompute: bool = False
    """In training, recompute each step in the backward pass: less memory, more time."""


@dataclass(frozen=True)
class ItrConvConfig(_Pictures):
    """Iterative convolution."""

    architecture: ClassVar[str] = "itrconv"

    steps: int = 8
    kernel: int = 5
    """Odd size of the convolutions, in patches."""
    recompute: bool = False
    """In training, recompute each step in the backward pass: less memory, more time."""


@dataclass(frozen=True)
class ViTConfig(_Pictures):
    """A ViT: blocks of one attention and one MLP each."""

    architecture: ClassVar[str] = "vit"

    blocks: int = 8
    heads: int = 8
    position: Position = "absolute"
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """What models had whose folders do not tell."""
    recompute: bool = False
    """In training, recompute each block's attention in the backward pass: less memory, more time."""

    @property
    def steps(self) -> int:
        """A ViT is an ItrSA of one step."""
        return 1


ModelConfig = AkornConfig | AkornConvConfig | ItrSAConfig | ItrConvConfig | ViTConfig

_CLASSES: dict[str, type[ModelConfig]] = {
    kind.architecture: kind for kind in (AkornConfig, AkornConvConfig, ItrSAConfig, ItrConvConfig, ViTConfig)
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
    if config.image_channels not in (1, 3):
        raise AkornError(f"image_channels is {config.image_channels}, expected 1 (grey) or 3 (colours)")
    if config.image_size % config.patch:
        raise AkornError(f"pictures of {config.image_size} pixels cannot be cut into patches of {config.patch}")
    if isinstance(config, AkornConvConfig | ItrConvConfig):
        if config.kernel % 2 == 0:
            raise AkornError(f"kernel is {config.kernel}, expected an odd size")
    else:
        _check_attention(config)
    if isinstance(config, AkornConfig | AkornConvConfig) and (config.n < 2 or config.channels % config.n):
        raise AkornError(f"{config.channels} channels cannot be grouped into oscillators of n={config.n} dimensions")


def _check_attention(config: AkornConfig | ItrSAConfig | ViTConfig) -> None:
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    parts = config.channels if config.position == "absolute" else config.channels // config.heads
    if parts % 4:
        raise AkornError(
            f"{config.channels} channels in {config.heads} heads have no {config.position} positions in a plane:"
            f" {parts} is no multiple of 4"
        )
