"""Animated GIFs: pages, times and palette; videos of any size; whole or not there. (More: tests of the simulator.)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image, ImageSequence

from akorn.errors import AkornError
from akorn.runtime.animation import write_gif, write_mp4

COLOURS = ("red", "lime", "blue")


def pages() -> Iterator[Image.Image]:
    return (Image.new("RGB", (20, 10), colour) for colour in COLOURS)


def test_pages_and_how_long_they_stay(tmp_path: Path) -> None:
    write_gif(tmp_path / "a.gif", pages(), milliseconds=100, hold=700)
    with Image.open(tmp_path / "a.gif") as file:
        found = [(page.convert("RGB").getpixel((5, 5)), page.info["duration"]) for page in ImageSequence.Iterator(file)]
        assert file.info["loop"] == 0
    expected = [np.array(Image.new("RGB", (1, 1), colour))[0, 0] for colour in COLOURS]
    assert [duration for _, duration in found] == [100, 100, 700]
    assert np.abs(np.array([pixel for pixel, _ in found]).astype(int) - np.array(expected)).max() < 8


def test_a_palette_of_ones_own(tmp_path: Path) -> None:
    palette = Image.new("P", (1, 1))
    palette.putpalette([255, 0, 0, 0, 0, 255])
    write_gif(tmp_path / "a.gif", pages(), milliseconds=50, palette=palette)
    with Image.open(tmp_path / "a.gif") as file:
        seen = {page.convert("RGB").getpixel((0, 0)) for page in ImageSequence.Iterator(file)}
    assert seen <= {(255, 0, 0), (0, 0, 255)}


def test_what_cannot_be_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 20 ms, got 10 and 10"):
        write_gif(tmp_path / "a.gif", pages(), milliseconds=10)
    with pytest.raises(ValueError, match="at least 20 ms, got 100 and 5"):
        write_gif(tmp_path / "a.gif", pages(), milliseconds=100, hold=5)
    with pytest.raises(ValueError, match="at least one picture"):
        write_gif(tmp_path / "a.gif", [], milliseconds=100)
    with pytest.raises(AkornError, match="nowhere"):
        write_gif(tmp_path / "nowhere" / "a.gif", pages(), milliseconds=100)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("height", "width"), [(20, 32), (21, 33), (21, 32), (301, 401)])
def test_videos_of_any_size(tmp_path: Path, height: int, width: int) -> None:
    frames = [np.full((height, width, 3), value, np.uint8) for value in (0, 120, 240)]
    write_mp4(tmp_path / "a.mp4", frames, 10)
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "a.mp4"))
    columns, rows = next(reader)["size"]
    assert (rows, columns) == (height + height % 2, width + width % 2)
    seen = [np.frombuffer(frame, np.uint8).reshape(rows, columns, 3)[:height, :width] for frame in reader]
    assert [round(float(np.median(frame))) for frame in seen] == pytest.approx([0, 120, 240], abs=4)


def test_what_ffmpeg_says_is_shown(tmp_path: Path) -> None:
    frames = np.zeros((200, 30, 30, 3), np.uint8)  # more than a pipe holds, and one less than a buffer
    with pytest.raises(AkornError, match=r"a.mp4: cannot be written \(ffmpeg could not write .* \"0\" as video rate"):
        write_mp4(tmp_path / "a.mp4", frames, 0)
    with pytest.raises(ValueError, match="at least one picture"):
        write_mp4(tmp_path / "a.mp4", [], 10)
    assert not list(tmp_path.iterdir())
