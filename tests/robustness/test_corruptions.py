"""Corruptions keep what a picture is, repeat, do not depend on the batch, and grow with the severity.

`python tests/robustness/test_corruptions.py` rewrites corruptions.npz, the examples that hold across machines.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from akorn.errors import AkornError
from akorn.robustness.corruptions import ALL, COMMON, CONSTANTS, CORRUPTIONS, EXTRA, SEVERITIES, corrupt
from akorn.robustness.corruptions.blur import zoom_blur
from akorn.robustness.corruptions.clouds import plasma
from akorn.robustness.corruptions.draws import Draws, picture_keys
from akorn.robustness.corruptions.filters import gaussian, motion_blur, sample, zoom
from akorn.robustness.corruptions.ice import ice_sheets
from akorn.robustness.corruptions.pixel_noise import shot_noise

Bytes = NDArray[np.uint8]
STORED = Path(__file__).with_name("corruptions.npz")
SHEET = Path(__file__).parents[3] / "shared" / "data" / "cifar10" / "test-00.webp"


def picture() -> Bytes:
    """A disk, bars, a ramp and a flat corner in several colours, of whole numbers only; [1, 3, 32, 32]."""
    y, x = np.mgrid[:32, :32]
    colours = np.stack([(x * 8 + y * 3) % 256, (x * y) // 4 % 256, 255 - y * 7])
    disk = (x - 18) ** 2 + (y - 12) ** 2 < 81
    colours = np.where(disk, np.array([220, 60, 30])[:, None, None], colours)
    colours = np.where((y > 22) & (x // 3 % 2 == 0), np.array([10, 90, 200])[:, None, None], colours)
    colours[:, :6, :6] = 128
    return colours[None].astype(np.uint8)


@cache
def pictures() -> Bytes:
    """200 pictures of CIFAR-10 if they are there, otherwise as many made of random blobs; [200, 3, 32, 32]."""
    if SHEET.exists():
        pixels = np.asarray(Image.open(SHEET).convert("RGB")).reshape(25, 32, 40, 32, 3)
        return np.ascontiguousarray(pixels.transpose(0, 2, 4, 1, 3).reshape(1000, 3, 32, 32)[:200])
    noise = np.random.default_rng(0).normal(size=(200, 3, 32, 32))
    smooth = 3 * gaussian(noise, 3.0) + 0.5 * gaussian(noise, 1.0) + 0.05 * noise
    return np.clip(smooth * 120 + 120, 0, 255).astype(np.uint8)


@cache
def corrupted(name: str, severity: int) -> Bytes:
    return corrupt(pictures(), name, severity, seed=1)


def damage(name: str) -> list[float]:
    """The mean squared difference in grey levels at each severity."""
    return [float(np.mean((corrupted(name, s).astype(float) - pictures()) ** 2)) for s in SEVERITIES]


def test_the_names_are_those_of_the_benchmark() -> None:
    assert len(COMMON) == 15
    assert len(EXTRA) == 4
    assert set(ALL) == {*COMMON, *EXTRA}
    for corruption in CORRUPTIONS.values():
        assert len(corruption.constants) == 5
        assert callable(corruption.load())


@pytest.mark.parametrize("name", ALL)
def test_shape_type_repetition_and_independence_of_the_batch(name: str) -> None:
    images = pictures()[:100]
    for severity in (1, 5):
        whole = corrupt(images, name, severity, seed=3, workers=2)
        assert whole.shape == images.shape
        assert whole.dtype == np.uint8
        assert (whole != images).any(axis=(1, 2, 3)).mean() > 0.95
        places = [99, 7, 64]
        assert np.array_equal(corrupt(images[places], name, severity, seed=3, workers=1), whole[places])
        assert np.array_equal(corrupt(images[7:8], name, severity, seed=3), whole[7:8])


FIXED = (
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
)


@pytest.mark.parametrize("name", ALL)
def test_the_seed_matters_where_something_is_drawn(name: str) -> None:
    one, other = (corrupt(pictures()[:20], name, 5, seed) for seed in (0, 1))
    assert np.array_equal(one, other) == (name in FIXED)


@pytest.mark.parametrize(
    "name",
    [n for n in ALL if n not in ("glass_blur", "motion_blur", "frost", "elastic_transform", "spatter", "saturate")],
)
def test_severity_grows_the_damage(name: str) -> None:
    steps = damage(name)
    assert steps == sorted(steps)
    assert steps[-1] > 1.5 * steps[0] > 0


# By their published constants the others do not grow in this measure at every step. What does grow:


def test_glass_blur_grows_with_its_rounds() -> None:
    # One round at severities 1 to 3, two at 4 and 5; between them the blur grows, which smooths what was shuffled.
    steps = damage("glass_blur")
    assert max(steps[:3]) < min(steps[3:])


def test_motion_blur_grows_with_its_deviation() -> None:
    # From 3 to 4 only the radius grows, past the reach of the same deviation.
    steps = damage("motion_blur")
    assert steps[0] < steps[1] < steps[2]
    assert steps[3] == pytest.approx(steps[2], rel=0.1)
    assert steps[4] > 1.1 * max(steps[2:4])


def test_frost_hides_more_of_the_picture() -> None:
    # The picture's weight falls while the ice's grows: the brightness may stay, but the likeness falls.
    def likeness(severity: int) -> float:
        pairs = zip(pictures().reshape(200, -1), corrupted("frost", severity).reshape(200, -1), strict=True)
        return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs]))

    steps = [likeness(severity) for severity in SEVERITIES]
    assert steps[0] > steps[1] > steps[2]
    assert steps[3] == pytest.approx(steps[2], abs=0.02)  # the shares of ice are 0.31 and 0.32
    assert steps[4] < min(steps[:4])


def test_elastic_transform_bends_more() -> None:
    # Its affine part shrinks while its bending grows. On a ramp the value tells where a pixel came from, so that what
    # no affine map explains is the bending.
    ramp = (np.arange(32) * 8).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 2, (64, 1, 32, 32), dtype=np.uint8)  # a key of its own for each
    images = np.repeat(np.broadcast_to(ramp, (64, 1, 32, 32)) + noise, 3, axis=1)
    y, x = np.mgrid[4:28, 4:28]
    design = np.stack([np.ones(x.size), x.ravel(), y.ravel()], axis=1)
    bending = []
    for severity in SEVERITIES:
        rows = corrupt(images, "elastic_transform", severity)[:, 0, 4:28, 4:28].reshape(64, -1).astype(float).T
        rest = rows - design @ np.linalg.lstsq(design, rows, rcond=None)[0]
        bending.append(float(rest.std()))
    assert bending[2] < bending[3] < bending[4]
    assert max(bending[:2]) < bending[2]


def test_spatter_grows_as_water_and_as_mud() -> None:
    steps = damage("spatter")  # 1 to 3 are water, 4 and 5 mud
    assert steps[0] < steps[1] < steps[2]
    assert steps[3] < steps[4]


def test_saturate_grows_as_too_little_and_as_too_much() -> None:
    steps = damage("saturate")  # 1 and 2 take colour away, 3 to 5 add some
    assert steps[0] < steps[1]
    assert steps[2] < steps[3] < steps[4]


@pytest.mark.parametrize("name", ALL)
def test_stored_examples_hold_within_one_grey_level(name: str) -> None:
    with np.load(STORED, allow_pickle=False) as stored:
        for place, severity in enumerate(SEVERITIES):
            found = corrupt(picture(), name, severity)[0, :, ::2, ::2].astype(int)
            assert np.abs(found - stored[name][place]).max() <= 1


def test_bad_requests_are_refused() -> None:
    for name in ("rain", "", "Fog"):
        with pytest.raises(AkornError, match=r"unknown corruption .* gaussian_noise"):
            corrupt(picture(), name, 1)
    for severity in (0, 6, -1, 2.5, True):
        with pytest.raises(AkornError, match="severity must be a whole number from 1 to 5, got"):
            corrupt(picture(), "fog", severity)  # type: ignore[arg-type]
    for images in (
        picture()[0],
        picture().astype(float),
        picture()[:, :1],
        picture()[..., :28],
        picture()[:, :, :, :, None],
    ):
        with pytest.raises(ValueError, match=r"images must be uint8 \[B, 3, 32, 32\]"):
            corrupt(images, "fog", 1)
    assert corrupt(picture()[:0], "fog", 1).shape == (0, 3, 32, 32)


# The parts they are made of.


def test_draws_are_uniform_normal_and_independent() -> None:
    draws = Draws(picture_keys(pictures(), "test"))
    u, z, k = draws.uniform(1000), draws.normal(1001), draws.integers(7, 1000)
    assert 0 <= u.min() < 0.001
    assert 0.999 < u.max() < 1
    assert np.abs(np.histogram(u, 20)[0] / u.size - 0.05).max() < 0.002  # standard deviation 0.0005
    assert abs(z.mean()) < 0.01  # 0.0022
    assert abs(z.std() - 1) < 0.01
    assert abs((z**4).mean() - 3) < 0.1
    assert np.abs(np.bincount(k.ravel(), minlength=7) / k.size - 1 / 7).max() < 0.004
    between = np.corrcoef(z)[np.triu_indices(200, 1)]
    assert abs(between.mean()) < 0.002
    assert between.std() == pytest.approx(1001**-0.5, rel=0.05)
    assert not np.array_equal(u, draws.uniform(1000))  # every call goes on


def test_keys_tell_pictures_and_purposes_apart() -> None:
    images = np.zeros((200, 3, 32, 32), dtype=np.uint8)
    images.reshape(200, -1)[np.arange(200), np.arange(200) * 15] = 1  # one value differs
    keys = {int(key) for salt in "ab" for key in picture_keys(images, salt)}
    assert len(keys) == 400


def test_shot_noise_is_poisson() -> None:
    values = np.array([3, 100, 150], dtype=np.uint8)
    images = np.repeat(values, 100 * 3072).reshape(300, 3, 32, 32)
    noisy = shot_noise(images, 50, Draws(np.arange(300, dtype=np.uint64))).reshape(3, -1)
    counts = np.rint(noisy * (50 / 255) + 0.1)  # bytes are rounded down
    rates = values * (50 / 255.0)
    assert np.abs(counts.mean(1) / rates - 1).max() < 0.01  # standard deviation 0.0024 for the lowest
    assert np.abs(counts.var(1) / rates - 1).max() < 0.03


def test_gaussian_keeps_sums_and_spreads_by_its_deviation() -> None:
    spot = np.zeros((1, 41, 41))
    spot[0, 20, 20] = 1
    blurred = gaussian(spot, 2.5)[0]
    place = np.arange(41) - 20
    assert blurred.sum() == pytest.approx(1)
    assert (blurred.sum(0) * place**2).sum() == pytest.approx(2.5**2, rel=0.01)
    assert np.allclose(blurred, blurred.T)
    assert np.array_equal(gaussian(spot, 0.05), spot)


def test_motion_blur_draws_one_line_in_its_direction() -> None:
    spot = np.zeros((3, 1, 33, 33))
    spot[:, 0, 16, 16] = 255
    across, down, slanted = motion_blur(spot, 8, 3, np.array([0.0, 90.0, 45.0]))[:, 0]
    assert (across[16, :17] > 0).sum() > 5
    assert across.sum() == across[16, :17].sum()  # each pixel takes those to its right: the trail lies to the left
    assert np.array_equal(down, across.T)
    assert slanted.sum() == np.trace(slanted)
    assert np.array_equal(
        motion_blur(np.full((1, 1, 32, 32), 77.0), 9, 2.5, np.array([13.0])), np.full((1, 1, 32, 32), 77.0)
    )


def test_motion_blur_rounds_to_the_nearest() -> None:
    ramp = np.broadcast_to(np.arange(0.0, 64, 2), (1, 1, 32, 32))
    weights = np.exp(-0.5 * (np.arange(5) / 0.8) ** 2)  # at the distance 4 they are past any rounding
    blurred = sum(w * ramp[..., d : d + 20] for d, w in enumerate(weights)) / weights.sum()
    found = motion_blur(ramp, 2, 0.8, np.zeros(1))[..., :20]
    assert 0.5 < float(blurred[0, 0, 0, 0] % 1) < 0.98  # rounded down it would be another
    assert np.array_equal(found, np.rint(blurred))


def test_zoom_blur_has_the_factors_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    factors: list[float] = []

    def spy(x: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
        factors.append(factor)
        return zoom(x, factor)

    monkeypatch.setattr("akorn.robustness.corruptions.blur.zoom", spy)
    for stop, count in zip((1.06, 1.11, 1.16, 1.21, 1.26), CONSTANTS["zoom_blur"], strict=True):
        factors.clear()
        zoom_blur(picture(), count, Draws(np.zeros(1, dtype=np.uint64)))
        assert factors == np.arange(1, stop, 0.01).tolist()  # to the last bit
    ramp = np.broadcast_to(np.arange(32.0), (32, 32))
    step = np.diff(zoom(ramp, factors[-1]), axis=1)
    assert np.allclose(step, 25 / 32)  # 26 pixels became 33, not 32


def test_zoom_and_sample_keep_straight_ramps() -> None:
    y, x = np.mgrid[:32, :32].astype(float)
    assert np.array_equal(zoom(x, 1), x)
    for factor in (1.1, 1.25, 2.25):
        steps = np.diff(zoom(x, factor), axis=1)
        assert steps.max() - steps.min() < 1e-9
        assert steps.mean() == pytest.approx(1 / factor, rel=0.06)
    ramp = (3 * x + 5 * y)[None, None]
    moved = sample(ramp, np.clip(y + 0.3, 0, 31)[None], np.clip(x - 0.7, 0, 31)[None], "reflect")
    assert np.allclose(moved[0, 0], 3 * np.clip(x - 0.7, 0, 31) + 5 * np.clip(y + 0.3, 0, 31))
    outside = sample(ramp, (y - 32)[None], x[None], "symmetric")
    assert np.array_equal(outside[0, 0], ramp[0, 0, ::-1])
    outside = sample(ramp, y[None], (x - 31)[None], "reflect")
    assert np.array_equal(outside[0, 0], ramp[0, 0, :, ::-1])


def test_clouds_are_rougher_the_slower_they_decay() -> None:
    rough = []
    for decay in (3.0, 2.0, 1.75):
        clouds = plasma(Draws(np.arange(50, dtype=np.uint64)), 32, decay)
        assert clouds.min() == 0
        assert clouds.max() == 1
        rough.append(np.abs(np.diff(clouds, axis=2)).mean())
    assert rough == sorted(rough)


def test_ice_has_texture_and_is_cold() -> None:
    ice = ice_sheets()
    assert ice.shape == (5, 3, 256, 256)
    assert 0 <= ice.min() < 0.15
    assert 0.95 < ice.max() <= 1
    assert (ice[:, 2].mean((1, 2)) >= ice[:, 0].mean((1, 2))).all()
    assert (ice.std((2, 3)) > 0.1).all()


if __name__ == "__main__":
    examples = {n: np.stack([corrupt(picture(), n, s)[0, :, ::2, ::2] for s in SEVERITIES]) for n in ALL}
    np.savez_compressed(STORED, **examples)
