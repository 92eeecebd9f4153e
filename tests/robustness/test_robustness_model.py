"""The CIFAR models: interface, random starts, ablations, settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from robustness_toy import TINY
from torch import Tensor, nn

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.hub import load_weights, read_folder, write_folder
from akorn.nn.convolution import Conv2d
from akorn.robustness.config import (
    AkornConfig,
    ItrConvConfig,
    ModelConfig,
    ResNetConfig,
    ViTConfig,
    check,
)
from akorn.robustness.model import AkornNet, CifarNet, ResNetNet, WithoutNormalisation, build
from akorn.robustness.recipes import cifar10_akorn_conv_no_omega
from akorn.rooms import config_of
from akorn.settings import as_json

MIX = replace(TINY, attention=True, heads=2)
BASELINES: list[ModelConfig] = [
    ItrConvConfig(channels=(8, 8, 16), kernels=(3, 3, 3), steps=(2, 1, 1)),
    ResNetConfig(width=4, blocks=(1, 1)),
    ViTConfig(channels=16, heads=2, blocks=1),
]
NOISY = ResNetConfig(width=4, blocks=(1, 1), noise=0.2)
ABLATIONS: list[ModelConfig] = [
    replace(TINY, rule="without-projection"),
    replace(TINY, omega=False),
    replace(TINY, wiring="without-c"),
    replace(TINY, readout="linear"),
    replace(TINY, wiring="stacked"),
    replace(TINY, rule="without-normalisation"),
    replace(TINY, rule="residual"),
    replace(TINY, start="stimulus"),
    replace(TINY, start="learned"),
    replace(TINY, n=4, n_out=4),
    replace(TINY, g="plain"),
    replace(TINY, readout="linear", g="plain"),
    replace(TINY, learn_gamma=True),
    replace(TINY, wiring="stacked", learn_gamma=True),
    replace(TINY, gradient_steps=1),
    replace(TINY, start="stimulus", gradient_steps=1),
    MIX,
]


@pytest.fixture
def images() -> Tensor:
    return torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def made(config: ModelConfig) -> CifarNet:
    torch.manual_seed(0)
    return build(config).eval()


@torch.no_grad()
@pytest.mark.parametrize("config", [TINY, *ABLATIONS, *BASELINES, NOISY])
def test_every_model_gives_logits_and_learns(config: ModelConfig, images: Tensor) -> None:
    model = made(config).train()
    with torch.enable_grad():
        logits = model(images, torch.Generator().manual_seed(0))
        logits.square().sum().backward()
    assert logits.shape == (3, 10)
    assert logits.dtype == torch.float32
    without = [name for name, p in model.named_parameters() if p.grad is None]
    assert without == []  # nothing is built that has no part in the answer


@torch.no_grad()
@pytest.mark.parametrize("config", [TINY, MIX, replace(TINY, rule="residual"), NOISY])
def test_random_starts_and_fixed_ones(config: ModelConfig, images: Tensor) -> None:
    model = made(config)
    assert model.random_start

    def ask(seed: int) -> Tensor:
        return model(images, torch.Generator().manual_seed(seed))

    torch.testing.assert_close(ask(1), ask(1), rtol=0, atol=0)
    assert not torch.allclose(ask(1), ask(2))
    model.fix_start(5)
    assert not model.random_start
    fixed = ask(1)
    torch.testing.assert_close(fixed, ask(2), rtol=0, atol=0)
    torch.testing.assert_close(model(images[1:2]), fixed[1:2])  # a function of the picture, whatever stands beside it
    model.fix_start(6)
    assert not torch.allclose(ask(1), fixed)
    model.fix_start(None)
    assert model.random_start
    torch.testing.assert_close(model(images, start_seed=5), fixed)
    with pytest.raises(ValueError, match="-1"):
        model.fix_start(-1)


@torch.no_grad()
@pytest.mark.parametrize("config", [*BASELINES, replace(TINY, start="stimulus"), replace(TINY, wiring="stacked")])
def test_models_without_a_random_start_are_functions(config: ModelConfig, images: Tensor) -> None:
    model = made(config)
    assert not model.random_start
    torch.testing.assert_close(model(images), model(images), rtol=0, atol=0)


@torch.no_grad()
def test_pixels_enter_between_minus_one_and_one(images: Tensor) -> None:
    model = made(TINY)
    seen: list[Tensor] = []
    assert isinstance(model, AkornNet)
    model.stem.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    model(images)
    torch.testing.assert_close(seen[0], 2 * images - 1)


@torch.no_grad()
@pytest.mark.parametrize("training", [False, True])
def test_a_noisy_resnet_adds_noise_of_its_size_whatever_it_does(training: bool) -> None:
    model, seen = made(NOISY).train(training), []
    assert isinstance(model, ResNetNet)
    model.body.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    grey = torch.full((16, 3, 32, 32), 0.5)  # in the middle between −1 and 1
    model(grey, torch.Generator().manual_seed(0))
    model(grey, start_seed=0)
    for pixels in seen:
        assert float(pixels.mean()) == pytest.approx(0, abs=0.02)
        assert float(pixels.std()) == pytest.approx(2 * 0.2, rel=0.02)
    assert not torch.equal(seen[0][0], seen[0][1])  # a draw a picture
    assert torch.equal(seen[1][0], seen[1][1])


def test_a_resnet_of_before_there_was_noise_has_none() -> None:
    model = build(config_of("robustness", {"architecture": "resnet", "width": 4, "blocks": [1]}))
    assert not model.random_start


def test_the_paper_model() -> None:
    model = build(AkornConfig())
    assert isinstance(model, AkornNet)
    assert sum(p.numel() for p in model.parameters()) == 7_023_821
    assert sum(2 * t.numel() for t in model.state_dict().values()) < 16e6  # what ships has 16 bits
    assert isinstance(model.body, akn.KuramotoStack)
    layers = [m for m in model.modules() if isinstance(m, akn.KuramotoLayer)]
    assert [layer.coupling.kernel_size for layer in layers] == [9, 7, 5]
    for layer in layers:
        assert isinstance(layer.omega, akn.PairwiseFrequency)
        assert float(layer.omega.rate.detach()) == 1.0
        assert layer.omega.rate.requires_grad
        assert float(layer.gamma) == 1.0
        assert not isinstance(layer.gamma, nn.Parameter)
        assert isinstance(layer.stimulus, akn.GroupNorm)
        assert layer.stimulus.num_groups == layer.channels // 2
    assert [type(t) for t in model.body.transitions or ()] == [akn.Transition] * 2  # one convolution for X and C
    with torch.no_grad():
        assert model.eval().features(torch.zeros(1, 3, 32, 32)).shape == (1, 256, 8, 8)


def test_ablations_take_away_what_they_name() -> None:
    def parts(config: ModelConfig, kind: type[nn.Module]) -> list[nn.Module]:
        return [module for module in build(config).modules() if isinstance(module, kind)]

    assert len(parts(TINY, akn.Readout)) == 3
    assert len(parts(replace(TINY, wiring="stacked"), akn.Readout)) == 1
    assert len(parts(replace(TINY, wiring="stacked"), akn.GroupNorm)) == 0
    assert len(parts(replace(TINY, readout="linear"), akn.LinearReadout)) == 3
    assert not parts(replace(TINY, omega=False), akn.PairwiseFrequency)
    layers = parts(MIX, akn.KuramotoLayer)
    assert [type(layer.coupling) for layer in layers] == [akn.ConvCoupling] * 2 + [akn.AttentionCoupling]


def test_the_paper_and_the_published_settings_differ_in_g_and_in_gamma() -> None:
    def shapes(config: ModelConfig) -> dict[str, torch.Size]:
        return {name: p.shape for name, p in build(config).named_parameters()}

    ours, plain, learned = shapes(TINY), shapes(replace(TINY, g="plain")), shapes(replace(TINY, learn_gamma=True))
    channels = {8: 2, 16: 1}  # two blocks of 8 channels, one of 16
    unit = {c: 2 * c + 9 * c * c + c for c in channels}  # BatchNorm and convolution, of which a residual block has two
    fewer = sum(2 * unit[c] * count for c, count in channels.items())
    assert sum(s.numel() for s in ours.values()) - sum(s.numel() for s in plain.values()) == fewer
    for module in build(replace(TINY, g="plain")).modules():
        if isinstance(module, akn.Readout):
            assert [type(part) for part in module.g.children()] == [nn.BatchNorm2d, nn.ReLU, Conv2d]
    assert sorted(set(learned) - set(ours)) == [f"body.blocks.{k}.layer.gamma" for k in range(3)]
    for gamma in (0.25, 1.0):
        for learn in (False, True):
            for module in build(replace(TINY, gamma=gamma, learn_gamma=learn)).modules():
                if isinstance(module, akn.KuramotoLayer):
                    assert float(module.gamma.detach()) == gamma
                    assert isinstance(module.gamma, nn.Parameter) == learn


def test_without_omega_half_the_step_is_the_published_update() -> None:
    """There x replaces Ωx: Π[x + γ(x + Proj(force))] with γ = 1 is Π[x + ½ Proj(force)]."""
    config = cifar10_akorn_conv_no_omega().model
    assert isinstance(config, AkornConfig)
    assert not config.omega
    generator = torch.Generator().manual_seed(0)
    x, force = (torch.randn(5, 4, 2, dtype=torch.float64, generator=generator) for _ in range(2))
    x = osc.normalize(x)
    published = akn.Kuramoto().step(x, force, x, 1.0, -1)
    torch.testing.assert_close(akn.Kuramoto().step(x, force, None, config.gamma, -1), published)


def test_without_normalisation_only_pi_is_missing() -> None:
    generator = torch.Generator().manual_seed(0)
    x, force = (torch.randn(5, 4, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    rule = WithoutNormalisation()
    moved = rule.step(x, force, None, 0.7, -1) - x
    torch.testing.assert_close((moved * x).sum(-1), torch.zeros(5, 4, dtype=torch.float64))  # in the tangent space
    unit = osc.normalize(x)
    after = rule.step(unit, force, 0.1 * x, 0.7, -1)
    torch.testing.assert_close(osc.normalize(after), akn.Kuramoto().step(unit, force, 0.1 * x, 0.7, -1))


@torch.no_grad()
def test_channels_last_changes_nothing(images: Tensor) -> None:
    model = made(TINY)
    expected = model(images, start_seed=1)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    last = images.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(last, start_seed=1), expected)


SETTINGS = AkornConfig(g="plain", gamma=0.5, learn_gamma=True)


@pytest.mark.parametrize("config", [AkornConfig(n=4), SETTINGS, MIX, *BASELINES, NOISY])
def test_settings_there_and_back(config: ModelConfig) -> None:
    import json

    assert config_of("robustness", json.loads(json.dumps(as_json(config)))) == config


def test_settings_from_before_g_and_gamma_could_be_chosen() -> None:
    old = as_json(AkornConfig(n=4))
    for name in ("g", "gamma", "learn_gamma"):
        del old[name]
    assert config_of("robustness", old) == AkornConfig(n=4, g="residual", gamma=1.0, learn_gamma=False)


def test_a_model_in_a_folder(tmp_path: Path, images: Tensor) -> None:
    model = made(TINY)
    write_folder(tmp_path / "model", model, "float32")
    stored = read_folder(tmp_path / "model")
    assert stored.task == "robustness"
    again = build(config_of("robustness", stored.settings)).eval()
    load_weights(again, stored.weights, tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(again(images, start_seed=0), model(images, start_seed=0))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (replace(TINY, n=3), "n=3"),
        (replace(TINY, kernels=(3, 3)), "kernels is"),
        (replace(TINY, kernels=(3, 4, 3)), "kernels has 4"),
        (replace(TINY, steps=(1, 0, 1)), "steps is"),
        (replace(TINY, rule="magic"), "rule is 'magic'"),  # type: ignore[arg-type]
        (replace(TINY, channels=()), "channels is"),
        (replace(TINY, g="deep"), "g is 'deep', expected one of residual, plain"),  # type: ignore[arg-type]
        (replace(TINY, gamma=0.0), "gamma is 0.0, expected a number above 0"),
        (replace(TINY, gamma=float("nan")), "gamma is nan"),
        (replace(TINY, learn_gamma=1), "learn_gamma is 1, expected true or false"),  # type: ignore[arg-type]
        (replace(TINY, gradient_steps=0), "gradient_steps is 0, expected a whole number of at least 1, or none"),
        (replace(TINY, gradient_steps=1, wiring="without-c"), "gradient_steps cuts all gradients"),
        (replace(TINY, gradient_steps=1, start="learned"), "a learned start without gradients"),
        (replace(MIX, heads=3), "3 heads"),
        (replace(MIX, heads=8), "multiple of 4"),
        (replace(MIX, size=34), "size is 34"),
        (ViTConfig(patch=5), "patches of 5"),
        (ResNetConfig(width=0), "width is 0"),
        (replace(NOISY, noise=-0.1), "noise is -0.1, expected a number above 0, or none"),
        (replace(NOISY, noise=float("nan")), "noise is nan"),
    ],
)
def test_impossible_settings_are_refused(config: ModelConfig, words: str) -> None:
    with pytest.raises(AkornError, match=words):
        check(config)
    with pytest.raises(AkornError, match=words):
        build(config)


def test_foreign_settings_and_pictures_are_refused() -> None:
    with pytest.raises(AkornError, match="architecture is 'vgg'"):
        config_of("robustness", {"architecture": "vgg"})
    with pytest.raises(AkornError, match="unknown setting 'colour'"):
        config_of("robustness", {"architecture": "resnet", "colour": 1})
    model = made(TINY)
    for wrong in (torch.zeros(2, 1, 32, 32), torch.zeros(3, 32, 32), torch.zeros(2, 3, 32, 32, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="pictures are"):
            model(wrong)


@pytest.mark.parametrize("config", [TINY, replace(TINY, readout="linear")])
def test_g_works_in_the_type_of_autocast(config: AkornConfig) -> None:
    """As residual networks do; without autocast it is float32."""
    net, seen = build(config), []
    for module in net.modules():
        if isinstance(module, akn.Readout):
            module.g.register_forward_hook(lambda _module, inputs, out: seen.append((inputs[0].dtype, out.dtype)))
    pictures = torch.rand(2, 3, 32, 32)
    with torch.autocast("cpu", torch.bfloat16):
        net(pictures)
    net(pictures)
    assert seen == [(torch.bfloat16, torch.bfloat16)] * 3 + [(torch.float32, torch.float32)] * 3


def test_heads_pool_by_the_mean_for_classes_and_by_the_maximum_for_pre_training(images: Tensor) -> None:
    for head, pool in (("classes", lambda c: c.mean((2, 3))), ("projection", lambda c: c.amax((2, 3)))):
        model = build(replace(TINY, head=head)).eval()
        c = model.features(images, None, 3)
        torch.testing.assert_close(model(images, start_seed=3), model.head(pool(c)))
