"""Recipes for object discovery: one function for each row of the paper's tables. Torch-free to import.

Settings are those of Tab. `synth_settings`, `clevrtex_settings` and `real_settings`; what these leave open (optimiser,
averages, views, where C is normalised) is published elsewhere, and what is our own choice says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from akorn.augment.config import AugmentConfig
from akorn.engine.config import EmaConfig, OptimiserConfig, TrainConfig, Weights
from akorn.objects.config import (
    AkornConfig,
    AkornConvConfig,
    ItrConvConfig,
    ItrSAConfig,
    ModelConfig,
    ViTConfig,
)


@dataclass(frozen=True)
class DataConfig:
    """Which pictures to train on, and how a view of one is made."""

    name: str = "shapes"
    """The data set: shapes, tetrominoes and dsprites are generated where there is no path."""
    path: Path | None = None
    """A folder of pictures, a data set's folder or file; None for pictures that we generate."""
    count: int | None = None
    """How many pictures to generate, or to take at most from the path; None for the paper's number, or all."""
    seed: int = 0
    """The seed of generated pictures."""
    fit: Literal["crop", "stretch", "refuse"] = "crop"
    """What becomes of pictures of another size than the model's, those of the validation too: crop keeps the largest
    square in the middle, stretch the whole picture, and both are resized; refuse stops."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)


@dataclass(frozen=True)
class ValidConfig:
    """Which pictures to score while training; never the test set."""

    path: Path | None = None
    """Pictures with masks; None for other pictures of the kind that is generated, or the data set's validation part."""
    count: int = 320
    """So many pictures of a generated kind, at most so many of others."""
    clusters: int | None = None
    """How many clusters; None for the paper's number for this data set."""
    uptile: int = 1
    """Up-tiling by this factor, which costs its square in time."""


