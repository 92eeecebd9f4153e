"""Features of frozen networks: their patches in a grid, whatever the network's kind, and weights from files."""

import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.objects.frozen import FrozenFeatures, load_encoder


class FakeViT(nn.Module):
    """timm's interface: a class token, then one token per patch."""

    num_prefix_tokens = 1

    def __init__(self, patch: int = 4, width: int = 6) -> None:
        super().__init__()
        self.patch_embed = nn.Module()
        self.patch_embed.patch_size = (patch, patch)  # type: ignore[assignment]
        self.patch_embed.proj = nn.Conv2d(3, width, patch, patch)
        self.head = nn.Linear(width, 2)

    def forward_features(self, images: Tensor) -> Tensor:
        tokens = self.patch_embed.proj(images).flatten(2).mT  # type: ignore[operator]
        return torch.cat((torch.full_like(tokens[:, :1], 99.0), tokens), 1)


def test_frozen_features_are_the_patch_tokens() -> None:
    net = FakeViT()
    model = FrozenFeatures(net, "fake", mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    images = torch.rand(2, 3, 8, 12)
    found = model.features(images)
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1), 0.2
    torch.testing.assert_close(found, net.patch_embed.proj((images - mean) / std))  # type: ignore[operator]
    assert found.shape == (2, 6, 2, 3)
    assert model.config.patch == 4
    assert not found.requires_grad
    assert not model.train().training  # frozen
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_frozen_networks_of_another_kind() -> None:
    with pytest.raises(ValueError, match="forward_features"):
        FrozenFeatures(nn.Linear(2, 2))
    net = FakeViT()
    net.num_prefix_tokens = 3
    with pytest.raises(ValueError, match=r"expected \[B, 3 \+ 2·2, K\]"):
        FrozenFeatures(net).features(torch.rand(1, 3, 8, 8))
    net.patch_embed.patch_size = (4, 2)  # type: ignore[assignment]
    with pytest.raises(ValueError, match="patch size"):
        FrozenFeatures(net)


class FakeStages(nn.Module):
    """timm's interface to networks of several stages: a picture of features, in the format that the network reports."""

    def __init__(self, output_fmt: str | None = None, only: int | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 4, 4)
        self.feature_info = [{"reduction": 2}, {"reduction": 4}]
        self.patch_embed = nn.Module()
        self.patch_embed.patch_size = (2, 2)  # type: ignore[assignment]  # of the first stage
        self.nhwc, self.only = output_fmt == "NHWC", only
        if output_fmt is not None:
            self.output_fmt = output_fmt

    def forward_features(self, images: Tensor) -> Tensor:
        assert self.only in (images.shape[2], None), f"Input height ({images.shape[2]}) doesn't match ({self.only})."
        return self.conv(images).movedim(1, 3) if self.nhwc else self.conv(images)  # type: ignore[no-any-return]


@pytest.mark.parametrize("output_fmt", [None, "NCHW", "NHWC"])
def test_features_of_stages_come_in_the_format_that_the_network_says(output_fmt: str | None) -> None:
    net = FakeStages(output_fmt)
    model = FrozenFeatures(net, mean=(0.0,) * 3, std=(1.0,) * 3)
    images = torch.rand(1, 3, 8, 24)
    assert model.config.patch == 4
    torch.testing.assert_close(model.features(images), net.conv(images))  # [1, 6, 2, 6]


def test_features_in_an_unknown_format_are_refused() -> None:
    net = FakeStages("NHWC")
    del net.output_fmt
    with pytest.raises(AkornError, match=r"returned features \[1, 2, 6, 6\], expected \[B, K, 2, 6\]"):
        FrozenFeatures(net).features(torch.rand(1, 3, 8, 24))
    with pytest.raises(
        AkornError, match=r"returned features \[1, 6, 2, 6\], expected \[B, K, 4, 12\]"
    ):  # another patch
        FrozenFeatures(FakeStages(), patch=2).features(torch.rand(1, 3, 8, 24))


def test_pictures_of_a_size_that_the_network_does_not_take() -> None:
    model = FrozenFeatures(FakeStages(only=16), "fixed", image_size=16)
    assert model.features(torch.rand(1, 3, 16, 16)).shape == (1, 6, 4, 4)
    message = (
        r"fixed does not accept pictures of 8 × 8 pixels \(Input height .*\); its own size is 16 × 16 \(--size 16\)"
    )
    with pytest.raises(AkornError, match=message):
        model.features(torch.rand(1, 3, 8, 8))
    with pytest.raises(AssertionError, match="Input height"):  # at its own size, what fails is something else
        FrozenFeatures(FakeStages(only=8), image_size=16).features(torch.rand(1, 3, 16, 16))


def test_tokens_without_a_word_on_class_tokens() -> None:
    class Tokens(FakeStages):
        def forward_features(self, images: Tensor) -> Tensor:
            return self.conv(images).flatten(2).mT  # type: ignore[no-any-return]

    net, images = Tokens(), torch.rand(1, 3, 8, 8)
    found = FrozenFeatures(net, mean=(0.0,) * 3, std=(1.0,) * 3).features(images)
    torch.testing.assert_close(found, net.conv(images))


