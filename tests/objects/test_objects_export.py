"""Object-discovery models outside torch: the features that are clustered, from the same noise."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.export.facts import facts_of
from akorn.export.onnx_file import to_onnx
from akorn.models import WEIGHTS, card_of, create_model
from akorn.objects.config import AkornConvConfig, ItrSAConfig
from akorn.objects.export import program
from akorn.objects.model import build
from akorn.objects.net import ObjectsNet
from akorn.oscillators import energy

SHIPPED = ["tetrominoes", "dsprites", "shapes"]


@cache
def shipped(name: str) -> ObjectsNet:
    model = create_model(name, pretrained=True)
    assert isinstance(model, ObjectsNet)
    return model


@cache
def session(name: str) -> onnxruntime.InferenceSession:
    run = program(shipped(name))
    return onnxruntime.InferenceSession(to_onnx(run, facts_of(run, shipped(name), name, card_of(name) or "")))


def pictures(model: ObjectsNet, batch: int) -> Tensor:
    side = model.config.image_size
    return torch.rand(batch, model.config.image_channels, side, side, generator=torch.Generator().manual_seed(3))


def close(found: np.ndarray, wanted: Tensor) -> bool:
    return bool(np.abs(found - wanted.numpy()).max() < 1e-4 * np.abs(wanted.numpy()).max())


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", SHIPPED)
@torch.no_grad()
def test_features_are_the_models(name: str, batch: int) -> None:
    """The noise is what the model itself would draw."""
    model = shipped(name)
    pixels = pictures(model, batch)
    tokens = (batch, model.grid[0] * model.grid[1], model.config.channels)
    noise = torch.randn(tokens, generator=torch.Generator().manual_seed(5))
    fed = {"pixels": pixels.numpy(), "noise0": noise.numpy()}
    features, energies = session(name).run(["features", "energies"], fed)
    assert close(features, model.features(pixels, generator=torch.Generator().manual_seed(5)))
    states = model.trajectory(pixels, generator=torch.Generator().manual_seed(5))
    assert energies.shape == (batch, sum(len(block) - 1 for block in states))
    layer, x = model.blocks[0].layer, states[0][0].flatten(2).mT  # [B, tokens, C]: where the first block begins
    c = model.patches(2 * pixels - 1).flatten(2).mT
    assert close(energies[:, 0], energy(x, layer.coupling(x), layer.drive(c, 3)(0, x.shape)))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_file_says_what_it_is(name: str) -> None:
    facts = session(name).get_modelmeta().custom_metadata_map
    assert facts["card"] == (WEIGHTS / name / "README.md").read_text(encoding="utf-8")
    assert json.loads(facts["config"]) == {"task": "objects", **shipped(name).settings()}
    ports = json.loads(facts["interface"])
    for side, values in (("inputs", session(name).get_inputs()), ("outputs", session(name).get_outputs())):
        assert [(port["name"], port["shape"]) for port in ports[side]] == [
            (value.name, value.shape) for value in values
        ]


@torch.no_grad()
def test_convolutions_and_other_steps() -> None:
    torch.manual_seed(0)
    config = AkornConvConfig(image_size=16, image_channels=1, patch=4, channels=16, blocks=2, kernel=3, norm_c=True)
    model = build(config).eval()
    found = onnxruntime.InferenceSession(to_onnx(program(model, 2), {}))
    pixels, noise = pictures(model, 2), torch.randn(2, 16, 4, 4, generator=torch.Generator().manual_seed(5))
    features, energies = found.run(None, {"pixels": pixels.numpy(), "noise0": noise.numpy()})
    assert close(features, model.features(pixels, 2, generator=torch.Generator().manual_seed(5)))
    assert energies.shape == (2, 4)


def test_models_that_cannot_leave() -> None:
    with pytest.raises(AkornError, match="itrsa has no oscillators"):
        program(build(ItrSAConfig(image_size=16, patch=4, channels=16, heads=2)))
    with pytest.raises(AkornError, match="residual leaves the sphere"):
        program(build(AkornConvConfig(image_size=16, patch=4, channels=16, kernel=3, rule="residual")))
