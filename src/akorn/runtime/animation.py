"""Writes animations atomically: GIF with Pillow, MP4 with the ffmpeg of imageio-ffmpeg. Imports no torch."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from akorn.runtime.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    Pixels = NDArray[np.uint8]

_SHORTEST = 20  # milliseconds: the shortest duration that browsers respect
_NONE = "an animation needs at least one picture"


def write_gif(
    path: str | Path,
    pages: Iterable[Image.Image],
    *,
    milliseconds: int,
    hold: int | None = None,
    palette: Image.Image | None = None,
    optimize: bool = False,
) -> None:
    """Write RGB pictures, all of one size, as an animated GIF that loops.

    All pages share one palette, so that nothing flickers and static parts take hardly any space.

    Args:
        path: the file, which is replaced.
        pages: the pictures; an iterator is consumed only after the file was found to be writable.
        milliseconds: how long each one is shown, at least 20.
        hold: how long the last one is shown; by default as long as the others.
        palette: a picture with the palette; by default 255 colours by median cut from a sample of the pages.
        optimize: remove colours from the file that a small picture does not use.

    """
    hold = milliseconds if hold is None else hold
    if milliseconds < _SHORTEST or hold < _SHORTEST:
        raise ValueError(f"a picture must last at least {_SHORTEST} ms, got {milliseconds} and {hold}")
    from PIL import Image

    with replacing(path) as temporary:
        drawn = list(pages)
        if not drawn:
            raise ValueError(_NONE)
        common = palette if palette is not None else _common_palette(drawn)
        first, *others = (page.quantize(palette=common, dither=Image.Dither.NONE) for page in drawn)
        durations = [milliseconds] * len(others) + [hold]
        first.save(
            temporary, format="GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=optimize
        )


def _common_palette(pages: list[Image.Image]) -> Image.Image:
    import numpy as np
    from PIL import Image

    few = pages[:: max(len(pages) // 8, 1)]
    sample = Image.fromarray(np.concatenate([np.asarray(page)[::2, ::2] for page in few]))
    return sample.quantize(255, method=Image.Quantize.MEDIANCUT)


def write_mp4(path: str | Path, frames: Iterable[Pixels], rate: int) -> None:
    """Write frames [H, W, 3], all of one size, as H.264 with `rate` frames per second.

    ffmpeg reads them from a pipe one by one, so they need not fit into memory together. H.264 needs an even width and
    height: others get a black column or row.
    """
    import imageio_ffmpeg

    with replacing(path) as temporary:
        rest = iter(frames)
        first = next(rest, None)
        if first is None:
            raise ValueError(_NONE)
        height, width, _ = first.shape
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
        command += ["-s", f"{width}x{height}", "-r", str(rate), "-i", "-", "-an", "-c:v", "libx264", "-crf", "18"]
        command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
        command += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", str(temporary)]
        with tempfile.TemporaryFile() as complaints:
            # If ffmpeg stops early, its error message follows. Popen closes the pipe, which may fail once more.
            with (
                suppress(BrokenPipeError),
                subprocess.Popen(command, stdin=subprocess.PIPE, stderr=complaints) as ffmpeg,
            ):
                if ffmpeg.stdin is None:
                    raise RuntimeError("the pipe to ffmpeg was not opened")
                for frame in chain([first], rest):
                    ffmpeg.stdin.write(frame.tobytes())
            complaints.seek(0)
            reason = "; ".join(complaints.read().decode(errors="replace").splitlines())
        if ffmpeg.returncode:
            reason = reason or f"status {ffmpeg.returncode}"
            raise OSError(f"ffmpeg could not write the video: {reason}")  # `replacing` adds the file's name
