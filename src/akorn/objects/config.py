"""Settings of object discovery: one dataclass per architecture, and the recipe, which adds data and training.

Imports no torch, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from akorn.augment.config import AugmentConfig
from akorn.engine.config import TrainConfig
from akorn.errors import AkornError
from akorn.objects.teacher_config import TeacherConfig, check_teacher
from akorn.registry import Architectures
from akorn.settings import check_fields

Position = Literal["gta", "absolute", "rotary", "learned-rotary"]
Rule = Literal["kuramoto", "without-projection", "residual"]

ARCHITECTURES = Architectures()

_GRID = 512
"""The largest number of patches along a side: a model stores a position for each patch."""


@dataclass(frozen=True)
class _Pictures:
    """Settings of all models: the pictures, and the size of the network."""

    architecture: ClassVar[str]

    image_size: int = 32
    """Height and width of the pictures in training; other sizes work too, if patches fit."""
    image_channels: int = 3
    """1 for grey pictures, 3 for colours."""
    patch: int = 4
    """Height and width of a patch, in pixels."""
    channels: int = 128
    """Number of channels, as in the paper's tables: oscillators times N."""
    blocks: int = 1
    """Blocks L."""


@dataclass(frozen=True)
class _Kuramoto(_Pictures):
    """Settings of both kinds of AKOrN."""

    steps: int = 8
    """Steps T of each block."""
    n: int = 4
    """Rotating dimensions N."""
    gamma: float = 0.5
    """The step size γ, which is not learned. (The published code's 1 without Ω is the paper's 0.5.)"""
    norm_c: bool = False
    """GroupNorm on C in front of every block, one group per oscillator; without it, in front of all but the first."""
    rule: Rule = "kuramoto"
    """The update rule: the paper's, without Proj, or the plain residual update without Proj and Π."""
    recompute: bool = False
    """In training, recompute states in the backward pass: memory no longer grows with T."""


@ARCHITECTURES.add("akorn", model="akorn.objects.model:AkornObjects")
@dataclass(frozen=True)
class AkornConfig(_Kuramoto):
    """AKOrN with attention."""

    heads: int = 8
    position: Position = "gta"
    """Absolute positions are added to C at the input; the others act in the attention."""


@ARCHITECTURES.add("akorn-conv", model="akorn.objects.model:AkornConvObjects")
@dataclass(frozen=True)
class AkornConvConfig(_Kuramoto):
    """AKOrN with convolution."""

    kernel: int = 5
    """Odd size of the convolutions, in patches."""


@ARCHITECTURES.add("itrsa", model="akorn.objects.baselines:ItrSAObjects")
@dataclass(frozen=True)
class ItrSAConfig(_Pictures):
    """Iterative self-attention."""

    steps: int = 8
    heads: int = 8
    position: Position = "absolute"
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """Values for model folders that do not name these settings."""
    recompute: bool = False
    """In training, recompute each step in the backward pass: less memory, more time."""


@ARCHITECTURES.add("itrconv", model="akorn.objects.baselines:ItrConvObjects")
@dataclass(frozen=True)
class ItrConvConfig(_Pictures):
    """Iterative convolution."""

    steps: int = 8
    kernel: int = 5
    """Odd size of the convolutions, in patches."""
    recompute: bool = False
    """In training, recompute each step in the backward pass: less memory, more time."""


@ARCHITECTURES.add("vit", model="akorn.objects.baselines:ViTObjects")
@dataclass(frozen=True)
class ViTConfig(_Pictures):
    """A ViT: blocks of one attention and one MLP each."""

    blocks: int = 8
    heads: int = 8
    position: Position = "absolute"
    final_norm: bool = True
    """End in a LayerNorm over the channels, as the published baselines do."""
    absent: ClassVar[Mapping[str, Any]] = {"final_norm": False}
    """Values for model folders that do not name these settings."""
    recompute: bool = False
    """In training, recompute each block's attention in the backward pass: less memory, more time."""

    @property
    def steps(self) -> int:
        """A ViT is an ItrSA of one step."""
        return 1


ModelConfig = AkornConfig | AkornConvConfig | ItrSAConfig | ItrConvConfig | ViTConfig


@dataclass(frozen=True)
class DataConfig:
    """Which pictures to train on, and how a view of one is made."""

    name: str = "shapes"
    """The data set; the sets in `akorn data make --help` are generated if there is no path."""
    path: Path | None = None
    """A folder of pictures, a data set's folder or file; None to generate pictures."""
    count: int | None = None
    """How many pictures to generate, or to read at most from the path; None for the paper's number, or all."""
    seed: int = 0
    """The seed of generated pictures."""
    endless: bool = False
    """For rendered scenes (clevr, clevrtex): render new ones for every batch while the model trains, and store none;
    count is then the length of an epoch."""
    samples: int | None = None
    """For rendered scenes: rays per pixel of training pictures; None for 16. Validation scenes always have 16."""
    fit: Literal["crop", "stretch", "refuse"] = "crop"
    """How pictures of another size than the model's are resized, also those for validation: crop keeps the largest
    square in the middle, stretch the whole picture; refuse stops instead."""
    size: int | None = None
    """The side at which training pictures are kept; None for the model's. A larger one gives small crops more detail:
    views always have the model's size."""
    bad: Literal["refuse", "skip"] = "refuse"
    """Files that turn out to be damaged while they are read: stop, or use the next picture in their place, with a line
    for each and their number."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)


@dataclass(frozen=True)
class ValidConfig:
    """Which pictures to score while training; never the test set."""

    path: Path | None = None
    """Pictures with masks; None for other generated pictures, or for the data set's validation part."""
    count: int = 320
    """Number of pictures if they are generated, otherwise the largest number."""
    clusters: int | None = None
    """How many clusters; None for the paper's number for this data set."""
    uptile: int = 1
    """Up-tiling by this factor, which costs its square in time."""
    size: int | None = None
    """The side of the masks that are scored, while the model sees the pictures at its own size; None for that too."""


