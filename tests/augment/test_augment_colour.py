"""Colours: HSV against colorsys, jitter against its definition, grey, noise, and whole views."""

from __future__ import annotations

import colorsys
import math
from dataclasses import replace

import pytest
import torch

from akorn.augment import (
    AugmentConfig,
    augment,
    colour_jitter,
    gaussian_noise,
    greyscale,
    hsv_to_rgb,
    rgb_to_hsv,
    shift_hue,
    to_grey,
    two_views,
)
from akorn.augment.config import check
from akorn.errors import AkornError

NOTHING = AugmentConfig((1, 1), (1, 1), 0, 0, 0, 0, 0, 1, 0, 0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def colours() -> torch.Tensor:
    """Random colours, and the corner cases of HSV: [1, 3, 1, pixels], float64."""
    levels = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    corners = torch.cartesian_prod(levels, levels, levels)
    random = torch.rand(100, 3, generator=generator(), dtype=torch.float64)
    return torch.cat((corners, random)).T[None, :, None]


def test_hsv_is_colorsys_both_ways() -> None:
    rgb = colours()
    hsv = rgb_to_hsv(rgb)
    for pixel, found in zip(rgb[0, :, 0].T.tolist(), hsv[0, :, 0].T.tolist(), strict=True):
        assert found == pytest.approx(colorsys.rgb_to_hsv(*pixel), abs=1e-12)
    torch.testing.assert_close(hsv_to_rgb(hsv), rgb, atol=1e-12, rtol=0)


@pytest.mark.parametrize("turn", [-0.4, 0.1, 1.0])
def test_turning_the_hue_is_colorsys(turn: float) -> None:
    rgb = colours()
    turned = shift_hue(rgb, torch.tensor([turn], dtype=torch.float64))
    for pixel, found in zip(rgb[0, :, 0].T.tolist(), turned[0, :, 0].T.tolist(), strict=True):
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        assert found == pytest.approx(colorsys.hsv_to_rgb((h + turn) % 1, s, v), abs=1e-12)


def pictures(count: int = 6, channels: int = 3) -> torch.Tensor:
    return torch.rand(count, channels, 6, 5, generator=generator(1))


def test_no_strength_and_no_probability_change_nothing() -> None:
    images = pictures()
    assert torch.equal(colour_jitter(images, brightness=0, contrast=0, saturation=0, hue=0, p=1), images)
    assert torch.equal(colour_jitter(images, p=0), images)
    assert torch.equal(augment(images, NOTHING), images)


def test_brightness_alone_multiplies_and_is_spread_over_its_range() -> None:
    images = pictures(1).expand(3000, -1, -1, -1) * 0.5 + 0.1
    changed = colour_jitter(images, generator(), brightness=0.4, contrast=0, saturation=0, hue=0, p=1)
    factors = (changed / images).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    factor = factors[:, 0]
    assert 0.6 <= factor.min() < 0.61
    assert 1.39 < factor.max() <= 1.4 + 1e-6
    assert factor.mean().item() == pytest.approx(1, abs=0.02)


def test_contrast_keeps_the_mean_grey_and_saturation_keeps_each_grey() -> None:
    images = pictures() * 0.4 + 0.3  # nothing is cut off
    contrast = colour_jitter(images, generator(), brightness=0, contrast=0.5, saturation=0, hue=0, p=1)
    assert not torch.allclose(contrast, images)
    torch.testing.assert_close(to_grey(contrast).mean((2, 3)), to_grey(images).mean((2, 3)))
    saturation = colour_jitter(images, generator(), brightness=0, contrast=0, saturation=0.5, hue=0, p=1)
    assert not torch.allclose(saturation, images)
    torch.testing.assert_close(to_grey(saturation), to_grey(images))


def test_all_orders_occur() -> None:
    """Brightness and contrast do not commute: their two orders give two results, which differ visibly here."""
    image = torch.tensor([0.2, 0.6]).reshape(1, 1, 1, 2)
    torch.manual_seed(0)
    seen = set()
    for seed in range(40):
        changed = colour_jitter(image, generator(seed), brightness=1, contrast=1, saturation=0, hue=0, p=1)
        b, c = (1 + (2 * u - 1) for u in torch.rand(1, 3, generator=generator(seed))[0, :2].tolist())
        for name, first in (("brightness first", image * b), ("contrast first", image)):
            first = first.clamp(0, 1)
            second = (c * first + (1 - c) * first.mean()).clamp(0, 1)
            result = second if name == "brightness first" else (b * second).clamp(0, 1)
            if torch.allclose(result, changed, atol=1e-5):
                seen.add(name)
                break
        else:
            raise AssertionError(f"seed {seed}: {changed} is neither order of the two")
    assert seen == {"brightness first", "contrast first"}


def test_jitter_stays_in_range_is_repeatable_and_independent() -> None:
    images = pictures()
    changed = colour_jitter(images, generator(2), brightness=1, contrast=1, saturation=1, hue=0.5, p=1)
    assert 0 <= changed.min() <= changed.max() <= 1
    other = images.clone()
    other[0] = 0.5
    again = colour_jitter(other, generator(2), brightness=1, contrast=1, saturation=1, hue=0.5, p=1)
    assert torch.equal(changed[1:], again[1:])


def test_how_often_jitter_and_grey_happen() -> None:
    images = pictures(1).expand(2000, -1, -1, -1)
    bound = 4 * math.sqrt(0.16 / 2000)
    same = (colour_jitter(images, generator(), p=0.8) == images).flatten(1).all(1).float().mean().item()
    assert same == pytest.approx(0.2, abs=bound)
    grey = greyscale(images, generator(), p=0.2)
    flat = (grey == grey[:, :1]).flatten(1).all(1).float().mean().item()
    assert flat == pytest.approx(0.2, abs=bound)


def test_one_channel_has_no_hue_and_no_saturation() -> None:
    images = pictures(channels=1)
    assert torch.equal(greyscale(images, generator(), p=1), images)
    assert torch.equal(colour_jitter(images, generator(), brightness=0, contrast=0, p=1), images)
    assert not torch.equal(colour_jitter(images, generator(), p=1), images)


def test_noise_has_its_size() -> None:
    images = torch.full((20, 3, 16, 16), 0.5)
    noisy = gaussian_noise(images, generator(), sigma=0.1)
    assert (noisy - images).std().item() == pytest.approx(0.1, rel=0.05)
    assert torch.equal(gaussian_noise(images, generator(), sigma=0), images)
    loud = gaussian_noise(images, generator(), sigma=2.0)
    assert (loud.min(), loud.max()) == (0, 1)
    assert gaussian_noise(images, generator(), sigma=2.0, clamp=False).max() > 2


def test_two_views_differ_and_keep_their_pictures_order() -> None:
    images = torch.randint(0, 256, (3, 3, 9, 8), generator=generator(), dtype=torch.uint8)
    views = two_views(images, AugmentConfig(), generator(5))
    assert views.shape == (6, 3, 9, 8)
    assert views.dtype == torch.float32
    assert not torch.equal(views[:3], views[3:])
    assert torch.equal(views, two_views(images, AugmentConfig(), generator(5)))
    dull = two_views(images, NOTHING, generator())
    assert torch.equal(dull[:3], dull[3:])
    assert augment(images, NOTHING, size=(4, 4)).shape == (3, 3, 4, 4)


def test_views_compile_without_graph_breaks_and_without_looking_at_values() -> None:
    images = torch.rand(2, 3, 8, 8)
    explained = torch._dynamo.explain(lambda x: two_views(x, AugmentConfig(flip=0.5, noise=0.1)))(images)
    assert explained.graph_break_count == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", (0.0, 1.0)),
        ("ratio", (2.0, 1.0)),
        ("shift", -1),
        ("hue", 0.6),
        ("brightness", -0.1),
        ("grey", 1.1),
        ("noise", -1.0),
    ],
)
def test_impossible_settings_are_named(name: str, value: object) -> None:
    check(AugmentConfig())
    with pytest.raises(AkornError, match=f"{name} is"):
        check(replace(AugmentConfig(), **{name: value}))
