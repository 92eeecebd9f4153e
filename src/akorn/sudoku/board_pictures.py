"""Boards as pictures: one board as a PNG, or the digits settling step by step as an animated GIF.

Givens are dark on grey. Answers are blue, fainter where the model is less sure, and red where they conflict; a square
whose digit has just changed lights up. Below the board the energy curve grows with the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.runtime.animation import write_gif
from akorn.runtime.files import replacing
from akorn.sudoku.board import as_board, conflict_squares, is_valid_solution

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

Floats = NDArray[np.float64]
Colour = tuple[int, int, int]

_SCALE = 2  # drawn at twice the size and scaled down, for smooth lines and digits
_SQUARE, _MARGIN, _HEAD, _CURVE = 44, 22, 40, 96  # pixels of the finished picture
_BOARD = 9 * _SQUARE
_WIDTH = _BOARD + 2 * _MARGIN

_PAPER: Colour = (255, 255, 255)
_INK: Colour = (28, 35, 48)
_SOFT: Colour = (120, 130, 145)
_THIN: Colour = (203, 209, 218)
_GREY: Colour = (231, 234, 239)
_BLUE: Colour = (21, 101, 192)
_RED: Colour = (211, 47, 47)
_GREEN: Colour = (46, 125, 50)
_GLOW: Colour = (255, 224, 130)
_FADE = (0.9, 0.5, 0.25)  # brightness of a changed square, by the number of steps since then


@dataclass(frozen=True)
class _Film:
    """What a sequence of pictures shows, checked: frames [T, 81], confidence [T, 81], energy [T], puzzle [81]."""

    frames: NDArray[np.uint8]
    puzzle: NDArray[np.uint8]
    confidence: Floats
    energy: Floats | None

    @staticmethod
    def of(frames: ArrayLike, puzzle: ArrayLike, confidence: ArrayLike | None, energy: ArrayLike | None) -> _Film:
        digits = np.asarray(frames)
        if digits.ndim != 2 or digits.shape[1] != 81 or len(digits) == 0:
            raise ValueError(f"frames must be [T, 81] with T ≥ 1, got {list(digits.shape)}")
        digits = np.stack([as_board(board) for board in digits])
        sure = np.ones(digits.shape) if confidence is None else np.asarray(confidence, dtype=np.float64)
        if sure.shape != digits.shape:
            raise ValueError(f"confidence must be {list(digits.shape)} like the frames, got {list(sure.shape)}")
        if not ((sure >= 0) & (sure <= 1)).all():
            raise ValueError(f"confidence must lie in 0..1, got {sure.min()} to {sure.max()}")
        curve = None if energy is None else np.asarray(energy, dtype=np.float64)
        if curve is not None and curve.shape != digits.shape[:1]:
            raise ValueError(f"energy must be [{len(digits)}], one per frame, got {list(curve.shape)}")
        if curve is not None and not np.isfinite(curve).all():
            raise ValueError("energy must be finite at every step")
        return _Film(digits, as_board(puzzle), sure, curve)


def _mix(colour: Colour, ground: Colour, share: float) -> Colour:
    """The colour at opacity `share` over the background."""
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(colour, ground, strict=True))
    return red, green, blue


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size * _SCALE)


def _box(left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
    return left * _SCALE, top * _SCALE, right * _SCALE - 1, bottom * _SCALE - 1


def _corner(square: int) -> tuple[int, int]:
    return _MARGIN + square % 9 * _SQUARE, _HEAD + square // 9 * _SQUARE


def _draw(film: _Film, step: int, heading: str | None) -> Image.Image:
    """The picture of one step."""
    from PIL import Image, ImageDraw

    height = _HEAD + _BOARD + _MARGIN + (0 if film.energy is None else _CURVE)
    image = Image.new("RGB", (_WIDTH * _SCALE, height * _SCALE), _PAPER)
    draw = ImageDraw.Draw(image)
    solved = is_valid_solution(film.frames[step], film.puzzle)
    _draw_heading(draw, film, step, heading, solved)
    _draw_squares(draw, film, step)
    _draw_grid(draw, _GREEN if solved else _INK)
    if film.energy is not None:
        _draw_energy(draw, film.energy, step, _HEAD + _BOARD + _MARGIN)
    return image.resize((_WIDTH, height), Image.Resampling.LANCZOS)


def _draw_heading(draw: ImageDraw.ImageDraw, film: _Film, step: int, heading: str | None, solved: bool) -> None:
    middle = _SCALE * _HEAD / 2
    if heading:
        draw.text((_SCALE * _MARGIN, middle), heading, _INK, _font(15), anchor="lm")
    board = film.frames[step]
    clashes, blanks = int(conflict_squares(board).sum()), int((board == 0).sum())
    if solved:
        verdict, colour = "solved", _GREEN
    elif clashes:
        verdict, colour = f"{clashes} squares clash", _RED
    else:
        verdict, colour = f"{blanks} blank" if blanks else "givens changed", _SOFT
    draw.text((_SCALE * (_WIDTH - _MARGIN), middle), verdict, colour, _font(15, bold=solved), anchor="rm")


def _draw_squares(draw: ImageDraw.ImageDraw, film: _Film, step: int) -> None:
    board, given = film.frames[step], film.puzzle != 0
    wrong = conflict_squares(board) & (~given | (film.puzzle != board))  # a given is never marked as wrong
    glow = np.zeros(81)
    for age in range(min(step, len(_FADE))):
        changed = film.frames[step - age] != film.frames[step - age - 1]
        glow = np.maximum(glow, changed * _FADE[age])
    for square, digit in enumerate(board.tolist()):
        x, y = _corner(square)
        ground = _GREY if given[square] else _mix(_GLOW, _PAPER, float(glow[square]))
        draw.rectangle(_box(x, y, x + _SQUARE, y + _SQUARE), fill=ground)
        if not digit:
            continue
        colour = _RED if wrong[square] else _INK if given[square] else _BLUE
        share = 1.0 if given[square] else 0.2 + 0.8 * float(film.confidence[step, square])
        place = (_SCALE * (x + _SQUARE / 2), _SCALE * (y + _SQUARE / 2))
        draw.text(place, str(digit), _mix(colour, ground, share), _font(25, bold=bool(given[square])), anchor="mm")


def _draw_grid(draw: ImageDraw.ImageDraw, colour: Colour) -> None:
    for thick, lines in ((False, (1, 2, 4, 5, 7, 8)), (True, (0, 3, 6, 9))):
        half = 1.25 if thick else 0.5
        ink = colour if thick else _THIN
        for line in lines:
            at = line * _SQUARE
            x, y = _MARGIN + at, _HEAD + at
            draw.rectangle(_box(x - half, _HEAD - half, x + half, _HEAD + _BOARD + half), fill=ink)
            draw.rectangle(_box(_MARGIN - half, y - half, _MARGIN + _BOARD + half, y + half), fill=ink)


def _draw_energy(draw: ImageDraw.ImageDraw, energy: Floats, step: int, top: int) -> None:
    """The curve up to this step, on axes that are the same for all steps."""
    left, right, bottom = _MARGIN, _MARGIN + _BOARD, top + _CURVE - _MARGIN
    draw.text((_SCALE * left, _SCALE * (top + 12)), "energy of this step", _SOFT, _font(12), anchor="ls")
    draw.text((_SCALE * right, _SCALE * (top + 12)), f"{energy[step]:.2f}", _INK, _font(12), anchor="rs")
    draw.rectangle(_box(left, bottom, right, bottom + 1), fill=_THIN)
    low, high = float(energy.min()), float(energy.max())
    across = np.linspace(left + 4, right - 6, len(energy)) if len(energy) > 1 else np.array([(left + right) / 2])
    down = bottom - 6 - (energy - low) / (high - low or 1.0) * (bottom - top - 30)
    points = [(_SCALE * float(x), _SCALE * float(y)) for x, y in zip(across, down, strict=True)][: step + 1]
    if len(points) > 1:
        draw.line(points, fill=_BLUE, width=2 * _SCALE, joint="curve")
    x, y = points[-1]
    radius = 4 * _SCALE
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_BLUE, outline=_PAPER, width=_SCALE)


@cache
def _palette() -> Image.Image:
    """The 256 colours of every animation: each foreground on each background in even shades, to avoid flicker."""
    from PIL import Image

    grounds = [_PAPER, *(_mix(_GLOW, _PAPER, share) for share in _FADE)]
    ramps = [(ink, ground, 24) for ink in (_BLUE, _RED) for ground in grounds]
    ramps += [(_INK, _GREY, 16), (_INK, _PAPER, 16), (_SOFT, _PAPER, 8), (_GREEN, _PAPER, 12), (_GREEN, _GREY, 6)]
    ramps += [(_RED, _GREY, 6)]
    colours = {_mix(ink, ground, i / (n - 1)): None for ink, ground, n in ramps for i in range(n)}
    colours[_THIN] = None
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in colours for part in colour])
    return image


def board_figure(
    board: ArrayLike,
    path: str | Path,
    puzzle: ArrayLike,
    confidence: ArrayLike | None = None,
    heading: str | None = None,
) -> None:
    """Write a picture of one board [81] as PNG, optionally with its confidence [81]."""
    sure = None if confidence is None else np.asarray(confidence)[None]
    film = _Film.of(as_board(board)[None], puzzle, sure, None)
    with replacing(path) as temporary:
        _draw(film, 0, heading).save(temporary, format="PNG")


def animate(
    frames: ArrayLike,
    path: str | Path,
    puzzle: ArrayLike,
    confidence: ArrayLike | None = None,
    energy: ArrayLike | None = None,
    *,
    milliseconds: int = 100,
    hold: int = 2500,
) -> None:
    """Write boards [T, 81] as an animated GIF that stays on its last picture for `hold` milliseconds.

    confidence is [T, 81] in 0..1, shown as opacity; energy is [T], shown as a curve under the board.
    """
    film = _Film.of(frames, puzzle, confidence, energy)
    total = len(film.frames)
    pictures = (_draw(film, step, f"step {step + 1} / {total}") for step in range(total))
    write_gif(path, pictures, milliseconds=milliseconds, hold=hold, palette=_palette(), optimize=True)