@dataclass(frozen=True)
class LossConfig:
    """What is minimised: a sum of terms with these weights, none of which needs labels. By default SimCLR alone.

    SimCLR compares whole pictures. The other terms compare what two views show of the same place, or predict patches
    that are hidden; those of `teacher` learn from the moving average of the weights.
    """

    simclr: float = 1.0
    """NT-Xent of the embeddings of two views of a picture."""
    dense: float = 0.0
    """NT-Xent of single patches: a patch and the one at the same place in the other view belong together."""
    regions: float = 0.0
    """NT-Xent of regions of a picture (k-means, see `alike`): the mean of a region's patches in both views."""
    masked: float = 0.0
    """Predict the pixels of hidden patches from the features of the others (mean squared error)."""
    prototypes: float = 0.0
    """Patches at the same place in two views are assigned to the same of `prototype_count` prototypes; assignments are
    balanced over the batch (Sinkhorn), and each view predicts that of the other, as in SwAV, and in DINO with a
    teacher."""
    samples: int = 8
    """Patches per picture that `dense` and `prototypes` compare."""
    region_count: int = 8
    """Regions per picture."""
    alike: Literal["colours", "features"] = "colours"
    """What a region's patches have in common: similar colours and places, or similar features of the model as it is,
    from the whole picture. The latter is for a model that has learned something: start from its weights (--init)."""
    within: bool = True
    """Whether the other patches or regions of the same picture count as different in `dense` and `regions`."""
    hidden: float = 0.6
    """The share of patches that `masked` hides."""
    prototype_count: int = 512
    teacher: TeacherConfig = field(default_factory=TeacherConfig)


@dataclass(frozen=True)
class ObjectsRecipe:
    """A whole run of object discovery: model, data and training."""

    name: str = ""
    """The name for `akorn train NAME`: that of the registered function."""
    model: ModelConfig = field(default_factory=AkornConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    init: str | None = None
    """Start from these weights instead of from scratch: a shipped model's name, or a model's folder."""
    temperature: float = 0.1
    """Temperature of the contrastive losses (NT-Xent), and of the prototypes."""
    loss: LossConfig = field(default_factory=LossConfig)


def check(config: ModelConfig) -> None:
    """Refuse impossible values and say what was expected."""
    check_fields(config)
    if config.image_channels not in (1, 3):
        raise AkornError(f"image_channels is {config.image_channels}, expected 1 (grey) or 3 (colours)")
    if config.image_size % config.patch:
        raise AkornError(f"pictures of {config.image_size} pixels cannot be cut into patches of {config.patch}")
    if (side := config.image_size // config.patch) > _GRID:
        raise AkornError(
            f"pictures have {side} × {side} patches (image_size, patch), expected at most {_GRID} × {_GRID}"
        )
    if isinstance(config, AkornConvConfig | ItrConvConfig):
        if config.kernel % 2 == 0:
            raise AkornError(f"kernel is {config.kernel}, expected an odd size")
    else:
        _check_attention(config)
    if isinstance(config, AkornConfig | AkornConvConfig) and (config.n < 2 or config.channels % config.n):
        raise AkornError(f"{config.channels} channels cannot be grouped into oscillators of n={config.n} dimensions")


def check_loss(loss: LossConfig) -> None:
    """Refuse impossible weights and numbers of the loss."""
    weights = {name: getattr(loss, name) for name in ("simclr", "dense", "regions", "masked", "prototypes")}
    for name, value in weights.items():
        if not 0 <= value < float("inf"):
            raise AkornError(f"loss.{name} is {value}, expected 0 or more")
    check_teacher(loss.teacher)
    if not any(weights.values()) and not loss.teacher.used:
        raise AkornError(f"all terms of the loss have the weight 0: expected one of {', '.join(weights)} above 0")
    for name, least in (("samples", 1), ("region_count", 2), ("prototype_count", 2)):
        if getattr(loss, name) < least:
            raise AkornError(f"loss.{name} is {getattr(loss, name)}, expected {least} or more")
    if not 0 < loss.hidden < 1:
        raise AkornError(f"loss.hidden is {loss.hidden}, expected a share between 0 and 1")


def _check_attention(config: AkornConfig | ItrSAConfig | ViTConfig) -> None:
    if config.channels % config.heads:
        raise AkornError(f"{config.channels} channels cannot be split into {config.heads} heads")
    parts = config.channels if config.position == "absolute" else config.channels // config.heads
    if parts % 4:
        raise AkornError(
            f"{config.channels} channels in {config.heads} heads cannot have {config.position} positions in a plane:"
            f" {parts} is not a multiple of 4"
        )
