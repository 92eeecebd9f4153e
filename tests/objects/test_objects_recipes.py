"""Recipes of object discovery: the paper's settings, and overrides."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import tyro

from akorn.engine.config import check as check_training
from akorn.objects.config import AkornConfig, AkornConvConfig, ItrConvConfig, ViTConfig, check
from akorn.objects.data.sets import SETS
from akorn.objects.model import build
from akorn.objects.recipes import RECIPES, ObjectsRecipe


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_whole(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe.name == name
    assert RECIPES[name].__doc__
    check(recipe.model)
    check_training(recipe.train)
    about = SETS[recipe.data.name]
    assert (recipe.model.image_size, recipe.model.image_channels) == (about.size, about.channels)
    assert name.startswith(recipe.data.name)


# Tables 9, 10 and 11: patch, patches a side, channels, T, epochs, rate, batch.
PAPER = {
    "tetrominoes_akorn": (4, 8, 128, 8, 50, 1e-3, 256),
    "dsprites_akorn": (4, 16, 128, 8, 50, 1e-3, 256),
    "clevr_akorn": (8, 16, 256, 8, 300, 1e-3, 256),
    "shapes_akorn_l3": (2, 20, 256, 4, 100, 1e-3, 256),
    "clevrtex_akorn_l2": (8, 16, 256, 8, 500, 5e-4, 256),
    "clevrtex_akorn_large": (8, 16, 512, 8, 1000, 5e-4, 256),
    "imagenet_akorn": (16, 16, 768, 4, 400, 5e-4, 512),
}


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_the_papers(name: str) -> None:
    recipe = RECIPES[name]()
    model, train = recipe.model, recipe.train
    assert isinstance(model, AkornConfig)
    side = model.image_size // model.patch
    found = (model.patch, side, model.channels, model.steps, train.epochs)
    assert (*found, train.optimiser.learning_rate, train.batch_size) == PAPER[name]
    assert (model.n, model.heads, model.gamma) == (4, 8, 0.5)
    assert model.norm_c == (recipe.data.name in ("shapes", "clevrtex", "imagenet"))
    assert (train.ema.decay, train.ema.every, train.ema.after) == (0.998, 10, 200)
    assert (train.optimiser.name, train.optimiser.clip, train.schedule.warmup) == ("adam", 0.0, 0)
    assert recipe.data.augment.flip == (0.5 if name == "imagenet_akorn" else 0.0)


def test_over_n_all_else_stays() -> None:
    """Figure 15: L = 1, T = 8 and 256 channels whatever N."""
    for n in (2, 4, 8, 16):
        recipe = RECIPES[f"shapes_akorn_n{n}"]()
        assert (recipe.model.n, recipe.model.blocks, recipe.model.steps, recipe.model.channels) == (n, 1, 8, 256)
        assert recipe.train == RECIPES["shapes_akorn_l1"]().train


def test_baselines_are_trained_as_akorn_is() -> None:
    for name, recipe in RECIPES.items():
        data = recipe().data.name
        blocks = "_l3" if name.endswith("_l3") else ""  # of Shapes, whose last weights count
        reference = next(other for key, other in RECIPES.items() if key.startswith(f"{data}_akorn{blocks}"))
        # The first two are trained for longer, the last has its average as a teacher.
        if name not in ("clevrtex_akorn_large", "photos_akorn_dense", "photos_akorn_teacher"):
            assert recipe().train == reference().train


def test_kernels_are_the_papers() -> None:
    for data, kernel in (("tetrominoes", 5), ("dsprites", 7), ("clevr", 9)):
        for kind in ("akorn_conv", "itrconv"):
            model = RECIPES[f"{data}_{kind}"]().model
            assert isinstance(model, AkornConvConfig | ItrConvConfig)
            assert (model.kernel, model.blocks, model.steps) == (kernel, 1, 8)


def test_blocks_and_dimensions_are_those_of_the_names() -> None:
    for name, recipe in RECIPES.items():
        model, last = recipe().model, name.rpartition("_")[2]
        if last[0] == "l" and last[1:].isdigit():
            assert model.blocks == int(last[1:])
        if last[0] == "n" and last[1:].isdigit():
            assert isinstance(model, AkornConfig)
            assert model.n == int(last[1:])
        if isinstance(model, ViTConfig):
            assert (model.blocks, model.steps) == (8, 1)


def test_shipped_weights_have_recipes() -> None:
    assert set(RECIPES.shipped) == {"shapes", "tetrominoes", "dsprites", "clevr", "photos"}
    assert all(
        RECIPES.shipped[name].startswith(f"{name}_akorn") and RECIPES.shipped[name] in RECIPES
        for name in RECIPES.shipped
    )


def test_settings_can_be_overridden_from_the_command_line() -> None:
    words = "--model.gamma 1.0 --model.norm-c --train.precision bf16 --model.recompute --data.augment.hue 0.2"
    words += " --init tetrominoes --valid.uptile 4 --train.optimiser.learning-rate 5e-4"
    kind = tyro.conf.AvoidSubcommands[ObjectsRecipe]
    recipe = tyro.cli(kind, args=words.split(), default=RECIPES["tetrominoes_akorn"]())
    before = RECIPES["tetrominoes_akorn"]()
    assert recipe.model == replace(before.model, gamma=1.0, norm_c=True, recompute=True)
    assert (recipe.train.precision, recipe.train.optimiser.learning_rate) == ("bf16", 5e-4)
    assert (recipe.data.augment.hue, recipe.init, recipe.valid.uptile) == (0.2, "tetrominoes", 4)


def test_reading_recipes_imports_no_torch() -> None:
    code = "import sys, akorn.objects.recipes, akorn.augment; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("ours", "baseline", "more"),
    [
        ("shapes_akorn_l1", "shapes_itrsa_l1", 0.0),
        ("shapes_akorn_l2", "shapes_itrsa_l2", -5.8),
        ("shapes_akorn_l3", "shapes_itrsa_l3", -8.5),
        ("clevrtex_akorn_l2", "clevrtex_itrsa_l2", -3.8),
        ("clevrtex_akorn_l2", "clevrtex_vit", -0.9),
        ("tetrominoes_akorn_conv", "tetrominoes_itrconv", 0.0),
    ],
)
def test_baselines_have_as_many_parameters_as_the_docs_say(ours: str, baseline: str, more: float) -> None:
    counts = [sum(p.numel() for p in build(RECIPES[name]().model).parameters()) for name in (baseline, ours)]
    assert 100 * (counts[0] / counts[1] - 1) == pytest.approx(more, abs=0.1)
