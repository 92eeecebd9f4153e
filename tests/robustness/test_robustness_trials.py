"""Trials on CIFAR-10: recipes that no longer exist are still reproduced by arguments, and their models can still be
used.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from robustness_toy import write_cifar

from akorn.cli.train import parse
from akorn.engine.config import flatten
from akorn.errors import AkornError
from akorn.robustness.commands import evaluate
from akorn.robustness.recipes import RECIPES

FILE = Path(__file__).parents[2] / "results" / "trials.toml"
TRIALS = {
    name: trial for name, trial in tomllib.loads(FILE.read_text(encoding="utf-8")).items() if trial["recipe"] in RECIPES
}

# As the recipes were when they were taken out.
COMMON: dict[str, Any] = {
    "train.seed": 0,
    "train.epochs": 400,
    "train.steps": None,
    "train.batch_size": 128,
    "train.drop_last": True,
    "train.optimiser.name": "adam",
    "train.optimiser.learning_rate": 0.0001,
    "train.optimiser.betas": [0.9, 0.999],
    "train.optimiser.momentum": 0.9,
    "train.optimiser.weight_decay": 0.0,
    "train.optimiser.clip": 0.0,
    "train.schedule.name": "constant",
    "train.schedule.warmup": 0,
    "train.schedule.final": 0.0,
    "train.ema.decay": 0.99,
    "train.ema.every": 10,
    "train.ema.after": 200,
    "train.ema.warmup": False,
    "train.weights": "average",
    "train.precision": "bf16",
    "train.device": "auto",
    "train.compile": "auto",
    "train.graph": True,
    "train.deterministic": False,
    "train.checkpoint_every": 1000,
    "train.keep": 2,
    "train.shard_mb": 1024.0,
    "train.log_every": 50,
    "train.eval_every": 0,
    "train.tensorboard": True,
    "data.path": None,
    "data.augment.scale": [0.2, 1.0],
    "data.augment.ratio": [0.75, 4 / 3],
    "data.augment.shift": 0,
    "data.augment.flip": 0.5,
    "data.augment.brightness": 0.4,
    "data.augment.contrast": 0.4,
    "data.augment.saturation": 0.4,
    "data.augment.hue": 0.1,
    "data.augment.jitter": 1.0,
    "data.augment.grey": 0.0,
    "data.augment.noise": 0.0,
    "data.augmix": True,
    "data.augmix_operations": "nine",
    "data.noise": 0.0,
    "data.order": ["augment", "augmix", "noise"],
    "data.limit": None,
    "valid.path": None,
    "valid.count": 5000,  # what is scored meanwhile changes no training
    "init": None,
    "channels_last": True,
}
AKORN: dict[str, Any] = {
    "model.channels": [64, 128, 256],
    "model.kernels": [9, 7, 5],
    "model.steps": [3, 3, 3],
    "model.n": 2,
    "model.n_out": 2,
    "model.attention": False,
    "model.heads": 8,
    "model.omega": True,
    "model.gamma": 1.0,
    "model.learn_gamma": False,
    "model.rule": "kuramoto",
    "model.readout": "norm",
    "model.g": "residual",
    "model.wiring": "two-streams",
    "model.start": "random",
    "model.size": 32,
    "model.recompute": False,
    "model.gradient_steps": None,
    "model.head": "classes",
    "model.classes": 10,
}
ITRCONV: dict[str, Any] = {
    "model.channels": [64, 128, 256],
    "model.kernels": [9, 7, 5],
    "model.steps": [3, 3, 3],
    "model.head": "classes",
    "model.classes": 10,
}
RESNET: dict[str, Any] = {
    "model.width": 64,
    "model.blocks": [2, 2, 2, 2],
    "model.noise": None,
    "model.head": "classes",
    "model.classes": 10,
}
REMOVED: dict[str, dict[str, Any]] = {
    "cifar10_akorn_conv_last_step": AKORN | {"model.gradient_steps": 1, "train.schedule.name": "linear"},
    "cifar10_itrconv_fast": ITRCONV
    | {"train.epochs": 200, "train.optimiser.learning_rate": 0.001, "train.schedule.name": "linear"},
    "cifar10_itrconv_crop_last": ITRCONV | {"data.order": ["augmix", "noise", "augment"]},
    "cifar10_resnet18_fast": RESNET
    | {"train.epochs": 200, "train.optimiser.learning_rate": 0.001, "train.schedule.name": "linear"},
    "cifar10_resnet18_crop_last": RESNET | {"data.order": ["augmix", "noise", "augment"]},
    "cifar10_resnet18_crop_last_falling_rate": RESNET
    | {"train.epochs": 50, "train.schedule.name": "linear", "data.order": ["augmix", "noise", "augment"]},
    "cifar10_resnet18_crop_last_high_rate": RESNET
    | {
        "train.optimiser.learning_rate": 0.001,
        "train.schedule.name": "linear",
        "data.order": ["augmix", "noise", "augment"],
    },
    "cifar10_resnet18_noise02_fast": RESNET
    | {"train.epochs": 200, "train.optimiser.learning_rate": 0.001, "train.schedule.name": "linear", "data.noise": 0.2},
    "cifar10_resnet18_noise02_augmix_last": RESNET | {"data.noise": 0.2, "data.order": ["augment", "noise", "augmix"]},
    "cifar10_resnet18_always_noise02": RESNET
    | {
        "model.noise": 0.2,
        "train.optimiser.learning_rate": 0.001,
        "train.schedule.name": "linear",
        "data.order": ["augmix", "noise", "augment"],
    },
    "cifar10_resnet18_noise0225_fast": RESNET
    | {
        "train.epochs": 200,
        "train.optimiser.learning_rate": 0.001,
        "train.schedule.name": "linear",
        "data.noise": 0.225,
    },
    "cifar10_resnet18_noise0225_augmix_last": RESNET
    | {"data.noise": 0.225, "data.order": ["augment", "noise", "augmix"]},
    "cifar10_resnet18_always_noise0225": RESNET
    | {
        "model.noise": 0.225,
        "train.optimiser.learning_rate": 0.001,
        "train.schedule.name": "linear",
        "data.order": ["augmix", "noise", "augment"],
    },
    "cifar10_resnet18_usual": RESNET
    | {
        "train.epochs": 100,
        "train.optimiser.name": "sgd",
        "train.optimiser.learning_rate": 0.1,
        "train.optimiser.weight_decay": 0.0005,
        "train.schedule.name": "cosine",
        "train.schedule.warmup": 390,
        "data.augment.scale": [1.0, 1.0],
        "data.augment.ratio": [1.0, 1.0],
        "data.augment.shift": 4,
        "data.augment.jitter": 0.0,
        "data.augmix": False,
    },
}


def flat(recipe: Any) -> dict[str, Any]:
    return flatten(json.loads(json.dumps(asdict(recipe), default=str)))


@pytest.mark.parametrize("name", REMOVED)
def test_words_reproduce_the_removed_recipe(name: str) -> None:
    trial, was = TRIALS[name], COMMON | REMOVED[name]
    recipe = flat(RECIPES[trial["recipe"]]())
    settings = flat(parse([trial["recipe"], *trial["overrides"]]).settings)
    assert {key: settings[key] for key in was} == was
    newer = settings.keys() - was.keys()
    assert {key: settings[key] for key in newer} == {key: recipe[key] for key in newer}
    assert settings["name"] == trial["recipe"]  # a model's record names the recipe, and its overrides


def test_every_trial_is_known_here_and_is_no_recipe() -> None:
    assert set(TRIALS) == set(REMOVED)
    for name, trial in TRIALS.items():
        assert set(trial) == {"recipe", "overrides", "why"}
        assert trial["why"]
        with pytest.raises(AkornError, match=f"unknown recipe '{name}'"):
            parse([name])


@pytest.mark.parametrize("name", ["cifar10_resnet18_usual", "cifar10_resnet18_crop_last_falling_rate"])
def test_a_model_of_a_removed_recipe_is_still_evaluated(name: str, model_folder: Path, tmp_path: Path) -> None:
    origin = {"recipe": name, "seed": 3, "overrides": {"init": "before"} if "falling" in name else {}}
    (model_folder / "training.json").write_text(json.dumps(origin))
    options = evaluate.Options(
        model=str(model_folder), data=write_cifar(tmp_path / "data"), device="cpu", results=tmp_path / "results"
    )
    assert evaluate.run(options) == 0
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "results").iterdir())
    assert (record["name"], record["seed"]) == (name, 3)
    assert record["config"]["pretrained"] is False  # what it went on from was trained on CIFAR-10
