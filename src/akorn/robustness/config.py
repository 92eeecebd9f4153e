"""The CIFAR models' settings, one dataclass per architecture. Torch-free, so that `--help` reads them quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from akorn.errors import AkornError
from akorn.registry import Architectures
from akorn.settings import check_fields

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""CIFAR-10's, in the order of its labels."""
SIDE = 32
"""Height and width of its pictures, and of Tiny-ImageNet's as the models see them."""

Head = Literal["classes", "projection"]
"""What follows the features: averages and a linear map to the classes, or SimCLR's projection for pre-training."""

ARCHITECTURES = Architectures()
"""The kinds of models for CIFAR-10, by their names in config.json."""


@ARCHITECTURES.add("akorn", model="akorn.robustness.model:AkornNet")
@dataclass(frozen=True)
class AkornConfig:
    """AKOrN; the defaults are the paper's convolutional model, AKOrN-conv with N = 2.

    The defaults are the published settings. The paper differs from them in two places: it has a smaller g, `g="plain"`,
    and a learned γ, `learn_gamma=True`. As published, C is normalised before the steps, about which the paper is
    silent, and one convolution maps both X and C between blocks, where the paper may be read as having two.
    """

    architecture: ClassVar[str]

    channels: tuple[int, ...] = (64, 128, 256)
    """Channels of each block: oscillators times N."""
    kernels: tuple[int, ...] = (9, 7, 5)
    """Kernel size of each block's convolution J (the last one is not used if the last block is attentive)."""
    steps: tuple[int, ...] = (3, 3, 3)
    """Number of steps T of each block."""
    n: int = 2
    """Rotating dimensions N."""
    n_out: int = 2
    """N′, the size of the readout's z_k."""
    attention: bool = False
    """Whether the last block's coupling is attentive, as in AKOrN-mix."""
    heads: int = 8
    """Heads of an attentive block."""
    omega: bool = True
    """Whether the oscillators have a natural frequency Ω."""
    gamma: float = 1.0
    """The step size γ, or its initial value if it is learned."""
    learn_gamma: bool = False
    """Whether γ is trained, one for each block, as the paper says; the published settings keep it fixed."""
    rule: Literal["kuramoto", "without-projection", "without-normalisation", "residual"] = "kuramoto"
    """The update rule: the paper's, without Proj, without Π, or without both."""
    readout: Literal["norm", "linear"] = "norm"
    """m = ‖Ux‖, or the ablation C = g(Ux) without the norm."""
    g: Literal["residual", "plain"] = "residual"
    """The readout's g: BatchNorm, ReLU and a 3×3 convolution after a residual block of two of these; or, plain, without
    that block, as the paper says."""
    wiring: Literal["two-streams", "without-c", "stacked"] = "two-streams"
    """X and C; X alone, with each block's readout as the next state; or Kuramoto layers alone with one readout."""
    start: Literal["random", "stimulus", "learned"] = "random"
    """Where the oscillators start if there are two streams: at a random place on the sphere, at C, or at a learned
    place."""
    size: int = 32
    """Height and width of the pictures, which an attentive block needs to know."""
    recompute: bool = False
    """In training, recompute states in the backward pass: less memory, more time."""
    gradient_steps: int | None = None
    """In training, gradients go back through only this many steps of each block, the last ones; None: through all."""
    head: Head = "classes"
    classes: int = 10


@ARCHITECTURES.add("itrconv", model="akorn.robustness.baselines:ItrConvNet")
@dataclass(frozen=True)
class ItrConvConfig:
    """Iterative convolution: AKOrN-conv's shape without the Kuramoto update."""

    architecture: ClassVar[str]

    channels: tuple[int, ...] = (64, 128, 256)
    kernels: tuple[int, ...] = (9, 7, 5)
    steps: tuple[int, ...] = (3, 3, 3)
    head: Head = "classes"
    classes: int = 10


