"""Simulations as pictures: the frames of an animation, drawn directly as pixels, which is fast."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from akorn.simulate.lattice import directions
from akorn.simulate.result import Floats, Simulation, Sweep

Pixels = NDArray[np.uint8]
PANEL = 384  # approximate side of the large picture of a lattice, in pixels
CIRCLE = 232  # the side of the picture of a circle
STRIP = 120  # the height of the curves below the circles
INK, FAINT, RED = (30, 30, 30), (200, 200, 200), (200, 40, 40)
LINES = ((31, 119, 180), (230, 126, 20), (40, 150, 60))
# The axes of `directions` in RGB: that of c runs from black to white, the others are orthogonal and give colours.
AXES = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) * np.array([[0.8], [0.62], [0.62]]) / np.sqrt([[3], [2], [6]])


def colours(x: Floats) -> Pixels:
    """Directions [..., N] → RGB [..., 3], similar colours for similar directions.

    N = 2: the angle is the hue. N > 2: three components, one along c = 1 and two orthogonal to it, become lightness
    and colour; oscillators along c are white, against it black. (No such map can preserve a higher-dimensional sphere.)
    """
    n = x.shape[-1]
    if n == 2:
        angle = np.arctan2(x[..., 1], x[..., 0])[..., None]
        waves = 0.5 + 0.45 * np.cos(angle - np.array([0, 2, 4]) * math.pi / 3)
        return (255 * waves).round().astype(np.uint8)
    rgb = 0.5 + x @ directions(n).numpy().T @ AXES
    return (255 * rgb.clip(0, 1)).round().astype(np.uint8)


def draw(result: Simulation | Sweep) -> Iterator[Pixels]:
    """The frames of the animation: [height, width, 3] each, height and width even."""
    return _lattice_frames(result) if isinstance(result, Simulation) else _circle_frames(result)


def _lattice_frames(result: Simulation) -> Iterator[Pixels]:
    """The oscillators; beside them C, and the energy so far."""
    size = result.settings.size
    side = size * max(round(PANEL / size), 1)
    side += side % 2
    half = side // 2
    c = Image.fromarray((255 * (result.stimulus[..., 0] > 0)).astype(np.uint8)).convert("RGB")
    page = Image.new("RGB", (side + half + half % 2, side), "white")
    small = half - 28
    page.paste(c.resize((small, small), Image.Resampling.NEAREST), (side + 14, 22))
    pen = ImageDraw.Draw(page)
    pen.rectangle((side + 13, 21, side + 14 + small, 22 + small), outline=FAINT)
    _write(pen, (side + 12, 3), "stimulus C")
    curve = _Curve(result.energies, (side + 13, half + 22, side + half - 14, side - 10), logarithmic=True)
    for frame, step in zip(result.frames, result.frame_steps, strict=True):
        picture = page.copy()
        large = Image.fromarray(colours(frame)).resize((side, side), Image.Resampling.NEAREST)
        picture.paste(large, (0, 0))
        pen = ImageDraw.Draw(picture)
        _write(pen, (side + 12, half + 3), f"energy to step {step} (log)")
        curve.draw(pen, int(step), RED)
        yield np.asarray(picture)


def _circle_frames(result: Sweep) -> Iterator[Pixels]:
    """The phases on a circle and their mean, at a few coupling strengths; below, the order parameter so far."""
    names = [f"K = {result.couplings[k]:.2f}" for k in result.shown]
    width = CIRCLE * len(names)
    # The colour shows the rank of ω, from slow (blue) to fast (red).
    rank = result.frequencies.argsort().argsort()[result.frame_oscillators] / max(len(result.frequencies) - 1, 1)
    hue = np.stack((rank, 0.25 + 0.5 * np.minimum(rank, 1 - rank), 1 - rank), -1)
    inks = [tuple(ink) for ink in (255 * hue).astype(int).tolist()]
    box = (8, CIRCLE + 22, width - 8, CIRCLE + STRIP - 8)
    curves = [_Curve(result.order[:, k], box, low=0.0, high=1.0) for k in result.shown]
    for frame, step in zip(result.frames, result.frame_steps, strict=True):
        picture = Image.new("RGB", (width, CIRCLE + STRIP), "white")
        pen = ImageDraw.Draw(picture)
        for index, (strength, states) in enumerate(zip(names, frame, strict=True)):
            name = f"{strength}, r = {result.order[step, result.shown[index]]:.2f}"
            _circle(pen, index * CIRCLE, name, states, inks, LINES[index])
            curves[index].draw(pen, int(step), LINES[index])
        _write(pen, (8, CIRCLE + 4), f"order parameter r, step {step}")
        yield np.asarray(picture)


def _circle(pen: ImageDraw.ImageDraw, left: int, name: str, states: Floats, inks: list[Any], ink: Any) -> None:
    """Oscillators [some, 2] on a circle, and the arrow of their mean."""
    radius, middle, down = CIRCLE / 2 - 24, left + CIRCLE / 2, CIRCLE / 2 + 10
    pen.ellipse((middle - radius, down - radius, middle + radius, down + radius), outline=FAINT)
    spots = np.stack((middle + radius * states[:, 0], down - radius * states[:, 1]), -1)
    for (x, y), spot in zip(spots.tolist(), inks, strict=True):
        pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=spot)
    x, y = states.mean(0).tolist()
    pen.line((middle, down, middle + radius * x, down - radius * y), fill=ink, width=4)
    _write(pen, (left + 8, 3), name, ink)


class _Curve:
    """Values over the steps in a box of pixels (left, top, right, bottom): faint, and dark up to now.

    With `logarithmic` time is log(step + 1), since the energy falls mostly in the first steps.
    """

    def __init__(
        self,
        values: Floats,
        box: tuple[int, int, int, int],
        low: float | None = None,
        high: float | None = None,
        *,
        logarithmic: bool = False,
    ) -> None:
        left, top, right, bottom = self.box = box
        low = float(values.min()) if low is None else low
        high = float(values.max()) if high is None else high
        time = np.log1p(np.arange(len(values))) if logarithmic else np.arange(len(values))
        self.x = left + (right - left) * time / time[-1]  # there are at least two values: T ≥ 1
        self.y = bottom - (bottom - top) * (values - low) / (high - low or 1.0)

    def draw(self, pen: ImageDraw.ImageDraw, now: int, ink: tuple[int, int, int]) -> None:
        """Draw the curve, dark up to the step `now`."""
        points = np.stack((self.x, self.y), -1)
        pen.rectangle(self.box, outline=FAINT)
        pen.line(points.flatten().tolist(), fill=FAINT)
        if now > 0:
            pen.line(points[: now + 1].flatten().tolist(), fill=ink, width=2)
        x, y = points[now].tolist()
        pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=ink)


def _write(pen: ImageDraw.ImageDraw, place: tuple[int, int], text: str, ink: tuple[int, int, int] = INK) -> None:
    pen.text(place, text, fill=ink, font=ImageFont.load_default(13))