@dataclass(frozen=True)
class ObjectsRecipe:
    """A whole run of object discovery: model, data and training."""

    name: str
    model: ModelConfig = field(default_factory=AkornConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    valid: ValidConfig = field(default_factory=ValidConfig)
    init: str | None = None
    """Start from these weights instead of from scratch: the name of shipped ones, or a model's folder."""
    temperature: float = 0.1
    """Of the contrastive loss (NT-Xent)."""


def _train(
    epochs: int, learning_rate: float = 1e-3, batch_size: int = 256, weights: Weights = "average"
) -> TrainConfig:
    """The published protocol: Adam, no clipping, no warm-up, constant rate; bf16, which costs nothing.

    Its average runs over some 5,000 steps. On Tetrominoes it is better than the last weights for AKOrN, on dSprites as
    good, on Shapes it has the better masks after 100 epochs with one and two blocks; but it lags behind a model that
    still learns, as that of three blocks did after 50 (RESULTS.md has the trials).
    """
    return TrainConfig(
        epochs=epochs,
        batch_size=batch_size,
        optimiser=OptimiserConfig(name="adam", learning_rate=learning_rate),
        ema=EmaConfig(decay=0.998, every=10, after=200),
        weights=weights,
        precision="bf16",
        graph=True,
    )


def _tetrominoes(name: str, model: ModelConfig) -> ObjectsRecipe:
    """Tab. `synth_settings`: 32 pixels in patches of 4, 128 channels, T = 8, 50 epochs."""
    model = replace(model, image_size=32, patch=4, channels=128)
    return ObjectsRecipe(name, model, _train(50), DataConfig("tetrominoes"))


def _dsprites(name: str, model: ModelConfig) -> ObjectsRecipe:
    """Tab. `synth_settings`: 64 pixels in patches of 4, 128 channels, T = 8, 50 epochs."""
    model = replace(model, image_size=64, patch=4, channels=128)
    return ObjectsRecipe(name, model, _train(50), DataConfig("dsprites"))


def _clevr(name: str, model: ModelConfig) -> ObjectsRecipe:
    """Tab. `synth_settings`: 128 pixels in patches of 8, 256 channels, T = 8, 300 epochs."""
    model = replace(model, image_size=128, patch=8, channels=256)
    return ObjectsRecipe(name, model, _train(300), DataConfig("clevr"))


def _shapes(name: str, model: ModelConfig, weights: Weights = "average") -> ObjectsRecipe:
    """Tab. `synth_settings`: 40 grey pixels in patches of 2, 256 channels, 100 epochs; T = 4, which a ViT has not."""
    model = replace(model, image_size=40, image_channels=1, patch=2)
    if not isinstance(model, ViTConfig):
        model = replace(model, channels=256, steps=4)
    return ObjectsRecipe(name, model, _train(100, weights=weights), DataConfig("shapes"))


def _clevrtex(name: str, model: ModelConfig, epochs: int = 500) -> ObjectsRecipe:
    """Tab. `clevrtex_settings`: 128 pixels in patches of 8, T = 8, 500 epochs, a rate of 5e-4."""
    return ObjectsRecipe(name, replace(model, image_size=128, patch=8), _train(epochs, 5e-4), DataConfig("clevrtex"))


# Tetrominoes (Tab. `synth`); kernels 5, 7 and 9 on Tetrominoes, dSprites and CLEVR are the paper's.
def tetrominoes_akorn() -> ObjectsRecipe:
    """AKOrN with attention on Tetrominoes (Tab. `synth`)."""
    return _tetrominoes("tetrominoes_akorn", AkornConfig())


def tetrominoes_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on Tetrominoes (Tab. `synth`)."""
    return _tetrominoes("tetrominoes_akorn_conv", AkornConvConfig(kernel=5))


def tetrominoes_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on Tetrominoes (Tab. `synth`)."""
    return _tetrominoes("tetrominoes_itrsa", ItrSAConfig())


def tetrominoes_itrconv() -> ObjectsRecipe:
    """Iterative convolution on Tetrominoes (Tab. `synth`)."""
    return _tetrominoes("tetrominoes_itrconv", ItrConvConfig(kernel=5))


def dsprites_akorn() -> ObjectsRecipe:
    """AKOrN with attention on dSprites (Tab. `synth`)."""
    return _dsprites("dsprites_akorn", AkornConfig())


def dsprites_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on dSprites (Tab. `synth`)."""
    return _dsprites("dsprites_akorn_conv", AkornConvConfig(kernel=7))


def dsprites_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on dSprites (Tab. `synth`)."""
    return _dsprites("dsprites_itrsa", ItrSAConfig())


def dsprites_itrconv() -> ObjectsRecipe:
    """Iterative convolution on dSprites (Tab. `synth`)."""
    return _dsprites("dsprites_itrconv", ItrConvConfig(kernel=7))


def clevr_akorn() -> ObjectsRecipe:
    """AKOrN with attention on CLEVR (Tab. `synth`); needs --data."""
    return _clevr("clevr_akorn", AkornConfig())


def clevr_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on CLEVR (Tab. `synth`); needs --data."""
    return _clevr("clevr_akorn_conv", AkornConvConfig(kernel=9))


def clevr_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on CLEVR (Tab. `synth`); needs --data."""
    return _clevr("clevr_itrsa", ItrSAConfig())


def clevr_itrconv() -> ObjectsRecipe:
    """Iterative convolution on CLEVR (Tab. `synth`); needs --data."""
    return _clevr("clevr_itrconv", ItrConvConfig(kernel=9))


# Shapes (Tab. `shapes`, `shapes_results`). C is normalised here. The convolutions' kernel and number of blocks are not
# published: 7 suits a grid of 20 × 20 patches as it does dSprites' 16 × 16, and three blocks the attention beside it.
_SHAPES = AkornConfig(norm_c=True)


def shapes_akorn_l1() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, one block (Tab. `shapes_results`); N = 4 of the comparison of N."""
    return _shapes("shapes_akorn_l1", _SHAPES)


def shapes_akorn_l2() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, two blocks (Tab. `shapes_results`)."""
    return _shapes("shapes_akorn_l2", replace(_SHAPES, blocks=2))


def shapes_akorn_l3() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, three blocks (Tab. `shapes`, `shapes_results`)."""
    return _shapes("shapes_akorn_l3", replace(_SHAPES, blocks=3), weights="last")


def shapes_akorn_n2() -> ObjectsRecipe:
    """AKOrN with N = 2 on Shapes, one block (Fig. `varN`)."""
    return _shapes("shapes_akorn_n2", replace(_SHAPES, n=2))


def shapes_akorn_n8() -> ObjectsRecipe:
    """AKOrN with N = 8 on Shapes, one block (Fig. `varN`)."""
    return _shapes("shapes_akorn_n8", replace(_SHAPES, n=8))


def shapes_akorn_n16() -> ObjectsRecipe:
    """AKOrN with N = 16 on Shapes, one block (Fig. `varN`)."""
    return _shapes("shapes_akorn_n16", replace(_SHAPES, n=16))


def shapes_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on Shapes (Tab. `shapes`)."""
    return _shapes("shapes_akorn_conv", AkornConvConfig(kernel=7, blocks=3, norm_c=True))


def shapes_itrsa_l1() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, one block (Tab. `shapes_results`)."""
    return _shapes("shapes_itrsa_l1", ItrSAConfig())


def shapes_itrsa_l2() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, two blocks (Tab. `shapes_results`)."""
    return _shapes("shapes_itrsa_l2", ItrSAConfig(blocks=2))


def shapes_itrsa_l3() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, three blocks (Tab. `shapes`, `shapes_results`)."""
    return _shapes("shapes_itrsa_l3", ItrSAConfig(blocks=3), weights="last")


def shapes_itrconv() -> ObjectsRecipe:
    """Iterative convolution on Shapes (Tab. `shapes`)."""
    return _shapes("shapes_itrconv", ItrConvConfig(kernel=7, blocks=3))


def shapes_vit() -> ObjectsRecipe:
    """A ViT of eight blocks on Shapes, about as many parameters as AKOrN with three; a row that the paper has not."""
    return _shapes("shapes_vit", ViTConfig(channels=176))


# CLEVRTex (Tab. `clvtex`, `clevrtex_settings`); all need --data. C is normalised here.
_CLEVRTEX = AkornConfig(channels=256, norm_c=True)


def clevrtex_akorn_l1() -> ObjectsRecipe:
    """AKOrN with attention on CLEVRTex, one block (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_akorn_l1", _CLEVRTEX)


def clevrtex_akorn_l2() -> ObjectsRecipe:
    """AKOrN with attention on CLEVRTex, two blocks (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_akorn_l2", replace(_CLEVRTEX, blocks=2))


def clevrtex_akorn_large() -> ObjectsRecipe:
    """The large AKOrN on CLEVRTex: two blocks, twice the channels and epochs (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_akorn_large", replace(_CLEVRTEX, blocks=2, channels=512), epochs=1000)


def clevrtex_akorn_n2() -> ObjectsRecipe:
    """AKOrN with N = 2 on CLEVRTex, two blocks (Tab. `N_comp`)."""
    return _clevrtex("clevrtex_akorn_n2", replace(_CLEVRTEX, blocks=2, n=2))


def clevrtex_akorn_no_proj() -> ObjectsRecipe:
    """AKOrN without Proj on CLEVRTex, two blocks (Tab. `ablation_proj`)."""
    return _clevrtex("clevrtex_akorn_no_proj", replace(_CLEVRTEX, blocks=2, rule="without-projection"))


def clevrtex_akorn_residual() -> ObjectsRecipe:
    """The plain residual update, without Proj and Π, on CLEVRTex, two blocks (Tab. `kvsl`)."""
    return _clevrtex("clevrtex_akorn_residual", replace(_CLEVRTEX, blocks=2, rule="residual"))


def clevrtex_akorn_ape() -> ObjectsRecipe:
    """AKOrN with absolute positions on CLEVRTex, one block (Tab. `posenc`)."""
    return _clevrtex("clevrtex_akorn_ape", replace(_CLEVRTEX, position="absolute"))


def clevrtex_akorn_rope() -> ObjectsRecipe:
    """AKOrN with rotary positions on CLEVRTex, one block (Tab. `posenc`)."""
    return _clevrtex("clevrtex_akorn_rope", replace(_CLEVRTEX, position="rotary"))


def clevrtex_itrsa_l1() -> ObjectsRecipe:
    """Iterative self-attention on CLEVRTex, one block (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_itrsa_l1", ItrSAConfig(channels=256))


def clevrtex_itrsa_l2() -> ObjectsRecipe:
    """Iterative self-attention on CLEVRTex, two blocks (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_itrsa_l2", ItrSAConfig(channels=256, blocks=2))


def clevrtex_itrsa_gta() -> ObjectsRecipe:
    """Iterative self-attention with GTA positions on CLEVRTex, one block (Tab. `posenc`)."""
    return _clevrtex("clevrtex_itrsa_gta", ItrSAConfig(channels=256, position="gta"))


def clevrtex_vit() -> ObjectsRecipe:
    """A ViT of eight blocks on CLEVRTex, about as many parameters as AKOrN with two (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_vit", ViTConfig(channels=152))


def clevrtex_vit_wide() -> ObjectsRecipe:
    """A ViT of eight blocks on CLEVRTex with the table's 256 channels, and so more parameters (Tab. `clvtex`)."""
    return _clevrtex("clevrtex_vit_wide", ViTConfig(channels=256))


def imagenet_akorn() -> ObjectsRecipe:
    """Pre-training on ImageNet for PascalVOC and COCO (Tab. `real_settings`, `natural_images`); needs --data."""
    model = AkornConfig(image_size=256, patch=16, channels=768, blocks=3, steps=4, norm_c=True)
    data = DataConfig("imagenet", augment=AugmentConfig(flip=0.5))
    return ObjectsRecipe("imagenet_akorn", model, _train(400, 5e-4, 512), data)


RECIPES: dict[str, Callable[[], ObjectsRecipe]] = {
    recipe.__name__: recipe
    for recipe in (
        *(tetrominoes_akorn, tetrominoes_akorn_conv, tetrominoes_itrsa, tetrominoes_itrconv),
        *(dsprites_akorn, dsprites_akorn_conv, dsprites_itrsa, dsprites_itrconv),
        *(clevr_akorn, clevr_akorn_conv, clevr_itrsa, clevr_itrconv),
        *(shapes_akorn_l1, shapes_akorn_l2, shapes_akorn_l3, shapes_akorn_n2, shapes_akorn_n8, shapes_akorn_n16),
        *(shapes_akorn_conv, shapes_itrsa_l1, shapes_itrsa_l2, shapes_itrsa_l3, shapes_itrconv, shapes_vit),
        *(clevrtex_akorn_l1, clevrtex_akorn_l2, clevrtex_akorn_large, clevrtex_akorn_n2),
        *(clevrtex_akorn_no_proj, clevrtex_akorn_residual, clevrtex_akorn_ape, clevrtex_akorn_rope),
        *(clevrtex_itrsa_l1, clevrtex_itrsa_l2, clevrtex_itrsa_gta, clevrtex_vit, clevrtex_vit_wide),
        imagenet_akorn,
    )
}

SHIPPED: dict[str, str] = {
    "shapes": "shapes_akorn_l3",
    "tetrominoes": "tetrominoes_akorn",
    "dsprites": "dsprites_akorn",
}
"""Names of shipped weights → the recipes that made them."""
