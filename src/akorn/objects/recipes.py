"""Recipes for object discovery: one function per row of the paper's tables. Imports no torch.

Settings are those of Tables 9, 10 and 11; what these leave open (optimiser,
averages, views, where C is normalised) is published elsewhere, and our own choices are marked as such.
"""

from __future__ import annotations

from dataclasses import replace

from akorn.engine.config import Weights
from akorn.objects import recipes_photos as recipes_photos  # registers its recipes
from akorn.objects.config import (
    AkornConfig,
    AkornConvConfig,
    DataConfig,
    ItrConvConfig,
    ItrSAConfig,
    ModelConfig,
    ObjectsRecipe,
    ValidConfig,
    ViTConfig,
)
from akorn.objects.recipe_list import RECIPES, published_training

__all__ = ["RECIPES", "DataConfig", "ObjectsRecipe", "ValidConfig"]


def _tetrominoes(model: ModelConfig) -> ObjectsRecipe:
    """Table 9: 32 pixels in patches of 4, 128 channels, T = 8, 50 epochs."""
    model = replace(model, image_size=32, patch=4, channels=128)
    return ObjectsRecipe(model=model, train=published_training(50), data=DataConfig("tetrominoes"))


def _dsprites(model: ModelConfig) -> ObjectsRecipe:
    """Table 9: 64 pixels in patches of 4, 128 channels, T = 8, 50 epochs."""
    model = replace(model, image_size=64, patch=4, channels=128)
    return ObjectsRecipe(model=model, train=published_training(50), data=DataConfig("dsprites"))


def _clevr(model: ModelConfig) -> ObjectsRecipe:
    """Table 9: 128 pixels in patches of 8, 256 channels, T = 8, 300 epochs."""
    model = replace(model, image_size=128, patch=8, channels=256)
    return ObjectsRecipe(model=model, train=published_training(300), data=DataConfig("clevr"))


def _shapes(
    model: AkornConfig | AkornConvConfig | ItrSAConfig | ItrConvConfig, weights: Weights = "average", steps: int = 4
) -> ObjectsRecipe:
    """Table 9: 40 grey pixels in patches of 2, 256 channels, T = 4, 100 epochs."""
    model = replace(model, image_size=40, image_channels=1, patch=2, channels=256, steps=steps)
    return ObjectsRecipe(model=model, train=published_training(100, weights=weights), data=DataConfig("shapes"))


def _clevrtex(model: ModelConfig, epochs: int = 500) -> ObjectsRecipe:
    """Table 10: 128 pixels in patches of 8, T = 8, 500 epochs, a rate of 5e-4.

    The published commands have a rate of 1e-3 for one and two blocks: --train.optimiser.learning-rate 1e-3.
    """
    model = replace(model, image_size=128, patch=8)
    return ObjectsRecipe(model=model, train=published_training(epochs, 5e-4), data=DataConfig("clevrtex"))


# Tetrominoes (Table 14); kernels 5, 7 and 9 on Tetrominoes, dSprites and CLEVR are the paper's (the published command
# has 7 on CLEVR: --model.kernel 7).
@RECIPES.add(weights="tetrominoes")
def tetrominoes_akorn() -> ObjectsRecipe:
    """AKOrN with attention on Tetrominoes (Table 14)."""
    return _tetrominoes(AkornConfig())


@RECIPES.add
def tetrominoes_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on Tetrominoes (Table 14)."""
    return _tetrominoes(AkornConvConfig(kernel=5))


@RECIPES.add
def tetrominoes_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on Tetrominoes (Table 14)."""
    return _tetrominoes(ItrSAConfig())


@RECIPES.add
def tetrominoes_itrconv() -> ObjectsRecipe:
    """Iterative convolution on Tetrominoes (Table 14)."""
    return _tetrominoes(ItrConvConfig(kernel=5))


@RECIPES.add(weights="dsprites")
def dsprites_akorn() -> ObjectsRecipe:
    """AKOrN with attention on dSprites (Table 14)."""
    return _dsprites(AkornConfig())


@RECIPES.add
def dsprites_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on dSprites (Table 14)."""
    return _dsprites(AkornConvConfig(kernel=7))


@RECIPES.add
def dsprites_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on dSprites (Table 14)."""
    return _dsprites(ItrSAConfig())


@RECIPES.add
def dsprites_itrconv() -> ObjectsRecipe:
    """Iterative convolution on dSprites (Table 14)."""
    return _dsprites(ItrConvConfig(kernel=7))


@RECIPES.add(weights="clevr")
def clevr_akorn() -> ObjectsRecipe:
    """AKOrN with attention on CLEVR (Table 14)."""
    return _clevr(AkornConfig())


@RECIPES.add
def clevr_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on CLEVR (Table 14)."""
    return _clevr(AkornConvConfig(kernel=9))


@RECIPES.add
def clevr_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on CLEVR (Table 14)."""
    return _clevr(ItrSAConfig())


@RECIPES.add
def clevr_itrconv() -> ObjectsRecipe:
    """Iterative convolution on CLEVR (Table 14)."""
    return _clevr(ItrConvConfig(kernel=9))


# Shapes (Tables 15 and 16). C is normalised here. The convolutions' kernel and number of blocks are not
# published: 7 suits a grid of 20 × 20 patches as it does dSprites' 16 × 16, and three blocks match the model with
# attention.
_SHAPES = AkornConfig(norm_c=True)


@RECIPES.add
def shapes_akorn_l1() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, one block (Table 16)."""
    return _shapes(_SHAPES)


@RECIPES.add
def shapes_akorn_l2() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, two blocks (Table 16)."""
    return _shapes(replace(_SHAPES, blocks=2))