class FakeTimm(ModuleType):
    """timm's `create_model` for networks that each know other options."""

    KNOWN: ClassVar = {"vit_base_patch16_224": "dynamic_img_size", "swin": "strict_img_size", "resnet18": None}

    def __init__(self) -> None:
        super().__init__("timm")
        self.options: list[dict[str, object]] = []

    def create_model(self, name: str, pretrained: bool, num_classes: int, **options: object) -> nn.Module:
        if name not in self.KNOWN:
            raise RuntimeError(f"Unknown model ({name})")
        for option in options:
            if option != self.KNOWN[name]:
                raise TypeError(f"Net.__init__() got an unexpected keyword argument '{option}'")
        self.options.append(options)
        net = FakeStages() if name == "resnet18" else FakeStages("NHWC") if name == "swin" else FakeViT()
        net.pretrained_cfg = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "input_size": (3, 8, 8)}  # type: ignore[assignment]
        return net


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> FakeTimm:
    """A stand-in for timm."""
    fake = FakeTimm()
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_base_patch16_224", {"dynamic_img_size": True}),
        ("swin", {"strict_img_size": False}),
        ("resnet18", {}),
    ],
)
def test_options_go_to_networks_that_know_them(timm: FakeTimm, name: str, options: dict[str, object]) -> None:
    model = FrozenFeatures.from_timm(name, pretrained=False)
    assert timm.options == [options]
    assert model.features(torch.rand(1, 3, 8, 12)).shape == (1, 6, 2, 3)
    assert model.mean.flatten().tolist() == [0.5] * 3


def test_colours_of_moco_are_imagenets(timm: FakeTimm, tmp_path: Path) -> None:
    """And not those of timm's own weights for the same architecture."""
    torch.save(FakeViT().state_dict(), tmp_path / "moco.pth")
    model = FrozenFeatures.from_timm("mocov3", weights=tmp_path / "moco.pth")
    assert model.config.image_size == 8
    torch.testing.assert_close(model.mean.flatten(), torch.tensor([0.485, 0.456, 0.406]))
    torch.testing.assert_close(model.std.flatten(), torch.tensor([0.229, 0.224, 0.225]))


def test_other_mistakes_in_a_networks_making_are_said(timm: FakeTimm, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AkornError, match=r"no_such: timm cannot create this network \(Unknown model"):
        FrozenFeatures.from_timm("no_such")
    monkeypatch.setattr(timm, "create_model", lambda name: None)
    with pytest.raises(AkornError, match="unexpected keyword argument 'pretrained'"):
        FrozenFeatures.from_timm("resnet18")


@pytest.mark.parametrize("wrapping", ["plain.safetensors", "dino.pth", "moco.pth"])
def test_weights_of_an_encoder_from_a_file(wrapping: str, tmp_path: Path) -> None:
    source, net = FakeViT(), FakeViT()
    tensors = {name: tensor for name, tensor in source.state_dict().items() if not name.startswith("head.")}
    file = tmp_path / wrapping
    if wrapping == "plain.safetensors":
        save_file(tensors, file)
    elif wrapping == "dino.pth":
        torch.save({"teacher": {f"backbone.{name}": t for name, t in tensors.items()}, "epoch": 3}, file)
    else:
        inside = {f"module.base_encoder.{name}": t for name, t in tensors.items()}
        inside["module.base_encoder.head.0.weight"] = inside["module.momentum_encoder.x"] = torch.zeros(1)
        torch.save({"state_dict": inside}, file)
    load_encoder(net, file)
    images = torch.rand(1, 3, 8, 8)
    torch.testing.assert_close(net.forward_features(images), source.forward_features(images))


def test_files_that_hold_no_encoder(tmp_path: Path) -> None:
    net = FakeViT()
    other = tmp_path / "other.pth"
    torch.save({"model": {"patch_embed.proj.bias": torch.zeros(6)}}, other)
    with pytest.raises(AkornError, match=r"patch_embed\.proj\.weight' is not in the file"):
        load_encoder(net, other)
    torch.save(FakeViT(width=5).state_dict(), other)
    with pytest.raises(AkornError, match=r"is \[5"):
        load_encoder(net, other)
    torch.save({"teacher": net.state_dict(), "args": Namespace(a=1)}, other)  # would have to be unpickled
    with pytest.raises(AkornError) as found:
        load_encoder(net, other)
    told = "not readable as plain tensors of torch (it contains argparse.Namespace, which is never unpickled)"
    assert str(found.value) == f"{other}: {told}; save only its tensors"
    for text in ("no weights", "in some words", "config: of\nsomething", "", "\n", "{}"):  # each fails in its own way
        other.write_text(text)
        with pytest.raises(AkornError, match=r"other.pth: not a file of weights, expected safetensors or a torch.save"):
            load_encoder(net, other)
    with pytest.raises(AkornError, match="cannot be read"):
        load_encoder(net, tmp_path / "absent.pth")


def test_a_network_of_timm_with_random_weights() -> None:
    pytest.importorskip("timm")
    model = FrozenFeatures.from_timm("vit_tiny_patch16_224", pretrained=False)
    assert model.features(torch.rand(1, 3, 64, 96)).shape == (1, 192, 4, 6)
    assert model.config.patch == 16
    with pytest.raises(AkornError, match="no_such_network"):
        FrozenFeatures.from_timm("no_such_network", pretrained=False)


def test_weights_that_timm_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", ModuleType("timm"))
    with pytest.raises(AkornError, match="mocov3: timm does not have its weights"):
        FrozenFeatures.from_timm("mocov3")


def test_timm_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(AkornError, match=r"pip install 'akorn\[timm\]'"):
        FrozenFeatures.from_timm("dino")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ('RuntimeError("operator torchvision::nms does not exist\\nmore")', "RuntimeError: operator torchvision::nms"),
        ('ModuleNotFoundError("No module named \'torchvision\'", name="torchvision")', "No module named 'torchvision'"),
    ],
)
def test_timm_that_cannot_be_imported(failure: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a torchvision for another torch."""
    (tmp_path / "timm.py").write_text(f"raise {failure}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(AkornError, match=f"dino: timm is installed but cannot be imported .*{said}") as found:
        FrozenFeatures.from_timm("dino")
    assert "\n" not in str(found.value)
    assert "pip install" not in str(found.value)
