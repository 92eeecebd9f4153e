"""Frost from the published photographs if a package has them, found without running its code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.errors import AkornError
from akorn.robustness.corruptions import CONSTANTS, corrupt, frost_pictures
from akorn.robustness.corruptions.store import make_cifar10c
from akorn.robustness.data import find_cifar10c

FOLDER = frost_pictures._folder  # before conftest.py hides an installed package
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name which cannot be imported, with pictures of one colour each in every fifth pixel."""
    folder = tmp_path / "site" / "imagecorruptions" / "frost"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the code was run')")
    facts = tmp_path / "site" / "imagecorruptions-9.9.dist-info" / "METADATA"  # found before those of a real package
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: imagecorruptions\nVersion: 9.9\n")
    for number, name in enumerate(frost_pictures.FILES):
        pixels = np.full((200 + 20 * number, 240, 4 if name.endswith("png") else 3), 250, np.uint8)
        pixels[2::5, 2::5, :3] = (10 * number, 50, 100)
        Image.fromarray(pixels).save(folder / Path(name).with_suffix(".png"))
        (folder / Path(name).with_suffix(".png")).rename(folder / name)  # no JPEG, whose colours differ a little
    monkeypatch.setattr(frost_pictures, "_folder", FOLDER)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    frost_pictures._read.cache_clear()
    yield folder
    frost_pictures._read.cache_clear()


def test_the_photographs_are_scaled_by_a_fifth_and_no_code_is_run(package: Path) -> None:
    found = frost_pictures.photographs()
    assert found is not None
    assert [picture.shape for picture in found] == [(3, 40 + 4 * number, 48) for number in range(5)]
    for number, picture in enumerate(found):
        assert (picture.transpose(1, 2, 0) == (10 * number, 50, 100)).all()
    assert "imagecorruptions" not in sys.modules
    assert frost_pictures.frost_by() == "photographs of imagecorruptions 9.9"


@pytest.mark.parametrize("severity", [1, 5])
def test_frost_is_the_weighted_sum_of_the_definition(package: Path, severity: int) -> None:
    found = corrupt(IMAGES, "frost", severity)
    ours, theirs = CONSTANTS["frost"][severity - 1]
    sums = [
        np.floor(np.clip(ours * IMAGES + theirs * np.array([10 * k, 50, 100])[:, None, None], 0, 255) + 1e-6)
        for k in range(5)
    ]
    which = [[bool(np.array_equal(found[i], each[i])) for each in sums] for i in range(len(IMAGES))]
    assert all(any(row) for row in which)
    assert all(any(row[k] for row in which) for k in range(5))  # every picture is drawn


def test_crops_come_from_all_over_the_picture(package: Path) -> None:
    for name in frost_pictures.FILES:
        y, x = np.mgrid[:300, :400]
        pixels = np.stack([y // 5, x // 5, 0 * x], -1).astype(np.uint8)
        Image.fromarray(pixels).save(package / "new.png")
        (package / "new.png").replace(package / name)
    frost_pictures._read.cache_clear()
    black = np.zeros((300, 3, 32, 32), np.uint8)
    black[:, 2] = np.arange(300)[:, None, None] % 256  # a key of its own for each
    black[256:, 2] += 1
    black[256:, 2, 0] = 7
    found = corrupt(black, "frost", 5)[:, :2].astype(float) / 0.45
    tops, lefts = found[:, 0, 0, 0], found[:, 1, 0, 0]
    assert (np.abs(found[:, 0, -1, 0] - tops - 31) <= 3).all()  # a crop of 32 whole rows
    assert tops.min() <= 2
    assert 24 <= tops.max() <= 28  # of 60 rows: 28 places
    assert lefts.min() <= 2
    assert 42 <= lefts.max() <= 48


def test_what_frost_was_made_of_is_told(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.zeros(40, np.int64)
    make_cifar10c(tmp_path / "real", IMAGES, labels, ["frost"], [5])
    assert find_cifar10c(tmp_path / "real", 5).frost == "photographs of imagecorruptions 9.9"
    monkeypatch.setattr(frost_pictures, "_folder", lambda: None)
    make_cifar10c(tmp_path / "ours", IMAGES, labels, ["frost"], [5])
    assert find_cifar10c(tmp_path / "ours", 5).frost == "procedural texture"
    assert (np.load(tmp_path / "real" / "frost.npy") != np.load(tmp_path / "ours" / "frost.npy")).mean() > 0.9
    about = json.loads((tmp_path / "ours" / "README.json").read_text())
    del about["frost"]  # as the first sets had it
    (tmp_path / "ours" / "README.json").write_text(json.dumps(about))
    assert find_cifar10c(tmp_path / "ours", 5).frost == "procedural texture"
    make_cifar10c(tmp_path / "fog", IMAGES, labels, ["fog"], [5])
    assert find_cifar10c(tmp_path / "fog", 5).frost is None


def test_without_all_pictures_the_texture_is_taken(package: Path) -> None:
    (package / "frost3.png").unlink()
    assert frost_pictures.photographs() is None
    assert frost_pictures.frost_by() == "procedural texture"


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_a_damaged_photograph_is_said_in_one_line(package: Path, content: bytes) -> None:
    (package / "frost2.png").write_bytes(content)
    with pytest.raises(AkornError, match=r"frost2\.png cannot be read as a picture"):
        corrupt(IMAGES, "frost", 1)


def test_a_picture_that_is_too_small_is_said_in_one_line(package: Path) -> None:
    Image.new("RGB", (160, 400)).save(package / "frost2.png")
    with pytest.raises(AkornError, match="160 × 400 pixels, too few"):
        corrupt(IMAGES, "frost", 1)
