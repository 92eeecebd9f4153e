"""Recipes for photographs: pre-training without labels, scored on Pascal VOC and COCO. Imports no torch.

The paper trains on ImageNet at 256 pixels in patches of 16. Models of 64 pixels in patches of 4 have the same 16 × 16
tokens at a sixteenth of the pixels; they train on Tiny-ImageNet, on VOC's photographs without those of val, or on
both, from packs (`akorn data pack`). Any recipe takes other losses (`--loss.dense 1` and so on, see `LossConfig`).
"""

from __future__ import annotations

from dataclasses import replace

from akorn.augment.config import AugmentConfig
from akorn.engine.config import EmaConfig, ScheduleConfig
from akorn.objects.config import (
    AkornConfig,
    DataConfig,
    ItrSAConfig,
    LossConfig,
    ModelConfig,
    ObjectsRecipe,
    ValidConfig,
    ViTConfig,
)
from akorn.objects.recipe_list import RECIPES, published_training
from akorn.objects.teacher_config import TeacherConfig

_VIEWS = AugmentConfig(flip=0.5)


def _photos(model: ModelConfig, loss: LossConfig | None = None, epochs: int = 8) -> ObjectsRecipe:
    """64 pixels in patches of 4, pictures kept at 128; batches of 256, at a rate that falls along half a cosine.

    Eight epochs of Tiny-ImageNet and VOC's photographs together, 3,608 steps, take two minutes on one H200.
    """
    model = replace(model, image_size=64, patch=4)
    train = replace(published_training(epochs), schedule=ScheduleConfig("cosine", warmup=150))
    data = DataConfig("photos", augment=_VIEWS, size=128)
    return ObjectsRecipe(
        model=model,
        train=train,
        data=data,
        valid=ValidConfig(size=256),
        loss=loss if loss is not None else LossConfig(),
    )


_AKORN = AkornConfig(channels=256, blocks=3, steps=4, norm_c=True)  # Table 11, with a third of its channels


@RECIPES.add
def photos_akorn() -> ObjectsRecipe:
    """AKOrN on photographs of 64 pixels, three blocks: SimCLR as in the paper; needs --data."""
    return _photos(_AKORN)


@RECIPES.add(weights="photos")
def photos_akorn_dense() -> ObjectsRecipe:
    """AKOrN on photographs: SimCLR, and single patches that agree in both views; for --init photos_akorn's weights.

    A patch has the patches of other pictures as its negatives, not those of its own.
    """
    return _photos(_AKORN, LossConfig(dense=1.0, within=False), epochs=16)


@RECIPES.add
def photos_akorn_teacher() -> ObjectsRecipe:
    """AKOrN on photographs: SimCLR, single patches, and a teacher, the moving average of the weights; needs --data."""
    teacher = TeacherConfig(pictures=1.0, hidden=1.0, places=1.0)
    recipe = _photos(_AKORN, LossConfig(dense=1.0, within=False, teacher=teacher))
    ema = EmaConfig(decay=0.99, every=1, after=0, warmup=False, final=1.0)
    return replace(recipe, train=replace(recipe.train, ema=ema))


@RECIPES.add
def photos_itrsa() -> ObjectsRecipe:
    """Iterative self-attention on photographs, like photos_akorn; needs --data."""
    return _photos(ItrSAConfig(channels=256, blocks=3, steps=4))


@RECIPES.add
def photos_vit() -> ObjectsRecipe:
    """A ViT of eight blocks on photographs, with about as many parameters as photos_akorn; needs --data."""
    return _photos(ViTConfig(channels=168))


@RECIPES.add
def imagenet_akorn() -> ObjectsRecipe:
    """Pre-training on ImageNet for PascalVOC and COCO (Tables 2 and 11); needs --data."""
    model = AkornConfig(image_size=256, patch=16, channels=768, blocks=3, steps=4, norm_c=True)
    data = DataConfig("imagenet", augment=_VIEWS)
    return ObjectsRecipe(model=model, train=published_training(400, 5e-4, 512), data=data)
