"""Trials of object discovery: recipes that no longer exist are still reproduced, to the last setting, by arguments."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from akorn.cli.train import parse
from akorn.engine.config import flatten
from akorn.errors import AkornError
from akorn.objects.data.sets import GENERATED
from akorn.objects.recipes import RECIPES
from akorn.objects.teacher_config import TeacherConfig

FILE = Path(__file__).parents[2] / "results" / "trials.toml"
TRIALS = {
    name: trial for name, trial in tomllib.loads(FILE.read_text(encoding="utf-8")).items() if trial["recipe"] in RECIPES
}

# As the recipes were when they were taken out.
BOTH = {
    "model.blocks": 8, "model.heads": 8, "model.position": "absolute", "model.recompute": False,
    "model.final_norm": False, "train.ema.warmup": False,  # as it was before these could be chosen
    "train.seed": 0, "train.steps": None, "train.batch_size": 256, "train.drop_last": True,
    "train.optimiser.name": "adam", "train.optimiser.betas": [0.9, 0.999], "train.optimiser.momentum": 0.9,
    "train.optimiser.weight_decay": 0.0, "train.optimiser.clip": 0.0,
    "train.schedule.name": "constant", "train.schedule.warmup": 0, "train.schedule.final": 0.0,
    "train.ema.decay": 0.998, "train.ema.every": 10, "train.ema.after": 200, "train.weights": "average",
    "train.precision": "bf16", "train.device": "auto", "train.compile": "auto", "train.graph": True,
    "train.deterministic": False, "train.checkpoint_every": 1000,
    "train.checkpoint_minutes": 10.0, "train.keep": 2, "train.shard_mb": 1024.0,
    "train.log_every": 50, "train.eval_every": 0, "train.tensorboard": True,
    "data.path": None, "data.count": None, "data.seed": 0, "data.fit": "crop", "data.augment.scale": [0.08, 1.0],
    "data.augment.ratio": [0.75, 4 / 3], "data.augment.shift": 0, "data.augment.flip": 0.0,
    "data.augment.brightness": 0.4, "data.augment.contrast": 0.4, "data.augment.saturation": 0.4,
    "data.augment.hue": 0.1, "data.augment.jitter": 0.8, "data.augment.grey": 0.2, "data.augment.noise": 0.0,
    "valid.path": None, "valid.count": 320, "valid.clusters": None, "valid.uptile": 1, "init": None, "temperature": 0.1,
    # what came later, as it was before
    "train.carry.segments": None, "train.carry.halt": True, "data.size": None, "data.bad": "refuse",
    "data.endless": False, "data.samples": None, "valid.size": None, "loss.simclr": 1.0, "loss.dense": 0.0,
    "loss.regions": 0.0, "loss.masked": 0.0, "loss.prototypes": 0.0, "loss.samples": 8, "loss.region_count": 8,
    "loss.within": True, "loss.hidden": 0.6, "loss.prototype_count": 512, "loss.alike": "colours",
    "train.ema.final": None, **flatten({"loss.teacher": json.loads(json.dumps(asdict(TeacherConfig())))}),
}  # fmt: skip
REMOVED: dict[str, dict[str, Any]] = {
    "shapes_vit": {
        "model.image_size": 40, "model.image_channels": 1, "model.patch": 2, "model.channels": 176,
        "train.epochs": 100, "train.optimiser.learning_rate": 0.001, "data.name": "shapes",
    },
    "clevrtex_vit_wide": {
        "model.image_size": 128, "model.image_channels": 3, "model.patch": 8, "model.channels": 256,
        "train.epochs": 500, "train.optimiser.learning_rate": 0.0005, "data.name": "clevrtex",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REMOVED)
def test_words_reproduce_the_removed_recipe(name: str) -> None:
    trial = TRIALS[name]
    recipe = parse([trial["recipe"], *trial["overrides"]]).settings
    settings = flatten(json.loads(json.dumps(asdict(recipe), default=str)))
    assert settings.pop("name") == trial["recipe"]  # a model's record names the recipe, and its overrides
    assert settings == BOTH | REMOVED[name]


def test_every_trial_is_known_here_and_is_no_recipe() -> None:
    assert set(TRIALS) == set(REMOVED)
    for name, trial in TRIALS.items():
        assert set(trial) == {"recipe", "overrides", "why"}
        assert trial["why"]
        with pytest.raises(AkornError, match=f"unknown recipe '{name}'"):
            parse([name])


def test_trials_of_generated_sets_need_no_data() -> None:
    assert REMOVED["shapes_vit"]["data.name"] in GENERATED
