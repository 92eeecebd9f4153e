"""Channels last in memory, the recipes' default: training is the same, also on a CPU, and saved files are too."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from robustness_toy import TINY, write_cifar

from akorn.engine import TrainResult, load_weights, train
from akorn.robustness.config import AkornConfig, ItrConvConfig, ResNetConfig
from akorn.robustness.model import CifarNet, ModelConfig, build
from akorn.robustness.recipes import RECIPES, ValidConfig, cifar10_akorn_conv
from akorn.robustness.task import make_task

MIX = replace(TINY, attention=True, heads=2)


def run(folder: Path, out: Path, model: AkornConfig, steps: int, last: bool, resume: bool = False) -> TrainResult:
    recipe = cifar10_akorn_conv()
    options = replace(recipe.train, device="cpu", precision="float32", tensorboard=False, batch_size=10, steps=steps)
    recipe = replace(recipe, model=model, train=options, data=replace(recipe.data, path=folder), channels_last=last,
                     valid=ValidConfig(count=8))  # fmt: skip
    return train(make_task(recipe), recipe.train, out, resume)


def test_the_recipes_have_channels_last() -> None:
    assert all(recipe().channels_last for recipe in RECIPES.values())


@pytest.mark.parametrize("model", [replace(TINY, gamma=0.1), replace(MIX, gamma=0.1)])  # without chaos
def test_it_trains_alike_on_a_cpu(tmp_path: Path, model: AkornConfig) -> None:
    folder = write_cifar(tmp_path)
    last, first = (run(folder, tmp_path / str(flag), model, 3, flag) for flag in (True, False))
    assert last.loss == pytest.approx(first.loss, rel=1e-5)  # the mean of the three steps
    assert all(tensor.is_contiguous() for tensor in load_weights(tmp_path / "True").values())


def test_a_resumed_run_is_the_whole_one(tmp_path: Path) -> None:
    folder = write_cifar(tmp_path)
    run(folder, tmp_path / "whole", TINY, 4, True)
    run(folder, tmp_path / "parts", TINY, 2, True)
    run(folder, tmp_path / "parts", TINY, 4, True, resume=True)
    whole = load_weights(tmp_path / "whole")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in load_weights(tmp_path / "parts").items())


def test_model_files_do_not_show_it(tmp_path: Path) -> None:
    result = run(write_cifar(tmp_path), tmp_path / "run", TINY, 2, True)
    model = result.model
    assert isinstance(model, CifarNet)
    assert any(p.ndim == 4 and not p.is_contiguous() for p in model.parameters())
    plain = copy.deepcopy(model).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    assert all(p.is_contiguous() for p in plain.parameters())
    for name, one in (("last", model), ("plain", plain)):
        one.save_pretrained(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "last").iterdir())
    assert all((tmp_path / "plain" / f).read_bytes() == (tmp_path / "last" / f).read_bytes() for f in files)
    images = torch.rand(3, 3, 32, 32)
    again = CifarNet.from_pretrained(tmp_path / "last")
    assert all(p.is_contiguous() for p in again.parameters())
    assert again(images, start_seed=1).shape == (3, 10)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("config", [AkornConfig(), ItrConvConfig(), ResNetConfig()])
def test_no_layer_leaves_it_on_a_gpu(config: ModelConfig) -> None:
    model = build(config).cuda()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    left: list[str] = []

    def look(name: str, out: object) -> None:
        for array in out if isinstance(out, tuple) else (out,):
            pictures = isinstance(array, torch.Tensor) and array.ndim == 4
            if pictures and not array.is_contiguous(memory_format=torch.channels_last):
                left.append(name)

    for name, module in model.named_modules():
        module.register_forward_hook(lambda _module, _given, out, name=name: look(name, out))  # type: ignore[misc]
    with torch.autocast("cuda", torch.bfloat16):
        model(torch.rand(4, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)).sum().backward()
    # A random start is drawn channels first and brought in order once, by the first layer.
    assert [name for name in left if name != "start"] == []
