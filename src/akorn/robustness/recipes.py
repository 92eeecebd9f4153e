"""Recipes: one function for each row of the paper's CIFAR-10 tables, for the pre-training, and for the weights that
ship.

Other trials are in results/trials.toml, as overrides of these. Torch-free to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from akorn.augment.config import AugmentConfig
from akorn.engine.config import EmaConfig, OptimiserConfig, ScheduleConfig, TrainConfig
from akorn.registry import Recipes
from akorn.robustness.config import AkornConfig, ItrConvConfig, ModelConfig, ResNetConfig, ViTConfig

_AUGMENT = AugmentConfig(scale=(0.2, 1.0), flip=0.5, jitter=1.0, grey=0.0)  # jitter (0.4, 0.4, 0.4, 0.1) by default

Change = Literal["augment", "augmix", "noise"]
AugmixOperations = Literal["thirteen", "nine"]
"""AugMix's operations in the published CIFAR-10 experiments, or those in AugMix's own paper."""


@dataclass(frozen=True)
class DataConfig:
    """Which pictures to train on, and what is done to them on the device."""

    path: Path | None = None
    """CIFAR-10's folder (cifar-10-batches-py, or the one that holds it); for pre-training, Tiny-ImageNet's."""
    augment: AugmentConfig = _AUGMENT
    augmix: bool = True
    """Whether AugMix is used."""
    augmix_operations: AugmixOperations = "thirteen"
    """AugMix as in the published experiments, or with the nine operations of its own paper."""
    noise: float = 0.0
    """Standard deviation σ of Gaussian noise, for pixels from 0 to 1; later changes see pixels clipped to 0–1."""
    order: tuple[Change, Change, Change] = ("augment", "augmix", "noise")
    """The order of the changes, from first to last; "augment" stands for crop, flip and jitter."""
    split: Literal["all", "train"] = "all"
    """Train on all 50,000 pictures, or on 45,000 of them and keep the other 5,000 for validation, which is what to
    choose by."""
    limit: int | None = None
    """Train only on this many pictures, the first ones."""
    absent: ClassVar[Mapping[str, Any]] = {"augmix_operations": "nine", "split": "all"}
    """The values for runs whose records do not have them."""


@dataclass(frozen=True)
class ValidConfig:
    """Which pictures to score while training: the 5,000 that `data.split train` holds out (valid_clean, valid_ece).

    If all pictures are used for training, some of them are scored, without augmentation, as train_clean. Test pictures
    are never scored here: they are for `akorn eval`, once every choice is made.
    """

    path: Path | None = None
    """CIFAR-10's folder, whose validation pictures are scored; None for that of the training pictures."""
    count: int = 5000
    """Score at most this many pictures, the first ones."""