@RECIPES.add(weights="shapes")
def shapes_akorn_l3() -> ObjectsRecipe:
    """AKOrN with attention on Shapes, three blocks (Tables 15 and 16)."""
    return _shapes(replace(_SHAPES, blocks=3), weights="last")


@RECIPES.add
def shapes_akorn_n2() -> ObjectsRecipe:
    """AKOrN with N = 2 on Shapes, one block, T = 8 (Figure 15)."""
    return _shapes(replace(_SHAPES, n=2), steps=8)


@RECIPES.add
def shapes_akorn_n4() -> ObjectsRecipe:
    """AKOrN with N = 4 on Shapes, one block, T = 8 (Figure 15)."""
    return _shapes(replace(_SHAPES, n=4), steps=8)


@RECIPES.add
def shapes_akorn_n8() -> ObjectsRecipe:
    """AKOrN with N = 8 on Shapes, one block, T = 8 (Figure 15)."""
    return _shapes(replace(_SHAPES, n=8), steps=8)


@RECIPES.add
def shapes_akorn_n16() -> ObjectsRecipe:
    """AKOrN with N = 16 on Shapes, one block, T = 8 (Figure 15)."""
    return _shapes(replace(_SHAPES, n=16), steps=8)


@RECIPES.add
def shapes_akorn_conv() -> ObjectsRecipe:
    """AKOrN with convolution on Shapes (Table 15)."""
    return _shapes(AkornConvConfig(kernel=7, blocks=3, norm_c=True))


@RECIPES.add
def shapes_itrsa_l1() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, one block (Table 16)."""
    return _shapes(ItrSAConfig())


@RECIPES.add
def shapes_itrsa_l2() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, two blocks (Table 16)."""
    return _shapes(ItrSAConfig(blocks=2))


@RECIPES.add
def shapes_itrsa_l3() -> ObjectsRecipe:
    """Iterative self-attention on Shapes, three blocks (Tables 15 and 16)."""
    return _shapes(ItrSAConfig(blocks=3), weights="last")


@RECIPES.add
def shapes_itrconv() -> ObjectsRecipe:
    """Iterative convolution on Shapes (Table 15)."""
    return _shapes(ItrConvConfig(kernel=7, blocks=3))


# CLEVRTex (Tables 10 and 17); all need --data. C is normalised here.
_CLEVRTEX = AkornConfig(channels=256, norm_c=True)


@RECIPES.add
def clevrtex_akorn_l1() -> ObjectsRecipe:
    """AKOrN with attention on CLEVRTex, one block (Table 17); the published command has a rate of 1e-3."""
    return _clevrtex(_CLEVRTEX)


@RECIPES.add
def clevrtex_akorn_l2() -> ObjectsRecipe:
    """AKOrN with attention on CLEVRTex, two blocks (Table 17); the published command has a rate of 1e-3."""
    return _clevrtex(replace(_CLEVRTEX, blocks=2))


@RECIPES.add
def clevrtex_akorn_large() -> ObjectsRecipe:
    """The large AKOrN on CLEVRTex: two blocks, twice the channels and epochs (Table 17).

    The published command has batches of 512 and 1,024 epochs: --train.batch-size 512 --train.epochs 1024.
    """
    return _clevrtex(replace(_CLEVRTEX, blocks=2, channels=512), epochs=1000)


@RECIPES.add
def clevrtex_akorn_n2() -> ObjectsRecipe:
    """AKOrN with N = 2 on CLEVRTex, two blocks (Table 7)."""
    return _clevrtex(replace(_CLEVRTEX, blocks=2, n=2))


@RECIPES.add
def clevrtex_akorn_no_proj() -> ObjectsRecipe:
    """AKOrN without Proj on CLEVRTex, two blocks (Table 5)."""
    return _clevrtex(replace(_CLEVRTEX, blocks=2, rule="without-projection"))


@RECIPES.add
def clevrtex_akorn_residual() -> ObjectsRecipe:
    """The plain residual update, without Proj and Π, on CLEVRTex, two blocks (Table 6)."""
    return _clevrtex(replace(_CLEVRTEX, blocks=2, rule="residual"))


@RECIPES.add
def clevrtex_akorn_ape() -> ObjectsRecipe:
    """AKOrN with absolute positions on CLEVRTex, one block (Table 13)."""
    return _clevrtex(replace(_CLEVRTEX, position="absolute"))


@RECIPES.add
def clevrtex_akorn_rope() -> ObjectsRecipe:
    """AKOrN with rotary positions, learned from their usual values, on CLEVRTex, one block (Table 13)."""
    return _clevrtex(replace(_CLEVRTEX, position="learned-rotary"))


@RECIPES.add
def clevrtex_itrsa_l1() -> ObjectsRecipe:
    """Iterative self-attention on CLEVRTex, one block (Table 17)."""
    return _clevrtex(ItrSAConfig(channels=256))


@RECIPES.add
def clevrtex_itrsa_l2() -> ObjectsRecipe:
    """Iterative self-attention on CLEVRTex, two blocks (Table 17)."""
    return _clevrtex(ItrSAConfig(channels=256, blocks=2))


@RECIPES.add
def clevrtex_itrsa_gta() -> ObjectsRecipe:
    """Iterative self-attention with GTA positions on CLEVRTex, one block (Table 13)."""
    return _clevrtex(ItrSAConfig(channels=256, position="gta"))


@RECIPES.add
def clevrtex_vit() -> ObjectsRecipe:
    """A ViT of eight blocks on CLEVRTex, with about as many parameters as AKOrN with two blocks (Table 17)."""
    return _clevrtex(ViTConfig(channels=152))
