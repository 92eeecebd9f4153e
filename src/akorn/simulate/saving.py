"""Writes animations and figures to files, atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image

from akorn.errors import AkornError
from akorn.runtime.animation import write_gif, write_mp4
from akorn.runtime.files import check_writable, replacing
from akorn.simulate.figure import figure_of
from akorn.simulate.frames import Pixels, draw
from akorn.simulate.result import Simulation, Sweep

ENDINGS = (".gif", ".mp4")
SECONDS = 5  # how long an animation lasts


def check_output(out: Path) -> Path:
    """Raise AkornError unless an animation can be written there; returns the path of the figure beside it."""
    if out.suffix.lower() not in ENDINGS:
        raise AkornError(
            f"{out}: the name of an animation must end in {' or '.join(ENDINGS)}, not in {out.suffix or 'nothing'!r}"
        )
    figure = out.with_suffix(".png")
    check_writable(out)
    check_writable(figure)
    return figure


def write_animation(result: Simulation | Sweep, out: Path, progress: Callable[[int], None] | None = None) -> None:
    """Write the animation, a GIF or an MP4 according to the suffix; `progress` is called with the frames done."""
    check_output(out)

    def frames() -> Iterator[Pixels]:
        for done, frame in enumerate(draw(result), 1):
            yield frame
            if progress is not None:
                progress(done)

    rate = min(max(len(result.frames) // SECONDS, 4), 25)  # frames per second
    if out.suffix.lower() == ".gif":
        write_gif(out, map(Image.fromarray, frames()), milliseconds=1000 // rate, optimize=True)
    else:
        write_mp4(out, frames(), rate)


def write_figure(result: Simulation | Sweep, out: Path) -> None:
    """Write the figure as PNG."""
    with replacing(out) as temporary:
        figure_of(result).savefig(temporary, format="png")
