"""Masks and features as pictures: palettes, overlays, PCA colours, and pages of panels side by side."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFont

from akorn.objects.features import principal_components
from akorn.objects.metrics import contingency
from akorn.runtime.files import replacing

Pixels = NDArray[np.uint8]  # [H, W, 3]
Labels = NDArray[np.integer]  # [H, W]

_NONE = (255, 255, 255)  # ignored, or in no cluster
_GROUND = (58, 64, 74)  # label 0
_FIRST = (
    (230, 75, 60), (52, 152, 219), (241, 196, 15), (46, 178, 100), (155, 89, 182), (243, 140, 40), (26, 188, 172),
    (232, 121, 178), (149, 204, 64), (130, 90, 60), (90, 110, 200), (200, 180, 150),
)  # fmt: skip
_INK = (28, 35, 48)
_SHOWN = 256  # the smallest length of an overlay's longer side, in pixels
_PANEL = 128  # the smallest side of a panel on a page, in pixels
_ROWS = 256  # rows of a picture that are processed at a time
_LARGE = 2**22  # pixels
_RUNS = 3  # zlib's Z_RLE: only runs of equal bytes


@cache
def palette(count: int) -> Pixels:
    """[count, 3]: a dark grey for label 0, then colours that are easy to tell apart.

    Label 0 is the background, in true masks and after `background_first`.
    """
    colours = [_GROUND, *_FIRST]
    while len(colours) < count:  # golden-angle hues never repeat
        hue = len(colours) * 0.618033988749895 % 1
        red, green, blue = colorsys.hsv_to_rgb(hue, 0.55 + 0.4 * (len(colours) % 2), 0.9)
        colours.append((round(255 * red), round(255 * green), round(255 * blue)))
    return np.array(colours[:count], np.uint8)


def colour_labels(labels: ArrayLike) -> Pixels:
    """Labels [H, W] → RGB; negative ones are white."""
    array = np.asarray(labels)
    return _table(array)[np.maximum(array, -1) + 1]


def _table(labels: Labels) -> Pixels:
    """The colours of labels from −1 up."""
    return np.concatenate((np.array([_NONE], np.uint8), palette(max(int(labels.max(initial=0)), 0) + 1)))


def like_truth(predicted: ArrayLike, truth: ArrayLike) -> Labels:
    """The clusters of a picture [H, W], numbered so that each gets the colour of the region it matches.

    The pair of cluster and true region (background included) with the largest IoU goes first, then the next among
    those left; clusters without a match get new numbers.
    """
    found, true = np.asarray(predicted).astype(np.int64), np.asarray(truth).astype(np.int64)
    table = contingency(torch.from_numpy(found)[None], torch.from_numpy(true)[None])[0, :, 1:].numpy()
    union = table.sum(1, keepdims=True) + table.sum(0) - table
    iou = table / np.maximum(union, 1)
    numbers: dict[int, int] = {}
    while iou.size and iou.max() > 0:
        region, cluster = np.unravel_index(iou.argmax(), iou.shape)
        numbers[int(cluster)] = int(region)
        iou[region], iou[:, cluster] = 0, 0
    free = int(max(true.max(initial=0), 0)) + 1
    for cluster in np.unique(found[found >= 0]).tolist():
        if cluster not in numbers:
            numbers[cluster] = free
            free += 1
    lookup = np.full(max(int(found.max(initial=-1)), 0) + 2, -1)
    for cluster, number in numbers.items():
        lookup[cluster + 1] = number
    return lookup[np.maximum(found, -1) + 1]


def overlay(image: ArrayLike, labels: ArrayLike, opacity: float = 0.5) -> Pixels:
    """The picture [C, H, W] in bytes under the colours of its clusters, whose borders are drawn in white."""
    array, picture = np.asarray(labels), np.asarray(image)
    mixed = np.empty((*array.shape, 3), np.uint8)
    table = _table(array)
    for top in range(0, len(array), _ROWS):  # floats of a few rows, to save memory
        rows = slice(top, top + _ROWS)
        numbers = np.maximum(array[rows], -1) + 1
        mixed[rows] = _mix(as_rgb(picture[:, rows]), table[numbers], opacity)
        border = np.zeros(numbers.shape, bool)
        above = array[max(top - 1, 0) : top + _ROWS]
        border[0 if top else 1 :] |= above[1:] != above[:-1]
        border[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
        mixed[rows][border] = 255
    return mixed


def _mix(picture: Pixels, colours: Pixels, opacity: float) -> Pixels:
    """(1 − opacity) · picture + opacity · colours, rounded to the nearest byte, and halves to the even one."""
    if opacity != 0.5:
        mixed: Pixels = ((1 - opacity) * picture + opacity * colours).round().astype(np.uint8)
        return mixed
    total = picture.astype(np.uint16) + colours  # the same in whole numbers, which is several times faster
    half = total >> 1
    return (half + (total & half & 1)).astype(np.uint8)


def background_first(labels: ArrayLike) -> Labels:
    """The clusters of a picture [H, W] with the background as 0, the others in their order from 1.

    The background is the largest of the clusters that touch the border; among equals, the one with the lower number. It
    thus has the same colour in every picture; for objects nothing could ensure that without labels.
    """
    array = np.asarray(labels)
    if not array.size:
        return array
    most = int(array.max()) + 1
    strips = range(0, len(array), _ROWS)  # counting needs 8 bytes per number
    sizes = sum((np.bincount(array[top : top + _ROWS].ravel(), minlength=most) for top in strips), np.zeros(most, int))
    border = np.unique(np.concatenate((array[0], array[-1], array[:, 0], array[:, -1])))
    background = int(border[sizes[border].argmax()])
    numbers = np.arange(len(sizes))
    return np.where(numbers == background, 0, numbers + (numbers < background)).astype(array.dtype)[array]


def shown_overlay(image: ArrayLike, labels: ArrayLike) -> Pixels:
    """`overlay`, with small pictures enlarged by a whole number (nearest neighbour) to be visible."""
    times = max(1, -(-_SHOWN // max(np.asarray(labels).shape)))
    if times == 1:
        return overlay(image, labels)
    large, wide = (np.asarray(array).repeat(times, -1).repeat(times, -2) for array in (image, labels))
    return overlay(large, wide)


def as_rgb(image: ArrayLike) -> Pixels:
    """A picture [1 or 3, H, W] in bytes → [H, W, 3]."""
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[0] not in (1, 3) or array.dtype != np.uint8:
        raise ValueError(f"a picture must be bytes [1 or 3, H, W], got {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(np.broadcast_to(array, (3, *array.shape[1:])).transpose(1, 2, 0))


def colour_features(features: torch.Tensor, first: int = 0) -> Pixels:
    """Features [K, h, w] → RGB [h, w, 3]: principal components first + 1 to first + 3 as red, green and blue."""
    _, height, width = features.shape
    points = features.detach().cpu().double().flatten(1).T[None]  # [1, h·w, K]
    return _rgb(principal_components(points, first + 3)[0, :, first:]).reshape(height, width, 3)


def colour_states(states: torch.Tensor) -> Pixels:
    """States [T, C, h, w] of oscillators → RGB [T, h, w, 3]; one PCA for all steps, so that colours compare."""
    steps, _, height, width = states.shape
    points = states.detach().cpu().double().permute(0, 2, 3, 1).flatten(0, 2)[None]  # [1, T·h·w, C]
    return _rgb(principal_components(points, 3)[0]).reshape(steps, height, width, 3)


def _rgb(coordinates: torch.Tensor) -> Pixels:
    """Coordinates [P, 3] → bytes [P, 3]; the middle 98 % of each fill the range."""
    values = coordinates.numpy()
    low, high = np.quantile(values, (0.01, 0.99), axis=0)
    flat = high - low <= 1e-6 * np.abs(values).max()  # a component that is only rounding error stays grey
    spread = np.where(flat, np.inf, high - low)
    middle = (low + high) / 2
    return (255 * (0.5 + (values - middle) / spread).clip(0, 1)).round().astype(np.uint8)


def enlarge_pixels(pixels: Pixels, width: int, height: int) -> Image.Image:
    """An RGB picture in another size, pixels kept sharp."""
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)


def write_mask(path: Path, labels: ArrayLike) -> None:
    """Labels [H, W], from 0 to 255, as a PNG with a palette: the numbers in it are the labels."""
    array = np.asarray(labels)
    if array.size and not 0 <= array.min() <= array.max() <= 255:
        raise ValueError(
            f"a PNG with a palette can hold labels from 0 to 255, these range from {array.min()} to {array.max()}"
        )
    image = Image.fromarray(array.astype(np.uint8), "P")
    image.putpalette(palette(256).tobytes())
    with replacing(path) as temporary:
        image.save(temporary, format="PNG", **_effort(array))


def write_rgb(path: Path, pixels: Pixels) -> None:
    """An RGB picture as PNG."""
    with replacing(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG", **_effort(pixels))


def _effort(array: NDArray[np.uint8]) -> dict[str, int]:
    """How hard zlib tries: as little as possible with large pictures, which would take many seconds."""
    return {"compress_level": 1, "compress_type": _RUNS} if array.shape[0] * array.shape[1] > _LARGE else {}


def write_page(path: Path, headings: Sequence[str], rows: Sequence[Sequence[Pixels]]) -> Path:
    """Pictures side by side, one row after the other, under the headings of their columns; as PNG."""
    if not rows or any(len(row) != len(headings) for row in rows):
        raise ValueError(f"a page needs rows of {len(headings)} pictures each, got {[len(row) for row in rows]}")
    tall, wide = (max(picture.shape[axis] for row in rows for picture in row) for axis in (0, 1))
    times = max(1, -(-_PANEL // max(tall, wide)))
    width, height, gap, head = wide * times, tall * times, 6, 24
    page = Image.new("RGB", (gap + len(headings) * (width + gap), head + len(rows) * (height + gap)), "white")
    pen = ImageDraw.Draw(page)
    for column, heading in enumerate(headings):
        middle = gap + column * (width + gap) + width / 2
        pen.text((middle, head / 2), heading, fill=_INK, font=ImageFont.load_default(13), anchor="mm")
    for number, row in enumerate(rows):
        for column, picture in enumerate(row):
            place = (gap + column * (width + gap), head + number * (height + gap))
            page.paste(enlarge_pixels(picture, width, height), place)
    with replacing(path) as temporary:
        page.save(temporary, format="PNG")
    return path
