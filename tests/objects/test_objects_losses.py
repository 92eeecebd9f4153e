"""The terms of the loss besides SimCLR's, and where views lie in their pictures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from akorn import engine
from akorn.augment import two_views
from akorn.augment.config import AugmentConfig
from akorn.augment.views import located_views
from akorn.engine.contrastive import nt_xent
from akorn.engine.curves import read_curve
from akorn.errors import AkornError
from akorn.models import load_model
from akorn.objects.config import AkornConfig, LossConfig
from akorn.objects.contrast import balanced, paired_contrast, swapped_prediction
from akorn.objects.losses import LossParts, hidden_patches
from akorn.objects.model import build
from akorn.objects.places import colour_regions, feature_regions, matches, patch_at, places, region_means, seen_regions
from akorn.objects.recipes_photos import photos_akorn
from akorn.objects.task import make_task

GRID = (8, 8)
PLAIN = AugmentConfig(flip=0.5, jitter=0.0, grey=0.0)
SMALL = AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2, norm_c=True)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ramps(count: int = 6, side: int = 32) -> Tensor:
    """Pictures that show their own coordinates: row, column and a constant."""
    line = (torch.arange(side) + 0.5) / side
    down, across = torch.meshgrid(line, line, indexing="ij")
    return torch.stack((down, across, torch.full_like(down, 0.5))).expand(count, -1, -1, -1).contiguous()


def test_located_views_are_the_two_views() -> None:
    config = AugmentConfig(flip=0.5)
    found = located_views(ramps(), config, seeded(), size=(16, 16))
    torch.testing.assert_close(found.images, two_views(ramps(), config, seeded(), size=(16, 16)), rtol=0, atol=0)
    with pytest.raises(ValueError, match="shifted views cannot be located"):
        located_views(ramps(), replace(config, shift=2), seeded())


def test_a_patch_shows_the_place_that_is_said() -> None:
    views = located_views(ramps(), PLAIN, seeded(), size=(32, 32))
    assert 0 < int(views.mirrored.sum()) < len(views.mirrored)
    seen = torch.nn.functional.avg_pool2d(views.images, 4)[:, :2].flatten(2).mT  # [V, h·w, row and column]
    torch.testing.assert_close(places(views.boxes, views.mirrored, GRID), seen, rtol=0, atol=0.02)


def test_a_patch_is_found_at_its_own_place() -> None:
    views = located_views(ramps(), PLAIN, seeded(), size=(32, 32))
    found, inside = patch_at(places(views.boxes, views.mirrored, GRID), views.boxes, views.mirrored, GRID)
    assert bool(inside.all())
    assert bool((found == torch.arange(64)).all())


def test_matches_show_the_same_place() -> None:
    views = located_views(ramps(40), PLAIN, seeded(), size=(32, 32))
    first, second, inside = matches(views, GRID, 64, seeded(1))
    where = places(views.boxes, views.mirrored, GRID).chunk(2)
    pairs = [
        half.gather(1, which[:, :, None].expand(-1, -1, 2)) for half, which in zip(where, (first, second), strict=True)
    ]
    size = (views.boxes.chunk(2)[1][:, 2:] / 8)[:, None]  # height and width of a patch of the second view
    assert 0.3 < float(inside.float().mean()) < 1
    assert bool((((pairs[0] - pairs[1]).abs() <= 0.5 * size + 1e-5).all(2) | ~inside).all())


def test_one_pair_per_picture_is_nt_xent() -> None:
    first, second = torch.randn(2, 6, 5, generator=seeded()).unbind()
    valid = torch.ones(6, 1, dtype=torch.bool)
    expected = nt_xent(first, second, temperature=0.2)
    for within in (True, False):
        found = paired_contrast(first[:, None], second[:, None], valid, 0.2, within=within)
        torch.testing.assert_close(found, expected)


def test_pairs_that_are_not_valid_count_nowhere() -> None:
    first, second = torch.randn(2, 4, 3, 5, generator=seeded()).unbind()
    valid = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]]).bool()
    moved = torch.where(valid[:, :, None], second, 100 * torch.randn(4, 3, 5, generator=seeded(1)))
    for loss in (
        lambda other: paired_contrast(first, other, valid, 0.1),
        lambda other: paired_contrast(first, other, valid, 0.1, within=False),
        lambda other: swapped_prediction(first, other, valid, torch.randn(7, 5, generator=seeded(2)), 0.1),
    ):
        torch.testing.assert_close(loss(second), loss(moved))
        assert bool(loss(second).isfinite())


def test_assignments_are_balanced() -> None:
    scores = torch.rand(400, 4, generator=seeded()) + torch.tensor([0.3, 0.0, 0.0, 0.0])  # the first is liked most
    shares = balanced(scores, torch.ones(400))
    torch.testing.assert_close(shares.sum(1), torch.ones(400))
    assert shares.mean(0).tolist() == pytest.approx([0.25] * 4, abs=0.03)
    assert float((scores.softmax(1) / 1).mean(0)[0]) > 0.28


@pytest.mark.parametrize("temperature", [0.001, 0.01, 0.05, 1.0])
def test_all_rows_of_assignments_sum_to_one(temperature: float) -> None:
    scores = 2 * torch.rand(60, 5, generator=seeded()) - 1
    scores[0] = -1.0
    weight = (torch.arange(60) % 3 > 0).float()
    shares = balanced(scores, weight, temperature)
    torch.testing.assert_close(shares.sum(1), torch.ones(60))
    torch.testing.assert_close(shares[weight > 0], balanced(scores[weight > 0], torch.ones(40), temperature))
    torch.testing.assert_close(balanced(scores, torch.zeros(60), temperature).sum(1), torch.ones(60))


def test_balancing_divides_by_columns_and_rows_in_turn() -> None:
    scores = 2 * torch.rand(60, 5, generator=seeded()) - 1
    expected = (scores.double() / 0.1).exp()
    for _ in range(3):
        expected = expected / expected.sum(0)
        expected = expected / expected.sum(1, keepdim=True)
    torch.testing.assert_close(balanced(scores, torch.ones(60), 0.1), expected.float())


def test_regions_follow_colours() -> None:
    images = torch.zeros(2, 3, 32, 32)
    images[:, 0, :, :8], images[:, 2, :, 8:] = 1, 1
    labels = colour_regions(images, 2)
    assert bool((labels[:, :, :8] == labels[:, :1, :1]).all())
    assert bool((labels[:, :, 8:] != labels[:, :1, :1]).all())
    whole, flipped = torch.tensor([[0.0, 0.0, 1.0, 1.0]] * 2), torch.tensor([False, True])
    seen = seen_regions(labels, whole, flipped, GRID).unflatten(1, GRID)
    assert bool((seen[1].flip(1) == seen[0]).all())
    means, size = region_means(torch.arange(64.0)[None, :, None].repeat(2, 1, 1), seen.flatten(1), 2)
    assert sorted(size[0].tolist()) == [16, 48]
    torch.testing.assert_close((means[:, :, 0] * size).sum(1), torch.full((2,), 64 * 63 / 2))


def test_regions_follow_features_whatever_their_length() -> None:
    features = torch.zeros(1, 4, 8, 8)
    features[:, 0, :, :3], features[:, 1, :, 3:] = 1.0, 1.0
    features *= torch.rand(1, 1, 8, 8, generator=seeded()) + 0.1  # only the direction counts
    labels = feature_regions(features, 2)
    assert labels.shape == (1, 8, 8)
    assert bool((labels[:, :, :3] == labels[:, :1, :1]).all())
    assert bool((labels[:, :, 3:] != labels[:, :1, :1]).all())


def test_hidden_pixels_are_not_seen_but_predicted() -> None:
    torch.manual_seed(0)
    model = build(SMALL)
    model.extras = LossParts(SMALL, LossConfig(masked=1.0))
    images = torch.rand(3, 3, 16, 16, generator=seeded()).requires_grad_()
    seen: list[Tensor] = []

    def features(*arguments: object, **more: object) -> Tensor:
        found = type(model).features(model, *arguments, **more)  # type: ignore[arg-type]
        seen.append(torch.autograd.grad(found.sum(), images, retain_graph=True)[0])
        return found

    model.features = features  # type: ignore[method-assign,assignment]
    loss = hidden_patches(model, images, 0.5, seeded(3))
    assert bool(loss.isfinite())
    patches = seen[0].abs().unfold(2, 4, 4).unfold(3, 4, 4).sum((1, 4, 5))  # [B, 4, 4]
    assert (patches == 0).sum((1, 2)).tolist() == [8, 8, 8]  # half of the patches have no influence


@pytest.mark.parametrize(
    "loss",
    [
        LossConfig(dense=1.0, simclr=0.0),
        LossConfig(regions=0.5, within=False),
        LossConfig(regions=1.0, alike="features", simclr=0.0),
        LossConfig(masked=1.0, simclr=0.0),
        LossConfig(prototypes=1.0, prototype_count=8),
    ],
)
def test_every_term_trains_the_model_and_leaves_nothing_behind(loss: LossConfig, tmp_path: Path) -> None:
    recipe = replace(photos_akorn(), model=SMALL, loss=loss)
    task = make_task(replace(recipe, data=replace(recipe.data, path=tmp_path)))
    torch.manual_seed(0)
    model = task.build_model().train()
    value, curves = task.loss(model, (ramps(4).mul(255).byte(),), seeded(), None)
    value.backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if not name.startswith("head"))
    assert {"dense", "regions", "masked", "prototypes"} & set(curves)
    model.save_pretrained(tmp_path / "model")
    assert load_model(tmp_path / "model").extras is None
    assert task.settings()["loss"]["simclr"] == loss.simclr


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (LossConfig(simclr=0.0), "all terms of the loss have the weight 0"),
        (LossConfig(dense=-1.0), "loss.dense is -1.0, expected 0 or more"),
        (LossConfig(hidden=1.0), "loss.hidden is 1.0"),
        (LossConfig(samples=0), "loss.samples is 0"),
    ],
)
def test_impossible_losses(loss: LossConfig, said: str, tmp_path: Path) -> None:
    recipe = photos_akorn()
    with pytest.raises(AkornError, match=said):
        make_task(replace(recipe, data=replace(recipe.data, path=tmp_path), loss=loss))


def learned(tmp_path: Path, device: str) -> list[float]:
    """The losses of four steps with all terms, on pictures in files."""
    pixels = torch.randint(256, (12, 24, 24, 3), generator=seeded(), dtype=torch.uint8).numpy()
    pictures = tmp_path / "pictures"
    pictures.mkdir(exist_ok=True)
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(pictures / f"{number}.png")
    loss = LossConfig(1.0, 1.0, 1.0, 1.0, 1.0, prototype_count=8, alike="features")
    recipe = replace(photos_akorn(), model=SMALL, loss=loss)
    train = replace(recipe.train, steps=4, batch_size=6, device=device, log_every=1, tensorboard=False)
    recipe = replace(recipe, data=replace(recipe.data, path=pictures, size=24), train=train)
    return [engine.train(make_task(recipe), recipe.train, tmp_path / device).loss, *read_curve(tmp_path / device)[1]]


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
            ],
        ),
    ],
)
def test_all_terms_train_together_on_a_gpu_as_a_graph(device: str, tmp_path: Path) -> None:
    losses = learned(tmp_path, device)
    assert len(losses) == 5
    assert all(map(math.isfinite, losses))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_fused_views_lie_where_it_is_said() -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    views = located_views(ramps(40).cuda(), PLAIN, generator, size=(32, 32))
    seen = torch.nn.functional.avg_pool2d(views.images, 4)[:, :2].flatten(2).mT
    torch.testing.assert_close(places(views.boxes, views.mirrored, GRID), seen, rtol=0, atol=0.02)
