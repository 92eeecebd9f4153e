"""Recipes: one function for each row of the paper's CIFAR-10 tables, the pre-training, and what ships.

What else was tried is in results/trials.toml, as overrides of these. Torch-free to import.
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
"""Those of the published CIFAR-10 experiments, or those of AugMix's own paper."""


@dataclass(frozen=True)
class DataConfig:
    """Which pictures to train on, and what is done to them on the device."""

    path: Path | None = None
    """CIFAR-10's folder (cifar-10-batches-py, or the one that holds it); for pre-training Tiny-ImageNet's."""
    augment: AugmentConfig = _AUGMENT
    augmix: bool = True
    """Whether AugMix takes part."""
    augmix_operations: AugmixOperations = "thirteen"
    """AugMix as in the published experiments, or with the nine operations of its own paper."""
    noise: float = 0.0
    """Standard deviation σ of Gaussian noise, for pixels from 0 to 1; what comes behind it sees pixels cut to 0–1."""
    order: tuple[Change, Change, Change] = ("augment", "augmix", "noise")
    """What is done first, then and last; "augment" are crop, flip and jitter."""
    split: Literal["all", "train"] = "all"
    """Train on all 50,000 pictures, or on 45,000 of them, with the other 5,000 for validation: for every choice."""
    limit: int | None = None
    """Train on the first so many pictures only."""
    absent: ClassVar[Mapping[str, Any]] = {"augmix_operations": "nine", "split": "all"}
    """What runs had whose records do not tell."""


@dataclass(frozen=True)
class ValidConfig:
    """Which pictures to score while training: the 5,000 that `data.split train` holds out (valid_clean, valid_ece).

    Where all pictures are trained on, some of these are scored, without augmentation, as train_clean. Test pictures
    are never scored here: they are for `akorn eval`, when all is chosen.
    """

    path: Path | None = None
    """CIFAR-10's folder, whose validation pictures are scored; None for that of the training pictures."""
    count: int = 5000
    """At most so many pictures, the first ones."""


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
    """Keep pictures and weights with the channels last in memory, which GPUs convolve faster; files do not show it."""


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
    """The published protocol, but with a learning rate that falls to 0 in a line."""
    return replace(_paper(), schedule=ScheduleConfig(name="linear"))


_MIX = AkornConfig(attention=True, steps=(6, 4, 2))
# N′ = N, as the paper says is usual below Eq. `ro`; it gives no other for CIFAR-10, and the published N′ = 2 is that of
# the model with N = 2.
_MIX_N4 = replace(_MIX, n=4, n_out=4)


@RECIPES.add
def cifar10_akorn_conv() -> CifarRecipe:
    """AKOrN-conv with N = 2 (Table 5; with `init`, Table 4)."""
    return CifarRecipe(model=AkornConfig(), train=_paper())


@RECIPES.add(weights="cifar10-conv")
def cifar10_akorn_conv_falling_rate() -> CifarRecipe:
    """A model of cifar10_akorn_conv (`--init FOLDER`) trained on for 80 epochs, at a rate that falls to 0: what ships.

    The head starts anew, as with every `init`. Chaos makes gradients of the first blocks' weights pure noise
    (docs/robustness.md): at a constant rate these walk on at random to the end, and what reads them must follow.
    """
    return CifarRecipe(model=AkornConfig(), train=replace(_falling(), epochs=80))


@RECIPES.add
def cifar10_akorn_conv_no_proj() -> CifarRecipe:
    """AKOrN-conv without Proj (Table 5)."""
    return CifarRecipe(model=AkornConfig(rule="without-projection"), train=_paper())


@RECIPES.add
def cifar10_akorn_conv_no_omega() -> CifarRecipe:
    """AKOrN-conv without natural frequencies (Figure 8), with γ = 0.5.

    The published ablation adds x where Ωx was: with its γ = 1 that is the paper's update with γ/(1 + γ) = 0.5. To take
    Ω away and nothing else, set model.gamma to 1.
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
    """By what a model's folder tells of its training: on "all" pictures of CIFAR-10, or on "train", 45,000 of them."""
    data = training.get("data")
    return str({**DataConfig.absent, **(data if isinstance(data, Mapping) else {})}["split"])


CONTINUES = {
    "cifar10_akorn_conv_falling_rate": "cifar10_akorn_conv",
    "cifar10_resnet18_crop_last_falling_rate": "cifar10_resnet18_crop_last",
}
"""Recipe → the recipe whose model it continues, by `init`. That one is trained on CIFAR-10 too, so that this does not
count as pre-training. The second is a trial by now, whose models still say its name."""