@ARCHITECTURES.add("resnet", model="akorn.robustness.baselines:ResNetNet")
@dataclass(frozen=True)
class ResNetConfig:
    """ResNet-18 in its form for small pictures."""

    architecture: ClassVar[str]

    width: int = 64
    """Channels of the first stage; each later stage has twice as many as the one before."""
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    """Residual blocks of each stage."""
    noise: float | None = None
    """Standard deviation σ of the Gaussian noise that the model itself adds to its pictures, for pixels from 0 to 1. It
    adds noise in training and in evaluation, so it is a random model, and this noise is its random start."""
    head: Head = "classes"
    classes: int = 10


@ARCHITECTURES.add("vit", model="akorn.robustness.baselines:ViTNet")
@dataclass(frozen=True)
class ViTConfig:
    """A vision transformer; its size is our choice, near AKOrN's number of parameters."""

    architecture: ClassVar[str]

    channels: int = 256
    heads: int = 8
    blocks: int = 8
    patch: int = 4
    size: int = 32
    head: Head = "classes"
    classes: int = 10
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """The values for models whose folders do not record them."""


ModelConfig = AkornConfig | ItrConvConfig | ResNetConfig | ViTConfig


def check(config: ModelConfig) -> None:
    """Refuse impossible values; each error says what was expected."""
    check_fields(config)
    if isinstance(config, AkornConfig | ItrConvConfig):
        _check_blocks(config)
    if isinstance(config, AkornConfig):
        _check_oscillators(config)
    if isinstance(config, ViTConfig):
        _check_tokens(config)


def check_cifar(config: ModelConfig) -> None:
    """AkornError unless the model takes pictures of CIFAR-10's size and, if it is a classifier, has its classes."""
    if (size := getattr(config, "size", SIDE)) != SIDE:
        raise AkornError(f"the model is for pictures of {size} × {size}, expected {SIDE} × {SIDE} (its size)")
    if config.head == "classes" and config.classes != len(CLASSES):
        raise AkornError(f"the model has {config.classes} classes, expected CIFAR-10's {len(CLASSES)}")


def check_classifier(config: ModelConfig) -> None:
    """AkornError unless it is a classifier of CIFAR-10."""
    check_cifar(config)
    if config.head != "classes":
        raise AkornError("the model is not a CIFAR-10 classifier yet: it was only pre-trained")


def _check_blocks(config: AkornConfig | ItrConvConfig) -> None:
    for name in ("kernels", "steps"):
        each = getattr(config, name)
        if len(each) != len(config.channels):
            raise AkornError(f"{name} is {each!r}, expected {len(config.channels)} numbers, one for each of channels")
    if even := [kernel for kernel in config.kernels if kernel % 2 == 0]:
        raise AkornError(f"kernels has {even[0]}, expected odd sizes")


def _check_oscillators(config: AkornConfig) -> None:
    for channels in config.channels:
        if config.n < 2 or channels % config.n:
            raise AkornError(f"{channels} channels cannot be grouped into oscillators of n={config.n} dimensions")
    if config.attention:
        if config.channels[-1] % config.heads:
            raise AkornError(f"{config.channels[-1]} channels cannot be split into {config.heads} heads")
        if config.channels[-1] // config.heads % 4:
            raise AkornError(
                f"heads of {config.channels[-1] // config.heads} components cannot encode positions in a plane,"
                f" expected a multiple of 4 ({config.channels[-1]} channels, {config.heads} heads)"
            )
        if config.size % 2 ** (len(config.channels) - 1):
            raise AkornError(f"size is {config.size}, expected a number that can be halved between all blocks")
    if config.gradient_steps is not None and config.gradient_steps < max(config.steps):
        if config.wiring != "two-streams":
            raise AkornError(f"gradient_steps cuts all gradients if no C drives the blocks (wiring {config.wiring})")
        if config.start == "learned":
            raise AkornError("gradient_steps leaves a learned start without gradients: use another start, or all steps")


def _check_tokens(config: ViTConfig) -> None:
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    if config.channels % 4:
        raise AkornError(f"channels is {config.channels}, expected a multiple of 4 for positions in a plane")
    if config.size % config.patch:
        raise AkornError(f"pictures of size {config.size} cannot be cut into patches of {config.patch}")
