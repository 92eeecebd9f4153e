"""The oscillators step by step as an animated GIF: the picture, the states in PCA colours, the clusters at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from akorn.objects.colouring import Labels, Pixels, as_rgb, colour_labels, colour_states, enlarge_pixels
from akorn.runtime.animation import write_gif

_SIDE, _GAP, _HEAD = 192, 8, 26  # pixels: the smallest side of a panel, the space around it, the line above
_MOST = 480  # pixels: the longest side of a panel; a GIF is at most 65,535 wide, and all its pages are in memory
_INK, _SOFT = (28, 35, 48), (120, 130, 145)


def write_animation(
    path: Path,
    image: ArrayLike,
    states: Sequence[Tensor],
    clusters: ArrayLike,
    *,
    milliseconds: int = 150,
    hold: int = 2000,
) -> None:
    """Write a GIF of one picture [C, H, W] in bytes: every state of every block, [T + 1, C, h, w] each.

    clusters: labels [H, W], shown beside the states. Large pictures are shown smaller. The last picture stays for
    `hold` milliseconds.
    """
    if not states or any(block.ndim != 4 for block in states):
        raise ValueError(
            f"states must be [T + 1, C, h, w] for each block, got {[list(block.shape) for block in states]}"
        )
    pages = []
    first, labels = _reduced(as_rgb(image), np.asarray(clusters))
    last = colour_labels(labels)
    for number, block in enumerate(states, 1):
        for step, colours in enumerate(colour_states(block)):
            where = f"step {step} of {len(block) - 1}" + (f", block {number}" if len(states) > 1 else "")
            pages.append(_page((first, colours, last), ("picture", where, "clusters")))
    write_gif(path, pages, milliseconds=milliseconds, hold=hold)


def _reduced(picture: Pixels, labels: Labels) -> tuple[Pixels, Labels]:
    """Picture [H, W, 3] and labels [H, W], shrunk to the size of a page if they are larger."""
    tall, wide = picture.shape[:2]
    longest = max(tall, wide)
    if longest <= _MOST:
        return picture, labels
    height, width = (max(1, round(side * _MOST / longest)) for side in (tall, wide))
    small = np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.LANCZOS))
    rows, columns = (  # labels cannot be averaged: the one in the middle stands for those around it
        ((np.arange(few) + 0.5) * many / few).astype(int)
        for few, many in zip((height, width), labels.shape, strict=True)
    )
    return small, labels[rows[:, None], columns]


def _page(panels: Sequence[Pixels], headings: Sequence[str]) -> Image.Image:
    """The panels beside each other, as large as the first one enlarged to a good size."""
    tall, wide = panels[0].shape[:2]
    times = max(1, round(_SIDE / max(tall, wide)))
    width, height = wide * times, tall * times
    page = Image.new("RGB", (_GAP + len(panels) * (width + _GAP), _HEAD + height + _GAP), "white")
    pen = ImageDraw.Draw(page)
    for column, (panel, heading) in enumerate(zip(panels, headings, strict=True)):
        left = _GAP + column * (width + _GAP)
        ink = _INK if column == 1 else _SOFT
        pen.text((left + width / 2, _HEAD / 2), heading, fill=ink, font=ImageFont.load_default(13), anchor="mm")
        page.paste(enlarge_pixels(panel, width, height), (left, _HEAD))
    return page
