"""Crops and flips: the filter is torch's own, boxes are spread as they should be, pictures are independent."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from akorn.augment import (
    AugmentConfig,
    random_boxes,
    random_flip,
    random_resized_crop,
    random_shift,
    resample,
    two_views,
)


def pictures(count: int = 4, channels: int = 3, size: tuple[int, int] = (12, 16), seed: int = 0) -> torch.Tensor:
    return torch.rand(count, channels, *size, generator=torch.Generator().manual_seed(seed))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [(12, 16), (24, 20), (5, 7), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_resampling_is_torchs_crop_and_antialiased_resize(size: tuple[int, int], channels: int) -> None:
    images = pictures(3, channels)
    boxes = torch.tensor([[0, 0, 12, 16], [3, 2, 5, 9], [11, 15, 1, 1]])
    ours = resample(images, boxes.float(), size)
    for picture, (top, left, high, wide), found in zip(images, boxes.tolist(), ours, strict=True):
        crop = picture[None, :, top : top + high, left : left + wide]
        expected = F.interpolate(crop, size, mode="bilinear", antialias=True, align_corners=False)
        torch.testing.assert_close(found[None], expected, atol=1e-5, rtol=0)


def test_the_whole_picture_at_its_own_size_is_the_picture() -> None:
    images = pictures()
    assert torch.equal(random_resized_crop(images, scale=(1, 1), ratio=(4 / 3, 4 / 3)), images)


def test_bytes_become_floats_and_stay_in_range() -> None:
    images = torch.randint(0, 256, (8, 3, 10, 10), generator=generator(), dtype=torch.uint8)
    views = random_resized_crop(images, generator())
    assert views.dtype == torch.float32
    assert 0 <= views.min() <= views.max() <= 1
    torch.testing.assert_close(views, random_resized_crop(images.float() / 255, generator()))


def test_boxes_lie_inside_and_have_the_area_and_ratio_asked_for() -> None:
    images = torch.zeros(1, 1, 64, 64).expand(4000, -1, -1, -1)
    top, left, high, wide = random_boxes(images, generator(), scale=(0.2, 0.6), ratio=(0.5, 2.0)).unbind(1)
    assert all(torch.equal(value, value.round()) for value in (top, left, high, wide))
    assert top.min() >= 0
    assert left.min() >= 0
    assert (top + high).max() <= 64
    assert (left + wide).max() <= 64
    area, ratio = high * wide / 64**2, wide / high
    assert 0.18 < area.min() < 0.22 < 0.58 < area.max() < 0.62
    assert area.mean().item() == pytest.approx(0.4, abs=0.02)  # shapes that do not fit are rare here
    assert ratio.log().mean().item() == pytest.approx(0, abs=0.05)
    assert 0.47 < ratio.min() < 0.55 < 1.85 < ratio.max() < 2.15
    free = 64 - high
    assert (top[free > 8] / free[free > 8]).mean().item() == pytest.approx(0.5, abs=0.03)


def test_a_ratio_that_cannot_fit_takes_the_largest_crop_in_the_middle() -> None:
    boxes = random_boxes(torch.zeros(5, 1, 10, 40), generator(), scale=(1, 1), ratio=(1, 1))
    assert boxes.tolist() == [[0, 15, 10, 10]] * 5
    boxes = random_boxes(torch.zeros(5, 1, 40, 10), generator(), scale=(1, 1), ratio=(0.5, 2))
    assert boxes.tolist() == [[10, 0, 20, 10]] * 5


def test_the_generator_decides_and_pictures_are_independent() -> None:
    same = pictures(1).expand(6, -1, -1, -1)
    first, again = random_resized_crop(same, generator(3)), random_resized_crop(same, generator(3))
    assert torch.equal(first, again)
    assert not torch.equal(first, random_resized_crop(same, generator(4)))
    assert len({view.sum().item() for view in first}) == 6
    changed = same.clone()
    changed[2] = 0
    others = [0, 1, 3, 4, 5]
    assert torch.equal(random_resized_crop(changed, generator(3))[others], first[others])


def test_flips_are_as_frequent_as_asked_for() -> None:
    images = pictures(1).expand(2000, -1, -1, -1)
    flipped = (random_flip(images, generator(), p=0.3) == images.flip(3)).flatten(1).all(1)
    assert flipped.float().mean().item() == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 2000))
    assert torch.equal(random_flip(images, p=1.0), images.flip(3))
    assert torch.equal(random_flip(images, p=0.0), images)


def test_a_shift_is_a_crop_of_the_padded_picture_and_all_are_as_frequent() -> None:
    images = pictures(1).expand(5000, -1, -1, -1)
    padded = F.pad(images[0], (2, 2, 2, 2))
    found = torch.zeros(5, 5, dtype=torch.int64)
    shifted = random_shift(images, generator(), pixels=2)
    for top in range(5):
        for left in range(5):
            crop = padded[:, top : top + 12, left : left + 16]
            found[top, left] = int((shifted == crop).flatten(1).all(1).sum())
    assert int(found.sum()) == 5000
    assert found.float().std().item() < 25  # a binomial number's is 14
    assert torch.equal(random_shift(images[:3], pixels=0), images[:3])
    with pytest.raises(ValueError, match="pixels must be 0 or more"):
        random_shift(images, pixels=-1)


def test_each_view_has_a_shift_of_its_own() -> None:
    still = AugmentConfig(scale=(1.0, 1.0), ratio=(1.0, 1.0), shift=3, jitter=0.0, grey=0.0)
    first, second = two_views(pictures(8), still, generator()).chunk(2)
    assert first.shape == (8, 3, 12, 16)
    assert not torch.equal(first, second)


def test_bfloat16_autocast_does_not_touch_pixels() -> None:
    images = pictures()
    with torch.autocast("cpu", torch.bfloat16):
        inside = random_resized_crop(images, generator())
    assert torch.equal(inside, random_resized_crop(images, generator()))


@pytest.mark.parametrize("bad", [torch.zeros(2, 2, 4, 4), torch.zeros(3, 4, 4), torch.zeros(1, 3, 4, 4).int()])
def test_what_is_no_picture_is_refused(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="pictures must be"):
        random_resized_crop(bad)


def test_impossible_crops_are_refused() -> None:
    with pytest.raises(ValueError, match="scale must be"):
        random_resized_crop(pictures(), scale=(0.5, 1.5))
