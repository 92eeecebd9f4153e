"""Adaptive attacks: the forward pass is the model's; the backward pass goes through only the last Kuramoto step of each
layer.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from robustness_toy import TINY, write_cifar
from torch import Tensor

from akorn import nn as akn
from akorn.errors import AkornError
from akorn.robustness.adaptive import adaptable, last_steps
from akorn.robustness.attacks import gradient_agreement
from akorn.robustness.checks import CheckSettings, check_defence
from akorn.robustness.config import AkornConfig, ItrConvConfig, ResNetConfig
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import EvalSettings
from akorn.robustness.model import AkornNet, build
from akorn.robustness.protocol import Request
from akorn.robustness.report import evaluate

LONGER = replace(TINY, steps=(3, 2, 1))


def pictures(count: int = 4) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(5))


def answers(model: AkornNet, images: Tensor) -> Tensor:
    return model(images, torch.Generator().manual_seed(1))


def hooks(model: AkornNet) -> list[bool]:
    """Whether each Kuramoto layer has a hook."""
    return [bool(layer._forward_pre_hooks) for layer in model.modules() if isinstance(layer, akn.KuramotoLayer)]


def test_forward_is_the_models_own() -> None:
    model = build(LONGER).eval()
    plain = answers(model, pictures())
    with last_steps(model):
        assert torch.equal(answers(model, pictures()), plain)
    assert torch.equal(answers(model, pictures()), plain)


def test_backward_is_the_last_step_of_each_layer() -> None:
    """Against the same layers written out: states of all steps but the last are constants."""
    torch.manual_seed(0)
    model = build(replace(LONGER, gamma=0.7)).double().eval()
    images = pictures().double().requires_grad_()
    with last_steps(model):
        (found,) = torch.autograd.grad(answers(model, images).square().sum(), images)
    c = model.stem(2 * images - 1)
    x = model.start(c, torch.Generator().manual_seed(1))
    stack = model.body
    for index, (block, steps) in enumerate(zip(stack.blocks, LONGER.steps, strict=True)):
        if index:
            x, c = stack.transitions[index - 1](x, c)
        for _ in range(steps):
            x = block.layer(x.detach(), c, 1)
        c = block.readout(x)
    logits = model.head(c.mean((2, 3)))
    (wanted,) = torch.autograd.grad(logits.square().sum(), images)
    assert wanted.abs().max() > 1e-6
    torch.testing.assert_close(found, wanted)
    (whole,) = torch.autograd.grad(answers(model, images).square().sum(), images)
    assert not torch.allclose(found, whole, rtol=0.01)


@pytest.mark.gpu
def test_fused_steps_have_the_same_gradients() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(0)
    model = build(replace(LONGER, gamma=0.3)).eval()
    found = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        model.to(device, dtype)
        images = pictures().to(device, dtype).requires_grad_()
        with last_steps(model):
            logits = model(images, start_seed=1)
        found.append([a.detach().cpu().double() for a in (logits, *torch.autograd.grad(logits.sum(), images))])
    for wanted, result in zip(*found, strict=True):
        torch.testing.assert_close(result, wanted, rtol=0.01, atol=0.01 * float(wanted.abs().max()))


def test_gradients_nearby_agree_where_those_through_all_steps_do_not() -> None:
    torch.manual_seed(0)
    model = build(AkornConfig(channels=(64, 64, 64), kernels=(5, 5, 5))).eval()
    images, labels = pictures(), torch.arange(4)
    plain = gradient_agreement(model, images, labels, 1, torch.Generator().manual_seed(0)).mean()
    with last_steps(model):
        known = gradient_agreement(model, images, labels, 1, torch.Generator().manual_seed(0)).mean()
    assert plain < 0.5
    assert known > 0.8


def test_hooks_go_even_after_an_error() -> None:
    model = build(TINY)
    with pytest.raises(ZeroDivisionError), last_steps(model):
        raise ZeroDivisionError
    assert not any(hooks(model))


@pytest.mark.parametrize(
    "config",
    [
        ResNetConfig(),
        ItrConvConfig(channels=(8, 8, 8), kernels=(3, 3, 3)),
        replace(TINY, wiring="without-c"),
        replace(TINY, wiring="stacked"),
    ],
)
def test_other_models_are_refused_before_anything_is_scored(
    config: AkornConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(config)
    assert not adaptable(model)
    with pytest.raises(AkornError, match="adaptive attacks are for AKOrN"), last_steps(model):
        pass
    monkeypatch.setattr("akorn.robustness.report.score", lambda *words, **options: pytest.fail("scored"))
    few = load_cifar10(write_cifar(tmp_path), "test").take(slice(2))
    with pytest.raises(AkornError, match="adaptive attacks are for AKOrN"):
        evaluate(model, few, Request(attacks=("pgd-adaptive",)), EvalSettings())


def watch(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> list[bool]:
    """Whether the model had gradients of only its last steps, each time that an attack was called there."""
    seen: list[bool] = []
    attack = getattr(import_module(module), name)

    def watched(model: AkornNet, *words: Any, **options: Any) -> Any:
        seen.append(any(hooks(model)))
        return attack(model, *words, **options)

    monkeypatch.setattr(f"{module}.{name}", watched)
    return seen


def test_both_attacks_have_scores_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    by_gradients = watch(monkeypatch, "akorn.robustness.attacked", "attacked_score")
    automatic = watch(monkeypatch, "akorn.robustness.attacked", "autoattack")
    few = load_cifar10(write_cifar(tmp_path), "test").take(slice(4))
    request = Request(attacks=("pgd-adaptive", "pgd", "autoattack-adaptive"), eot=2, steps=2, queries=5)
    found = evaluate(build(LONGER), few, request, EvalSettings())
    assert {"pgd", "pgd_adaptive", "autoattack_adaptive", "autoattack_adaptive_unattacked"} <= found.metrics.keys()
    assert found.details["scores"]["autoattack_adaptive"]["version"] == "rand"
    assert by_gradients == [True, False]
    assert automatic == [True]


def test_the_checks_compare_it_with_pgd(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch(monkeypatch, "akorn.robustness.checks", "attacked_score")
    settings = CheckSettings(steps=(1,), eot=(1,), epsilons=(8 / 255,), queries=0)
    found = check_defence(build(TINY), pictures(), torch.arange(4), settings)
    (adaptive,) = (check for check in found if check.name == "adaptive")
    assert list(adaptive.accuracies) == ["pgd", "last steps"]
    assert seen == [False, False, True, False]  # PGD, on the smoothed loss, with last steps, with one start fixed
