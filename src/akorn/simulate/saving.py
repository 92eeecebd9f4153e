"""Animations and figures as files, written whole or not at all."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from akorn.errors import AkornError
from akorn.runtime.files import check_writable, replacing
from akorn.simulate.figure import figure_of
from akorn.simulate.frames import Pixels, draw
from akorn.simulate.result import Simulation, Sweep

ENDINGS = (".gif", ".mp4")
SECONDS = 5  # how long an animation lasts


def check_output(out: Path) -> Path:
    """Raise AkornError unless an animation can be written there; returns the path of the figure beside it."""
    if out.suffix.lower() not in ENDINGS:
        raise AkornError(f"{out}: an animation ends in {' or '.join(ENDINGS)}, not in {out.suffix or 'nothing'!r}")
    figure = out.with_suffix(".png")
    check_writable(out)
    check_writable(figure)
    return figure


def write_animation(result: Simulation | Sweep, out: Path, progress: Callable[[int], None] | None = None) -> None:
    """Write the animation, a GIF or an MP4 by the ending; `progress` is called with the frames done."""
    check_output(out)

    def frames() -> Iterator[Pixels]:
        for done, frame in enumerate(draw(result), 1):
            yield frame
            if progress is not None:
                progress(done)

    rate = min(max(len(result.frames) // SECONDS, 4), 25)  # frames a second
    with replacing(out) as temporary:
        (_gif if out.suffix.lower() == ".gif" else _mp4)(frames(), temporary, rate)


def write_figure(result: Simulation | Sweep, out: Path) -> None:
    """Write the figure as PNG."""
    with replacing(out) as temporary:
        figure_of(result).savefig(temporary, format="png")


def _gif(frames: Iterator[Pixels], out: Path, rate: int) -> None:
    """One palette for all frames, from a sample of them: what stands still then costs next to nothing."""
    pages = [Image.fromarray(frame) for frame in frames]
    few = pages[:: max(len(pages) // 8, 1)]
    sample = Image.fromarray(np.concatenate([np.asarray(page)[::2, ::2] for page in few]))
    palette = sample.quantize(255, method=Image.Quantize.MEDIANCUT)
    first, *others = (page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages)
    first.save(out, format="GIF", save_all=True, append_images=others, duration=1000 // rate, loop=0)


def _mp4(frames: Iterator[Pixels], out: Path, rate: int) -> None:
    """H.264 by the ffmpeg that comes with imageio-ffmpeg, which reads raw frames from a pipe."""
    import imageio_ffmpeg

    first = next(frames)
    height, width, _ = first.shape
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(rate), "-i", "-", "-an", "-c:v", "libx264", "-crf", "18"]
    command += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", str(out)]
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=complaints) as ffmpeg:
            if ffmpeg.stdin is None:
                raise RuntimeError("the pipe to ffmpeg was not opened")
            try:
                for frame in (first, *frames):
                    ffmpeg.stdin.write(frame.tobytes())
                ffmpeg.stdin.close()
            except BrokenPipeError:
                pass  # it stopped early; its complaint follows
        complaints.seek(0)
        reason = complaints.read().decode(errors="replace").strip()
    if ffmpeg.returncode:
        reason = reason or f"status {ffmpeg.returncode}"
        raise OSError(f"ffmpeg could not write the video: {reason}")  # `replacing` names the file
