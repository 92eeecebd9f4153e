"""Features as they are clustered: unit length, principal components, up-tiling; and those of frozen networks."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.objects.features import as_masks, as_points, enlarge, principal_components, uptile
from akorn.objects.frozen import FrozenFeatures, load_encoder


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("points", "channels"), [(40, 12), (12, 40)])
def test_principal_components_are_those_of_the_svd(points: int, channels: int) -> None:
    y = random(3, points, channels)
    found = principal_components(y, 5)
    centred = y - y.mean(1, keepdim=True)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    torch.testing.assert_close(found.abs(), (u * s[:, None])[:, :, :5].abs())
    most = found.gather(1, found.abs().argmax(1, keepdim=True))
    assert bool((most > 0).all())  # signs are fixed


def test_more_components_than_directions_are_zero() -> None:
    found = principal_components(random(1, 4, 3), 6)
    assert found.shape == (1, 4, 6)
    assert bool((found[:, :, 3:] == 0).all())
    with pytest.raises(ValueError, match="at least 1"):
        principal_components(random(1, 4, 3), 0)


@pytest.mark.parametrize("components", [7, 100])
def test_points_have_the_distances_of_reduced_unit_vectors(components: int) -> None:
    features = random(2, 20, 6, 5)
    points = as_points(features, components)
    unit = (features / features.norm(dim=1, keepdim=True)).flatten(2).mT
    reduced = principal_components(unit, components)
    torch.testing.assert_close(torch.cdist(points, points), torch.cdist(reduced, reduced), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(as_points(3.0 * features, components), points)  # lengths do not matter


def plain_uptile(images: Tensor, patch: int, factor: int) -> Tensor:
    """The paper's listing, written out."""
    height, width = images.shape[2:]
    stride = patch // factor
    larger = F.interpolate(images, (height + patch - stride, width + patch - stride), mode="bilinear")
    result = torch.zeros(len(images), 3, height // patch * factor, width // patch * factor, dtype=images.dtype)
    for r in range(factor):
        for s in range(factor):
            window = larger[:, :, r * stride : r * stride + height, s * stride : s * stride + width]
            result[:, :, r::factor, s::factor] = F.avg_pool2d(window, patch)
    return result


@pytest.mark.parametrize("factor", [1, 2, 3, 6])
def test_up_tiling_is_the_papers_loop(factor: int) -> None:
    images = random(2, 3, 12, 18)
    found = uptile(lambda windows: F.avg_pool2d(windows, 6), images, 6, factor)
    expected = plain_uptile(images, 6, factor)
    torch.testing.assert_close(found, expected)
    assert found.shape == (2, 3, 2 * factor, 3 * factor)


@pytest.mark.parametrize("factor", [0, 4, 5, 12])
def test_up_tiling_by_what_does_not_divide_the_patch(factor: int) -> None:
    with pytest.raises(AkornError, match=f"up-tiling by {factor} .* patch size, 6"):
        uptile(lambda windows: F.avg_pool2d(windows, 6), random(1, 3, 12, 12), 6, factor)


def test_enlargement_keeps_a_slope_and_refuses_nothing() -> None:
    slope = torch.arange(4.0).view(1, 1, 1, 4).expand(1, 2, 3, 4)
    larger = enlarge(slope, 2)
    assert larger.shape == (1, 2, 6, 8)
    torch.testing.assert_close(larger[0, 0, 0, 1:-1], torch.arange(6) * 0.5 + 0.25)
    assert enlarge(slope, 1) is slope
    with pytest.raises(AkornError, match="at least 1"):
        enlarge(slope, 0)


def test_masks_are_the_labels_of_the_nearest_patches() -> None:
    labels = torch.tensor([[0, 1, 2, 3]])
    assert as_masks(labels, (2, 2), (4, 4))[0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    assert as_masks(labels[:, :3], (1, 3), (1, 5))[0].tolist() == [[0, 0, 1, 2, 2]]


class FakeViT(nn.Module):
    """timm's interface: a class token, then one token a patch."""

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
    images = random(2, 3, 8, 12, seed=1).float().sigmoid()
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
    torch.save({"model": SimpleNamespace(a=1)}, other)  # would have to be unpickled
    with pytest.raises(AkornError, match="not readable"):
        load_encoder(net, other)
    other.write_text("no weights")
    with pytest.raises(AkornError, match="not readable"):
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
    with pytest.raises(AkornError, match="mocov3: timm has no weights"):
        FrozenFeatures.from_timm("mocov3")


def test_timm_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(AkornError, match=r"pip install 'akorn\[timm\]'"):
        FrozenFeatures.from_timm("dino")
