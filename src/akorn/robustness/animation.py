"""An animated GIF of the oscillators of a classifier's first block, step by step, for a picture with and without noise.

The paper shows such oscillators in its figure of noisy oscillators with N = 2. They do not come to rest: the model's
steps are chaotic (`akorn.lyapunov`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from akorn import nn as akn
from akorn.errors import AkornError
from akorn.robustness.model import AkornNet
from akorn.robustness.net import CifarNet
from akorn.runtime.animation import write_gif

SHOWN = 2
"""Oscillators along each side of a panel: a panel shows 2 × 2 of them, each at all positions."""
_SIDE, _GAP, _HEAD = 192, 8, 24  # pixels: a panel, the space around it, the line above
_INK = (28, 35, 48)


@torch.no_grad()
def trajectory(model: CifarNet, images: Tensor, steps: int, seed: int = 0) -> Tensor:
    """Pictures [B, 3, H, W] from 0 to 1 → states of the first block, [T + 1, B, C/N, N, H, W]; all share one start."""
    if not isinstance(model, AkornNet) or model.config.wiring != "two-streams":
        raise AkornError("only models with Kuramoto layers that C drives have oscillators to show")
    layer = next(module for module in model.modules() if isinstance(module, akn.KuramotoLayer))
    c = model.stem(2 * images - 1)  # [B, C, H, W]
    generator = torch.Generator(c.device).manual_seed(seed)
    assert model.start is not None  # since there are two streams
    x = model.start(c[:1], generator).expand_as(c)
    states = layer.evolve(x, c, steps, trajectory=True).trajectory
    assert states is not None
    return states.unflatten(2, (-1, layer.n))


def colour(states: Tensor) -> NDArray[np.uint8]:
    """States [oscillators, N, H, W] → colours [2 H, 2 W, 3] of the first four: the angle of x₁ and x₂ is the hue.

    The length of (x₁, x₂), which is 1 if N = 2, is the brightness.
    """
    few = states[: SHOWN**2, :2].double().cpu().numpy()
    angle, length = np.arctan2(few[:, 1], few[:, 0]), np.hypot(few[:, 0], few[:, 1])  # [4, H, W]
    thirds = angle[..., None] - np.array([0, 2, 4]) * np.pi / 3
    rgb = (0.5 + 0.5 * np.cos(thirds)) * length[..., None].clip(0, 1)  # [4, H, W, 3]
    rows = [np.concatenate(list(rgb[SHOWN * row : SHOWN * (row + 1)]), axis=1) for row in range(SHOWN)]
    shown: NDArray[np.uint8] = np.round(255 * np.concatenate(rows)).astype(np.uint8)
    return shown


def write_animation(
    path: str | Path,
    images: Tensor,
    states: Tensor,
    headings: Sequence[str],
    *,
    milliseconds: int = 200,
) -> None:
    """Write a GIF with one row per picture [B, 3, H, W]: the picture under its heading, and its oscillators beside it.

    states: [T + 1, B, oscillators, N, H, W], as `trajectory` returns them.
    """
    if states.ndim != 6 or not len(images) == states.shape[1] == len(headings):
        shapes = f"{list(images.shape)}, {list(states.shape)}"
        raise ValueError(f"expected states [T + 1, B, …] and headings of the same pictures, got {shapes}")
    pixels = np.round(255 * images.permute(0, 2, 3, 1).cpu().numpy().clip(0, 1)).astype(np.uint8)
    pages = []
    for step, now in enumerate(states):
        words = f"oscillators, step {step} of {len(states) - 1}"
        rows = zip(pixels, now, headings, strict=True)
        pages.append(_page([((heading, picture), (words, colour(each))) for picture, each, heading in rows]))
    write_gif(path, pages, milliseconds=milliseconds)


def _page(rows: Sequence[Sequence[tuple[str, NDArray[np.uint8]]]]) -> Image.Image:
    """Rows of panels, each with its line of text above it."""
    size = (_GAP + len(rows[0]) * (_SIDE + _GAP), len(rows) * (_HEAD + _SIDE) + _GAP)
    page = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(page)
    for row, panels in enumerate(rows):
        for column, (heading, pixels) in enumerate(panels):
            left, top = _GAP + column * (_SIDE + _GAP), row * (_HEAD + _SIDE)
            middle = (left + _SIDE / 2, top + _HEAD / 2)
            pen.text(middle, heading, fill=_INK, font=ImageFont.load_default(13), anchor="mm")
            panel = Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
            page.paste(panel, (left, top + _HEAD))
    return page
