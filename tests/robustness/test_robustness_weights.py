"""The classifier that ships: small, with a card, and right about most pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.hub import load_weights, read_folder
from akorn.models import WEIGHTS, create_model, training_of
from akorn.robustness.model import build
from akorn.robustness.recipes import RECIPES
from akorn.rooms import config_of

SHEETS = Path(__file__).parents[3] / "shared" / "data" / "cifar10"


@pytest.mark.parametrize("name", RECIPES.shipped)
def test_the_classifier_that_ships(name: str) -> None:
    assert (WEIGHTS / name / "model.safetensors").stat().st_size < 16_000_000
    card = (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    for word in ("recipe", "seed", "data", "accuracy"):
        assert word in card
    assert (training_of(name) or {})["recipe"] == RECIPES.shipped[name]


# What the weights that ship answered to this picture when they were rounded to 8 bits; new weights have other numbers.
LOGITS = [2.94877, 5.77867, 3.08068, 1.34947, -1.36398, -3.81232, -2.73279, -6.25116, 3.66594, 1.27849]


@torch.no_grad()
def test_the_answers_stay_whatever_settings_come_after() -> None:
    picture = torch.arange(3 * 32 * 32).reshape(1, 3, 32, 32).mul(7) % 256 / 255
    shipped = create_model("cifar10-conv", pretrained=True)(picture, start_seed=0)
    torch.testing.assert_close(shipped, torch.tensor([LOGITS]), rtol=0, atol=2e-3)
    stored = read_folder(WEIGHTS / "cifar10-conv")
    later = ("g", "gamma", "learn_gamma")  # a folder from before these could be chosen lacks them
    old = build(
        config_of("robustness", {name: value for name, value in stored.settings.items() if name not in later})
    ).eval()
    load_weights(old, stored.weights, WEIGHTS / "cifar10-conv")
    torch.testing.assert_close(old(picture, start_seed=0), shipped, rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.skipif(not SHEETS.is_dir(), reason=f"the real CIFAR-10 is not there: {SHEETS}")
def test_real_pictures() -> None:
    """The first 120 test pictures: three rows of 40 on the first sheet."""
    with Image.open(SHEETS / "test-00.webp") as sheet:
        pixels = np.asarray(sheet.convert("RGB").crop((0, 0, 1280, 96))).reshape(3, 32, 40, 32, 3)
    images = torch.from_numpy(pixels.transpose(0, 2, 4, 1, 3).reshape(120, 3, 32, 32) / np.float32(255))
    labels = torch.from_numpy(np.load(SHEETS / "labels.npz")["test"][:120].astype(np.int64))
    model = create_model("cifar10-conv", pretrained=True)
    with torch.no_grad():
        logits = model(images, torch.Generator().manual_seed(0))
    assert (logits.argmax(1) == labels).float().mean() >= 0.78
    assert torch.nn.functional.cross_entropy(logits, labels) < 0.65
