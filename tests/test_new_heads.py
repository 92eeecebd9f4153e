"""`create_model(num_classes=…)`: a new head on old weights; and the features before the head."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import akorn
from akorn import models
from akorn.errors import AkornError
from akorn.robustness import CifarNet

IMAGES = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def new_head(classes: int = 5, seed: int | None = 0) -> CifarNet:
    model = akorn.create_model("cifar10-conv", pretrained=True, num_classes=classes, seed=seed)
    assert isinstance(model, CifarNet)
    return model


def test_the_body_keeps_its_weights_and_the_head_is_new() -> None:
    old = akorn.create_model("cifar10-conv", pretrained=True)
    for classes in (5, 10):
        model = new_head(classes)
        assert not model.training
        assert model(IMAGES).shape == (2, classes)
        assert model.settings()["classes"] == classes
        for name, tensor in model.state_dict().items():
            if name.startswith("head."):
                assert tensor.shape[0] == classes
                assert classes != 10 or not torch.equal(tensor, old.state_dict()[name])
            else:
                assert torch.equal(tensor, old.state_dict()[name])
    features = model.embed(IMAGES, start_seed=1)
    torch.testing.assert_close(features, old.embed(IMAGES, start_seed=1))  # type: ignore[operator]


def test_the_seed_draws_the_head_and_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = new_head(seed=0), new_head(seed=0), new_head(seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)
    torch.manual_seed(3)
    third = new_head(seed=None)
    torch.manual_seed(3)
    assert torch.equal(third.head.weight, new_head(seed=None).head.weight)


def test_saved_and_loaded_again(tmp_path: Path) -> None:
    model = new_head(3)
    model.save_pretrained(tmp_path / "three", dtype="float32")
    loaded = models.load_model(tmp_path / "three")
    torch.testing.assert_close(loaded(IMAGES, start_seed=0), model(IMAGES, start_seed=0))


def test_models_without_weights_take_classes_too() -> None:
    for name in ("cifar10-resnet18", "tiny-imagenet-akorn-conv"):
        assert akorn.create_model(name, num_classes=7, seed=0)(IMAGES).shape == (2, 7)


@pytest.mark.parametrize("name", ["sudoku", "shapes", "sudoku-itrsa"])
def test_other_tasks_have_no_classes(name: str) -> None:
    with pytest.raises(AkornError, match=rf"num_classes is for the CIFAR-10 classifiers .*: '{name}' has no classes"):
        akorn.create_model(name, num_classes=3)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "three", True, 10**9])
def test_numbers_of_classes_that_cannot_be(wrong: object) -> None:
    with pytest.raises(AkornError, match="classes is"):
        akorn.create_model("cifar10-conv", num_classes=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_that_no_generator_takes(seed: int) -> None:
    with pytest.raises(AkornError, match="seed must be a whole number"):
        new_head(seed=seed)


def test_features_are_what_the_head_gets() -> None:
    model = akorn.create_model("cifar10-conv", pretrained=True)
    assert isinstance(model, CifarNet)
    seen = model.features(IMAGES, start_seed=0)
    assert seen.shape == (2, 256, 8, 8)
    torch.testing.assert_close(model.embed(IMAGES, start_seed=0), seen.mean((2, 3)))
    torch.testing.assert_close(model.head(model.embed(IMAGES, start_seed=0)), model(IMAGES, start_seed=0))
    with pytest.raises(ValueError, match="pictures are"):
        model.features(torch.zeros(1, 1, 32, 32))
    pieces = akorn.create_model("tetrominoes", pretrained=True)

    def draw() -> torch.Generator:
        return torch.Generator().manual_seed(1)

    features, embedded = pieces.features(IMAGES, None, draw()), pieces.embed(IMAGES, None, draw())  # type: ignore[operator]
    assert features.shape == (2, 128, 8, 8)
    torch.testing.assert_close(embedded, features.amax((2, 3)))
    torch.testing.assert_close(pieces.head(embedded), pieces(IMAGES, None, draw()))  # type: ignore[operator]
