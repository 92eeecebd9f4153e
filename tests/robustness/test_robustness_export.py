"""Classifiers outside torch: the same probabilities from the same noise."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import onnxruntime
import pytest
import torch

from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.export.facts import facts_of
from akorn.export.onnx_file import to_onnx
from akorn.models import WEIGHTS, card_of, create_model
from akorn.robustness.config import AkornConfig, ResNetConfig
from akorn.robustness.export import program
from akorn.robustness.model import AkornNet, build
from akorn.robustness.net import CifarNet

NAME = "cifar10-conv"


@cache
def shipped() -> CifarNet:
    model = create_model(NAME, pretrained=True)
    assert isinstance(model, CifarNet)
    return model


@cache
def session() -> onnxruntime.InferenceSession:
    run = program(shipped())
    return onnxruntime.InferenceSession(to_onnx(run, facts_of(run, shipped(), NAME, card_of(NAME) or "")))


@pytest.mark.parametrize("batch", [1, 3])
@torch.no_grad()
def test_probabilities_are_the_models(batch: int) -> None:
    """The noise is what the model itself would draw."""
    pixels = torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(batch, 64, 32, 32, generator=torch.Generator().manual_seed(5))
    chances, energies, confidence = session().run(None, {"pixels": pixels.numpy(), "noise0": noise.numpy()})
    wanted = shipped()(pixels, torch.Generator().manual_seed(5)).softmax(-1)
    np.testing.assert_allclose(chances, wanted.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(confidence, wanted.amax(-1).numpy(), rtol=1e-4, atol=1e-4)
    assert chances.shape == (batch, 10)
    model = shipped()
    assert isinstance(model, AkornNet)
    evolutions, _ = model.body.evolve(noise, model.stem(2 * pixels - 1), model.config.steps, energy=osc.energy)  # type: ignore[operator]
    for block, wanted in enumerate(evolution.energies.T for evolution in evolutions):
        np.testing.assert_allclose(energies[:, 3 * block : 3 * block + 3], wanted.numpy(), rtol=1e-4)
    assert energies.shape == (batch, 9)


def test_the_file_says_what_it_is() -> None:
    facts = session().get_modelmeta().custom_metadata_map
    assert facts["card"] == (WEIGHTS / NAME / "README.md").read_text(encoding="utf-8")
    assert json.loads(facts["config"])["channels"] == [64, 128, 256]
    ports = json.loads(facts["interface"])
    for side, values in (("inputs", session().get_inputs()), ("outputs", session().get_outputs())):
        assert [(port["name"], port["shape"]) for port in ports[side]] == [
            (value.name, value.shape) for value in values
        ]


@torch.no_grad()
def test_without_a_random_start_there_is_no_noise() -> None:
    torch.manual_seed(0)
    model = build(ResNetConfig()).eval()
    found = onnxruntime.InferenceSession(to_onnx(program(model), {}))
    assert [value.name for value in found.get_inputs()] == ["pixels"]
    pixels = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    chances = found.run(["probabilities"], {"pixels": pixels.numpy()})[0]
    np.testing.assert_allclose(chances, model(pixels).softmax(-1).numpy(), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(AkornError, match="SimCLR's head"):
        program(build(AkornConfig(channels=(8, 8, 8), head="projection")))
    with pytest.raises(AkornError, match="--steps 4: a classifier runs as many steps as in training"):
        program(shipped(), 4)
