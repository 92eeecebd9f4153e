"""Animations and figures as files, written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from akorn.errors import AkornError
from akorn.simulate.figure import figure_of
from akorn.simulate.pictures import Pixels, draw
from akorn.simulate.result import Simulation, Sweep

ENDINGS = (".gif", ".mp4")
SECONDS = 5  # how long an animation lasts


def check_output(out: Path) -> Path:
    """Raise AkornError unless an animation can be written there; returns the path of the figure beside it."""
    if out.suffix.lower() not in ENDINGS:
        raise AkornError(f"{out}: an animation ends in {' or '.join(ENDINGS)}, not in {out.suffix or 'nothing'!r}")
    figure = out.with_suffix(".png")
    for target in (out, figure):
        if target.is_dir():
            raise AkornError(f"{target}: is a folder, expected a file to write")
    if not out.parent.is_dir():
        raise AkornError(f"{out}: the folder {out.parent} does not exist")
    try:  # asking the rights is not enough: the disk may be read-only
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise AkornError(f"{out}: the folder {out.parent} cannot be written ({error.strerror})") from error
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
    with _whole_file(out) as temporary:
        (_gif if out.suffix.lower() == ".gif" else _mp4)(frames(), temporary, rate)


def write_figure(result: Simulation | Sweep, out: Path) -> None:
    """Write the figure as PNG."""
    with _whole_file(out) as temporary:
        figure_of(result).savefig(temporary, format="png")


@contextmanager
def _whole_file(out: Path) -> Iterator[Path]:
    """A temporary name in the same folder, which becomes `out` if all goes well and vanishes if not."""
    temporary = out.with_name(f".tmp-{os.getpid()}-{out.name}")
    try:
        yield temporary
        os.replace(temporary, out)
    except OSError as error:
        raise AkornError(f"{out}: cannot be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


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
        raise AkornError(f"{out}: ffmpeg could not write the video ({reason or f'status {ffmpeg.returncode}'})")
