"""Picture files that users bring."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.errors import AkornError
from akorn.objects.model_input import read_picture
from akorn.runtime import pictures
from akorn.runtime.pictures import flatten, is_first_of_several, open_picture, open_within


def test_a_picture_is_turned_as_its_camera_was_held(tmp_path: Path) -> None:
    lying = Image.fromarray(np.array([[0, 255]], dtype=np.uint8))  # 2 × 1, the light pixel on the right
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right by a quarter
    lying.save(tmp_path / "turned.png", exif=exif)
    assert np.asarray(open_picture(tmp_path / "turned.png")).tolist() == [[0], [255]]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("text.png", "not a picture"), ("cut.png", "cannot be read"), (".", "folder"), ("none.png", "no such")],
)
def test_what_is_no_picture(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "text.png").write_text("no picture")
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:2000])
    with pytest.raises(AkornError, match=reason):
        open_picture(tmp_path / name)


def test_flattening() -> None:
    clear = Image.new("RGBA", (1, 1), (10, 20, 30, 0))
    assert np.asarray(flatten(clear)).tolist() == [[[255, 255, 255]]]  # what is transparent lies on white
    deep = Image.fromarray(np.array([[0, 65535]], dtype=np.uint16))
    assert np.asarray(flatten(deep)).tolist() == [[0, 255]]
    assert flatten(Image.new("L", (1, 1), 7)).mode == "RGB"


@pytest.mark.filterwarnings("error")
def test_pixels_that_are_no_number_or_endless() -> None:
    values = np.array([[0.5, 0.25, np.nan], [np.inf, -np.inf, -1.0]], dtype=np.float32)
    assert np.asarray(flatten(Image.fromarray(values))).tolist() == [[255, 128, 0], [255, 0, 0]]
    nothing = np.full((1, 2), np.nan, dtype=np.float32)
    assert np.asarray(flatten(Image.fromarray(nothing))).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("values", "greys"), [([0, 100_000, 200_000], [0, 128, 255]), ([0, 13107, 26214], [0, 51, 102])]
)
def test_whole_numbers_of_32_bits(values: list[int], greys: list[int]) -> None:
    deep = Image.fromarray(np.array([values], dtype=np.int32))
    assert deep.mode == "I"
    assert np.asarray(flatten(deep)).tolist() == [greys]


def test_large_pictures_are_refused_in_one_line(tmp_path: Path) -> None:
    """Above Pillow's limit it warns, above twice that it refuses; lowered here, so that small pictures are large. Ours
    is said instead, and Pillow's still holds for others.
    """
    Image.new("L", (10, 8)).save(tmp_path / "large.png")
    Image.new("L", (10, 20)).save(tmp_path / "huge.png")
    code = """
from PIL import Image
from akorn.runtime import pictures
Image.MAX_IMAGE_PIXELS = pictures.MOST_PIXELS = 60
assert pictures.picture_size("large.png") == (8, 10)
for name in ("large.png", "huge.png"):
    try:
        pictures.open_picture(name)
    except pictures.AkornError as error:
        print(error)
assert Image.MAX_IMAGE_PIXELS == 60
"""
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, "PYTHONIOENCODING": "utf-8"})  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    first, second = told.stdout.splitlines()
    assert first == "large.png: 10 × 8 pixels, expected at most 60"
    assert second == "huge.png: 10 × 20 pixels, expected at most 60"


def test_huge_jpegs_are_shrunk_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are lowered, so that small pictures are huge."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10**6)
    monkeypatch.setattr(pictures, "MOST_READ", 2 * 10**6)
    monkeypatch.setattr(pictures, "_MOST_PROGRESSIVE", 3 * 10**6)
    monkeypatch.setattr(pictures, "_MOST_JPEG", 4 * 10**6)
    for name, side, words in [("a.jpg", 2000, {}), ("b.jpg", 2010, {}), ("c.jpg", 1800, {"progressive": True}),
                              ("d.png", 1500, {})]:  # fmt: skip
        Image.new("RGB", (side, side)).save(tmp_path / name, **words)
    picture, size = open_within(tmp_path / "a.jpg", 10**6)
    assert (picture.size, size) == ((1000, 1000), (2000, 2000))
    for name, has, kind, most in [("b.jpg", 5, "JPEG", 4), ("c.jpg", 4, "progressive JPEG", 3), ("d.png", 3, "PNG", 2)]:
        told = f"{name}: this picture has {has} megapixels; {kind} pictures of up to {most} can be read$"
        with pytest.raises(AkornError, match=told):
            open_within(tmp_path / name, 10**6)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16", "I", "F"])
def test_large_pictures_are_reduced_before_all_else(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tif" if mode in ("I", "F") else "a.png")
    Image.new(mode, (60, 40)).save(path)
    picture, size = open_within(path, 60 * 40)
    assert (picture.size, size) == ((60, 40), (40, 60))
    picture, size = open_within(path, 60 * 40 - 1)
    assert (picture.size, size) == ((30, 20), (40, 60))
    assert open_within(path, 1)[0].width * open_within(path, 1)[0].height <= 2
    flatten(picture)


def test_a_reduced_picture_is_turned_too(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png", exif=exif)
    picture, size = open_within(tmp_path / "a.png", 1000)
    assert (picture.size, size) == ((20, 30), (60, 40))


@pytest.mark.parametrize("ending", ["gif", "png", "webp", "tif"])
def test_more_frames_than_the_first(tmp_path: Path, ending: str) -> None:
    frames = [Image.new("RGB", (8, 8), (90 * number, 9, 9)) for number in range(3)]
    frames[0].save(tmp_path / f"one.{ending}")
    frames[0].save(tmp_path / f"all.{ending}", save_all=True, append_images=frames[1:])
    assert not is_first_of_several(tmp_path / f"one.{ending}")
    assert is_first_of_several(tmp_path / f"all.{ending}")
    assert read_picture(tmp_path / f"all.{ending}", 8, 3).changes[0] == "only the first of its frames or pages was read"


def test_a_damaged_tiff_gets_one_line(tmp_path: Path) -> None:
    """Pillow warns about its tags, in separate lines."""
    Image.new("RGB", (16, 16)).save(tmp_path / "a.tif")
    content = bytearray((tmp_path / "a.tif").read_bytes())
    for place in (17, 41):  # the counts of two tags
        content[place] = 0x20
    (tmp_path / "a.tif").write_bytes(content)
    code = "from akorn.runtime.pictures import open_picture as o\ntry: o('a.tif')\nexcept ValueError as e: print(e)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