@dataclass(frozen=True)
class CifarRecipe:
    """A whole CIFAR-10 run: model, data and training."""

    name: str = ""
    model: ModelConfig = field(default_factory=AkornConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    init: Path | None = None
    """A model's folder to start from, pre-trained by a tiny_imagenet recipe or trained before; its head is left out."""
    channels_last: bool = True
    """Keep pictures and weights with the channels last in memory, which makes convolutions faster on GPUs; saved files
    are the same."""


RECIPES: Recipes[CifarRecipe] = Recipes()


def _paper() -> TrainConfig:
    """The published protocol, in bf16."""
    return TrainConfig(
        epochs=400,
        batch_size=128,
        optimiser=OptimiserConfig(name="adam", learning_rate=1e-4),
        ema=EmaConfig(decay=0.99, every=10, after=200),
        precision="bf16",
        graph=True,
    )


def _falling() -> TrainConfig:
    """The published protocol, but with a learning rate that falls linearly to 0."""
    return replace(_paper(), schedule=ScheduleConfig(name="linear"))


_MIX = AkornConfig(attention=True, steps=(6, 4, 2))
# N′ = N, which the paper calls usual below Eq. `ro`. It gives no other value for CIFAR-10, and the published N′ = 2
# belongs to the model with N = 2.
_MIX_N4 = replace(_MIX, n=4, n_out=4)


@RECIPES.add
def cifar10_akorn_conv() -> CifarRecipe:
    """AKOrN-conv with N = 2 (Table 5; with `--init` from Tiny-ImageNet pre-training, Table 4)."""
    return CifarRecipe(model=AkornConfig(), train=_paper())


@RECIPES.add(weights="cifar10-conv")
def cifar10_akorn_conv_falling_rate() -> CifarRecipe:
    """Continues a model of cifar10_akorn_conv (needs `--init FOLDER`) for 80 epochs at a rate that falls to 0; this is
    the shipped `cifar10-conv`.

    The head starts anew, as with every `init`. Chaos turns the gradients of the first blocks' weights into pure noise
    (docs/robustness.md): at a constant rate these weights keep walking at random to the end, and the layers that read
    them must follow.
    """
    return CifarRecipe(model=AkornConfig(), train=replace(_falling(), epochs=80))


@RECIPES.add
def cifar10_akorn_conv_no_proj() -> CifarRecipe:
    """AKOrN-conv without Proj (Table 5)."""
    return CifarRecipe(model=AkornConfig(rule="without-projection"), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_no_omega() -> CifarRecipe:
    """AKOrN-conv without natural frequencies (Figure 8), with γ = 0.5.

    The published ablation adds x in place of Ωx: with its γ = 1 that is the paper's update with γ/(1 + γ) = 0.5. To
    remove Ω and nothing else, set model.gamma to 1.
    """
    return CifarRecipe(model=AkornConfig(omega=False, gamma=0.5), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_no_c() -> CifarRecipe:
    """AKOrN-conv without C: one stream, each readout the next state (Figure 8)."""
    return CifarRecipe(model=AkornConfig(wiring="without-c"), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_no_m() -> CifarRecipe:
    """AKOrN-conv whose readout takes no norm (Figure 17)."""
    return CifarRecipe(model=AkornConfig(readout="linear"), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_stacked() -> CifarRecipe:
    """Kuramoto layers alone, one readout at the end (Figure 17)."""
    return CifarRecipe(model=AkornConfig(wiring="stacked"), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_no_norm() -> CifarRecipe:
    """AKOrN-conv without the normalisation Π (Figure 8)."""
    return CifarRecipe(model=AkornConfig(rule="without-normalisation"), train=_paper())


@RECIPES.add
def cifar10_akorn_mix_n2() -> CifarRecipe:
    """AKOrN-mix with N = 2 (Table 4)."""
    return CifarRecipe(model=_MIX, train=_paper())


@RECIPES.add
def cifar10_akorn_mix_n4() -> CifarRecipe:
    """AKOrN-mix with N = 4 (Table 20)."""
    return CifarRecipe(model=_MIX_N4, train=_paper())


@RECIPES.add
def cifar10_itrconv() -> CifarRecipe:
    """ItrConv, AKOrN-conv's shape without the Kuramoto update (Table 20)."""
    return CifarRecipe(model=ItrConvConfig(), train=_paper())


@RECIPES.add
def cifar10_resnet18() -> CifarRecipe:
    """ResNet-18 (Table 4)."""
    return CifarRecipe(model=ResNetConfig(), train=_paper())


@RECIPES.add
def cifar10_resnet18_noise02() -> CifarRecipe:
    """ResNet-18 trained on Gaussian noise, σ = 0.2 (Table 8)."""
    return CifarRecipe(model=ResNetConfig(), train=_paper(), data=DataConfig(noise=0.2))


@RECIPES.add
def cifar10_resnet18_noise0225() -> CifarRecipe:
    """ResNet-18 trained on Gaussian noise, σ = 0.225 (Table 8)."""
    return CifarRecipe(model=ResNetConfig(), train=_paper(), data=DataConfig(noise=0.225))


@RECIPES.add
def cifar10_vit() -> CifarRecipe:
    """A ViT (Table 4)."""
    return CifarRecipe(model=ViTConfig(), train=_paper())


def _pretraining(model: ModelConfig) -> CifarRecipe:
    """SimCLR on Tiny-ImageNet, 50 epochs with batches of 512 as in the paper; crops are of CIFAR's size."""
    return CifarRecipe(
        model=replace(model, head="projection"),
        train=replace(_paper(), epochs=50, batch_size=512),
        data=DataConfig(augment=AugmentConfig(flip=0.5), augmix=False),
    )


@RECIPES.add
def tiny_imagenet_akorn_conv() -> CifarRecipe:
    """Pre-training of AKOrN-conv, for `--init` of cifar10_akorn_conv."""
    return _pretraining(AkornConfig())


@RECIPES.add
def tiny_imagenet_akorn_mix_n2() -> CifarRecipe:
    """Pre-training of AKOrN-mix with N = 2."""
    return _pretraining(_MIX)


@RECIPES.add
def tiny_imagenet_akorn_mix_n4() -> CifarRecipe:
    """Pre-training of AKOrN-mix with N = 4."""
    return _pretraining(_MIX_N4)


@RECIPES.add
def tiny_imagenet_resnet18() -> CifarRecipe:
    """Pre-training of ResNet-18."""
    return _pretraining(ResNetConfig())


def trained_on(training: Mapping[str, Any]) -> str:
    """What a model was trained on, according to its folder: "all" pictures of CIFAR-10, or "train", 45,000 of them."""
    data = training.get("data")
    return str({**DataConfig.absent, **(data if isinstance(data, Mapping) else {})}["split"])


CONTINUES = {
    "cifar10_akorn_conv_falling_rate": "cifar10_akorn_conv",
    "cifar10_resnet18_crop_last_falling_rate": "cifar10_resnet18_crop_last",
}
"""Recipe → the recipe whose model it continues, by `init`. That one is trained on CIFAR-10 too, so this does not count
as pre-training. The second is now a trial; its models still carry its name."""
