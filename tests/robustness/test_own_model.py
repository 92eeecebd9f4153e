"""Your own network, scored like akorn's models."""

from __future__ import annotations

import pytest
import torch
from robustness_toy import Templates, template_pictures
from torch import Tensor, nn

import akorn
from akorn.errors import AkornError
from akorn.robustness import CLASSES, PGD, EvalSettings, OwnModel, Pictures, benchmark, score
from akorn.robustness.protocol import Request


class Plain(nn.Module):
    """Takes only pictures, as most networks do."""

    def __init__(self, side: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.inside, self.classes = Templates(side=side), classes

    def forward(self, images: Tensor) -> Tensor:
        return self.inside(images)[:, : self.classes]  # type: ignore[no-any-return]


def pictures(count: int = 20, side: int = 32) -> Pictures:
    return Pictures(*template_pictures(count, side=side), CLASSES)


def test_all_scores_of_a_plain_module() -> None:
    net = Plain().train()
    few = Request(steps=10)
    found = benchmark(net, pictures(), corruptions=("contrast", "gaussian_noise"), request=few)
    assert set(found) == {"clean", "ece", "noise", "noise_uniform", "pgd", "corrupted", "corrupted_ece"}
    assert found["clean"] == 100
    assert found["pgd"] < found["clean"]
    assert all(0 <= value <= 100 for value in found.values())
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert found == benchmark(net, pictures(), corruptions=("contrast", "gaussian_noise"), request=few)


def test_the_figures_are_those_of_the_parts() -> None:
    net, test = Plain(), pictures()
    found = benchmark(net, test, attacks=(), corruptions=("fog",), severity=3)
    clean = score(OwnModel(net), test.images, test.labels)
    worse = torch.from_numpy(akorn.robustness.corrupt(test.images.numpy(), "fog", 3))
    fog = score(OwnModel(net), worse, test.labels)
    assert (found["clean"], found["ece"]) == (clean.accuracy, clean.ece)
    assert (found["corrupted"], found["corrupted_ece"]) == (fog.accuracy, fog.ece)


@pytest.mark.slow
def test_autoattack_takes_it_too() -> None:
    pytest.importorskip("pyautoattack")
    found = benchmark(Plain(), pictures(8), attacks=("autoattack",), corruptions=(), request=Request(queries=10))
    assert found["autoattack"] < found["autoattack_unattacked"] == 100


def test_limit_and_models_of_akorn() -> None:
    model = akorn.create_model("cifar10-akorn-conv", channels=(8, 8, 16), kernels=(3, 3, 3), seed=0)
    found = benchmark(model, pictures(), attacks=(), corruptions=(), limit=4, settings=EvalSettings(starts=2))
    assert found["clean"] in (0, 25, 50, 75, 100)


def test_a_module_without_parameters() -> None:
    class Means(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.mean((2, 3))

    adapted = OwnModel(Means())
    images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 2, 0])
    assert score(adapted, images, labels).probabilities.shape == (4, 3)
    assert PGD(steps=2)(adapted, images, labels, torch.Generator()).shape == images.shape


@pytest.mark.parametrize(
    ("net", "options", "message"),
    [
        (Plain(classes=5), {}, r"the model gives \[2, 5\] for 2 pictures, expected \[2, 10 or more\]"),
        (nn.Identity(), {}, r"the model gives \[2, 3, 32, 32\]"),
        (nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), {"attacks": ("pgdd",)}, "unknown attack 'pgdd'"),
        (Plain(), {"attacks": ("pgd-adaptive",)}, "adaptive attacks are for AKOrN"),
        (Plain(), {"corruptions": ("rain",)}, "rain"),
        (Plain(), {"severity": 6}, "severity"),
        (Plain(), {"limit": 0}, "limit must be at least 1"),
    ],
)
def test_what_cannot_be_scored(net: nn.Module, options: dict[str, object], message: str) -> None:
    with pytest.raises(AkornError, match=message):
        benchmark(net, pictures(), **{"attacks": (), "corruptions": (), **options})  # type: ignore[arg-type]


def test_pictures_from_0_to_255_are_refused() -> None:
    images, labels = template_pictures(4, side=32)
    assert score(OwnModel(Plain()), images / 255, labels).accuracy == 100
    for call in (lambda x: OwnModel(Plain())(x), lambda x: score(OwnModel(Plain()), x, labels)):
        with pytest.raises(
            ValueError, match=r"pictures are from 0 to 1, got values up to 1\d\d: divide those from 0 to 255"
        ):
            call(images.float())
    with pytest.raises(ValueError, match=r"uint8 \[B, 3, H, W\], from 0 to 255, got torch.float32"):
        Pictures(images / 255, labels, CLASSES)


def test_a_wrapped_network_is_one_graph() -> None:
    """Values are not read while compiling."""
    images = template_pictures(2, side=32)[0] / 255
    adapted = OwnModel(Plain())
    compiled = torch.compile(adapted, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images), adapted(images))


def test_pictures_of_another_size_cannot_be_corrupted() -> None:
    with pytest.raises(AkornError, match=r"32 × 32 pixels, got 8 × 8; corruptions=\(\) leaves them out"):
        benchmark(Plain(side=8), pictures(side=8))
    assert benchmark(Plain(side=8), pictures(side=8), attacks=(), corruptions=())["clean"] == 100


def test_logits_that_are_not_finite_are_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    with torch.no_grad():
        net[1].bias[3] = float("nan")
    with pytest.raises(AkornError, match="logits that are not finite"):
        benchmark(net, pictures(), attacks=(), corruptions=())
