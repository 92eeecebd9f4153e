"""Small pictures for the page, drawn by this code: nothing in them comes from a published data set.

    python benchmarks/web_drawings.py      # writes the scenes for the models of objects

The six for the classifier are written by `web_attacks.py`, with what an attack makes of them. Each is drawn large, on a
soft background with a little grain, and reduced to 32 × 32, the size of the photographs that the model knows.
Coordinates are fractions of the side, from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from akorn.objects.data import load
from akorn.web.server import STATIC

SCENES = {"shapes": 1, "tetrominoes": 0, "dsprites": 0}
"""Model of objects → the index of the test picture that its data set contributes."""
SIDE = 32
LARGE = 16 * SIDE
Colour = tuple[int, int, int]
Place = tuple[float, float]

BLACK, WHITE = (18, 18, 20), (236, 237, 236)


class Sheet:
    """A large picture to draw on: a sky over a ground, each from one colour to another, with grain."""

    def __init__(self, sky: Sequence[Colour], ground: Sequence[Colour], horizon: float, seed: int) -> None:
        rows = int(LARGE * horizon)
        above = np.linspace(sky[0], sky[1], rows) if rows else np.empty((0, 3))
        below = np.linspace(ground[0], ground[1], LARGE - rows) if rows < LARGE else np.empty((0, 3))
        colours = np.concatenate((above, below))[:, None].repeat(LARGE, 1)  # [rows, columns, 3]
        grain = np.random.default_rng(seed).normal(0, 9, (64, 64, 1)).repeat(8, 0).repeat(8, 1)
        picture = Image.fromarray(np.clip(colours + grain, 0, 255).astype(np.uint8))
        self.picture = picture.filter(ImageFilter.GaussianBlur(3))
        self.pen = ImageDraw.Draw(self.picture)

    def shape(self, colour: Colour, *corners: Place) -> None:
        """A polygon."""
        self.pen.polygon([(x * LARGE, y * LARGE) for x, y in corners], fill=colour)

    def box(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """A rectangle."""
        self.pen.rectangle((left * LARGE, top * LARGE, right * LARGE, bottom * LARGE), fill=colour)

    def round(self, colour: Colour, left: float, top: float, right: float, bottom: float) -> None:
        """An ellipse in a rectangle."""
        self.pen.ellipse((left * LARGE, top * LARGE, right * LARGE, bottom * LARGE), fill=colour)

    def wheel(self, x: float, y: float, radius: float) -> None:
        """A tyre and its rim."""
        self.round(BLACK, x - radius, y - radius, x + radius, y + radius)
        self.round((165, 165, 170), x - radius / 2, y - radius / 2, x + radius / 2, y + radius / 2)

    def line(self, colour: Colour, start: Place, end: Place, width: int) -> None:
        """A line, `width` pixels wide."""
        self.pen.line((start[0] * LARGE, start[1] * LARGE, end[0] * LARGE, end[1] * LARGE), fill=colour, width=width)


def airplane() -> Sheet:
    """White, against a blue sky."""
    sheet = Sheet([(90, 140, 205), (150, 190, 230)], [], 1.0, seed=1)
    sheet.shape((170, 175, 182), (0.42, 0.5), (0.6, 0.5), (0.78, 0.82), (0.68, 0.82))
    sheet.shape((190, 195, 202), (0.45, 0.46), (0.58, 0.46), (0.66, 0.2), (0.6, 0.2))
    sheet.round(WHITE, 0.06, 0.42, 0.9, 0.56)
    sheet.shape((200, 60, 50), (0.8, 0.46), (0.93, 0.24), (0.99, 0.24), (0.9, 0.5))
    sheet.shape((180, 185, 190), (0.82, 0.5), (0.98, 0.58), (0.98, 0.62), (0.84, 0.54))
    sheet.round((50, 60, 80), 0.08, 0.455, 0.15, 0.49)
    return sheet


def automobile() -> Sheet:
    """Red, from the side, on a grey road."""
    sheet = Sheet([(190, 200, 205), (215, 215, 210)], [(120, 120, 118), (90, 90, 90)], 0.55, seed=2)
    body = ((0.05, 0.7), (0.05, 0.55), (0.2, 0.52), (0.33, 0.36), (0.66, 0.36), (0.8, 0.52), (0.95, 0.56), (0.96, 0.7))
    sheet.shape((190, 25, 30), *body)
    sheet.shape((40, 50, 65), (0.26, 0.52), (0.36, 0.4), (0.49, 0.4), (0.49, 0.52))
    sheet.shape((40, 50, 65), (0.52, 0.52), (0.52, 0.4), (0.63, 0.4), (0.73, 0.52))
    for x in (0.25, 0.76):
        sheet.wheel(x, 0.7, 0.1)
    sheet.round((250, 240, 190), 0.06, 0.57, 0.1, 0.61)
    return sheet


def bird() -> Sheet:
    """On a branch, in front of leaves."""
    sheet = Sheet([(140, 175, 140), (120, 160, 110)], [], 1.0, seed=7)
    dark = (65, 68, 88)
    sheet.line((95, 70, 50), (0, 0.8), (1, 0.74), 26)
    sheet.shape((60, 60, 75), (0.2, 0.86), (0.3, 0.88), (0.45, 0.6), (0.35, 0.52))
    sheet.round((190, 95, 60), 0.3, 0.3, 0.68, 0.74)
    sheet.round((70, 75, 95), 0.5, 0.18, 0.76, 0.44)
    sheet.shape((230, 180, 60), (0.75, 0.29), (0.88, 0.33), (0.75, 0.36))
    sheet.round(BLACK, 0.63, 0.26, 0.68, 0.31)
    sheet.shape(dark, (0.32, 0.4), (0.55, 0.42), (0.36, 0.74))
    sheet.line((80, 50, 40), (0.47, 0.72), (0.46, 0.78), 8)
    sheet.line((80, 50, 40), (0.54, 0.72), (0.54, 0.78), 8)
    return sheet


def dog() -> Sheet:
    """Seen from the front, on a meadow."""
    sheet = Sheet([(120, 150, 90), (110, 140, 80)], [(95, 125, 65), (85, 110, 55)], 0.7, seed=9)
    fur, ears = (200, 160, 105), (120, 80, 45)
    sheet.round(fur, 0.22, 0.55, 0.78, 1.2)
    sheet.round(fur, 0.25, 0.18, 0.75, 0.66)
    sheet.round(ears, 0.12, 0.2, 0.32, 0.62)
    sheet.round(ears, 0.68, 0.2, 0.88, 0.62)
    sheet.round((230, 210, 180), 0.36, 0.42, 0.64, 0.68)
    sheet.round(BLACK, 0.44, 0.44, 0.56, 0.53)
    for x in (0.4, 0.6):
        sheet.round(BLACK, x - 0.04, 0.32, x + 0.04, 0.4)
    sheet.shape((220, 110, 110), (0.46, 0.6), (0.54, 0.6), (0.52, 0.7), (0.48, 0.7))
    return sheet


def frog() -> Sheet:
    """Green, on brown earth."""
    sheet = Sheet([(120, 110, 80), (100, 95, 70)], [(125, 105, 75), (95, 80, 55)], 0.1, seed=5)
    green = (80, 130, 45)
    sheet.round(green, 0.2, 0.35, 0.8, 0.85)
    sheet.round(green, 0.25, 0.2, 0.75, 0.6)
    for x in (0.33, 0.67):
        sheet.round(green, x - 0.09, 0.16, x + 0.09, 0.34)
        sheet.round((220, 190, 60), x - 0.05, 0.19, x + 0.05, 0.29)
        sheet.round(BLACK, x - 0.02, 0.21, x + 0.02, 0.27)
    sheet.round((150, 175, 90), 0.32, 0.5, 0.68, 0.82)
    sheet.round(green, 0.05, 0.6, 0.3, 0.92)
    sheet.round(green, 0.7, 0.6, 0.95, 0.92)
    mouth = (0.3 * LARGE, 0.3 * LARGE, 0.7 * LARGE, 0.52 * LARGE)
    sheet.pen.arc(mouth, 20, 160, fill=(40, 70, 25), width=8)
    return sheet


def ship() -> Sheet:
    """A steamer on the sea."""
    sheet = Sheet([(150, 180, 210), (205, 215, 222)], [(70, 105, 130), (40, 70, 95)], 0.6, seed=0)
    sheet.shape((45, 45, 55), (0.06, 0.52), (0.95, 0.5), (0.86, 0.68), (0.14, 0.68))
    sheet.shape((140, 45, 40), (0.12, 0.63), (0.89, 0.63), (0.86, 0.68), (0.14, 0.68))
    sheet.box(WHITE, 0.2, 0.4, 0.55, 0.52)
    sheet.box((225, 225, 222), 0.26, 0.32, 0.48, 0.4)
    sheet.box((180, 60, 50), 0.33, 0.2, 0.42, 0.32)
    for place in range(7):
        left = 0.22 + 0.05 * place
        sheet.box((60, 70, 90), left, 0.44, left + 0.02, 0.47)
    sheet.box((90, 90, 95), 0.7, 0.25, 0.72, 0.5)
    return sheet


DRAWINGS: dict[str, Callable[[], Sheet]] = {
    drawing.__name__: drawing for drawing in (airplane, automobile, bird, dog, frog, ship)
}
"""Class of CIFAR-10 → the function that draws one."""


def drawn(name: str) -> Image.Image:
    """The picture of a class, RGB, 32 × 32."""
    return DRAWINGS[name]().picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def write_scenes(folder: Path) -> None:
    """One picture for each of the page's models of objects, drawn by akorn's generators from the seed 0."""
    for name, index in SCENES.items():
        image = np.asarray(load(name, "test")[index].image)  # bytes [1 or 3, H, W]
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(folder / f"{name}.png")


if __name__ == "__main__":
    write_scenes(STATIC / "pictures" / "drawn")
