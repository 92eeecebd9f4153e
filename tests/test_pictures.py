"""Picture files that users bring."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.errors import AkornError
from akorn.pictures import flatten, open_picture


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
