"""All of `augment` except the noise in one kernel: a program makes one view, from bytes to float32.

The plain forms, in `crop` and `colour`, make about 260 passes over a batch. Crops are the same bilinear filter with
antialiasing: an output pixel reads as many input pixels as its hat function covers, two per side if a crop is
enlarged. The mean grey, which the contrast needs, is computed in a first pass over the view. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import math

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.augment.config import AugmentConfig
from akorn.augment.crop import TRIES, Size, check_ranges, largest

_TRIES = tl.constexpr(TRIES)
_BLOCK = 1024  # pixels that a program processes at once
_MOST_TAPS = 8  # input pixels per side of an output pixel: enough to shrink a crop to a quarter


@triton.jit
def _grey(red, green, blue):
    return 0.299 * red + 0.587 * green + 0.114 * blue


@triton.jit
def _blend(x, other, factor):
    """x + (1 − f)(y − x), clipped to 0–1."""
    return tl.minimum(tl.maximum(x + (1 - factor) * (other - x), 0.0), 1.0)


@triton.jit
def _turned(value, chroma, hue, n):
    """A colour after hsv_to_rgb: v − v·s·max(0, min(k, 4 − k, 1)), k = (n + 6h) mod 6; v·s is the chroma."""
    k = n + hue
    k -= 6 * tl.floor(k / 6)
    return value - chroma * tl.minimum(tl.maximum(tl.minimum(k, 4 - k), 0.0), 1.0)


@triton.jit
def _changed(red, green, blue, kind, brightness, contrast, saturation, turn, mean, HUE: tl.constexpr):
    """Colours after one change; kind: 0 brightness, 1 contrast, 2 saturation, 3 hue, else none."""
    if kind < 3:
        factor = tl.where(kind == 0, brightness, tl.where(kind == 1, contrast, saturation))
        other = _grey(red, green, blue)
        other = tl.where(kind == 2, other, tl.where(kind == 1, mean, 0.0))
        red, green, blue = _blend(red, other, factor), _blend(green, other, factor), _blend(blue, other, factor)
    if HUE and kind == 3:
        value = tl.maximum(tl.maximum(red, green), blue)
        chroma = value - tl.minimum(tl.minimum(red, green), blue)
        safe = tl.where(chroma > 0, chroma, 1.0)
        hue = tl.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
        hue = tl.where(value == red, (green - blue) / safe, hue) + 6 * turn  # in sixths of the circle
        red, green, blue = (
            _turned(value, chroma, hue, 5.0),
            _turned(value, chroma, hue, 3.0),
            _turned(value, chroma, hue, 1.0),
        )
    return red, green, blue


@triton.jit
def _hat(index, tap, step, length):
    """The input pixel that is an output pixel's tap, counted from the crop's border, and its weight."""
    radius = tl.maximum(step, 1.0)
    centre = (index + 0.5) * step
    there = tl.floor(centre - 0.5 - radius) + 1 + tap
    weight = tl.maximum(1 - tl.abs(there + 0.5 - centre) / radius, 0.0)
    return there, tl.where((there >= 0) & (there < length), weight, 0.0)


@triton.jit
def _cropped(
    picture,
    pixel,
    mirrored,
    top,
    left,
    high,
    wide,
    COLOURS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BYTES: tl.constexpr,
):
    """The three colours, 0–1, of pixels of the crop (top, left, high, wide) at its new size; one colour is all three"""
    pixel = tl.minimum(pixel, OUT_HEIGHT * OUT_WIDTH - 1)  # there are no more pixels
    row, column = pixel // OUT_WIDTH, pixel % OUT_WIDTH
    column = tl.where(mirrored, OUT_WIDTH - 1 - column, column)
    red = tl.zeros(pixel.shape, tl.float32)
    green, blue, total = red, red, red
    for i in tl.static_range(ROWS):
        y, by_y = _hat(row, i, high / OUT_HEIGHT, high)
        for j in tl.static_range(COLUMNS):
            x, by_x = _hat(column, j, wide / OUT_WIDTH, wide)
            weight = by_y * by_x
            place = picture + (top + y).to(tl.int32) * WIDTH + (left + x).to(tl.int32)
            seen = weight > 0
            red += weight * tl.load(place, mask=seen, other=0).to(tl.float32)
            if COLOURS == 3:
                green += weight * tl.load(place + HEIGHT * WIDTH, mask=seen, other=0).to(tl.float32)
                blue += weight * tl.load(place + 2 * HEIGHT * WIDTH, mask=seen, other=0).to(tl.float32)
            total += weight
    if COLOURS == 1:
        green, blue = red, red
    if BYTES:
        total *= 255
    return tl.minimum(red / total, 1.0), tl.minimum(green / total, 1.0), tl.minimum(blue / total, 1.0)


@triton.jit
def _box(numbers, view, views, least, area, low, log_ratio, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
         ALL_TOP: tl.constexpr, ALL_LEFT: tl.constexpr, ALL_HIGH: tl.constexpr, ALL_WIDE: tl.constexpr):  # fmt: skip
    """Top, left, height, width of a crop, as `random_boxes` draws them."""
    tried = tl.arange(0, 16)
    mask = tried < _TRIES
    size = HEIGHT * WIDTH * (least + area * tl.load(numbers + view * _TRIES + tried, mask=mask, other=0.0))
    numbers += views * _TRIES
    shape = tl.exp(low + log_ratio * tl.load(numbers + view * _TRIES + tried, mask=mask, other=0.0))
    wide, high = tl.floor(tl.sqrt_rn(size * shape) + 0.5), tl.floor(tl.sqrt_rn(size / shape) + 0.5)
    fits = mask & (wide >= 1) & (wide <= WIDTH) & (high >= 1) & (high <= HEIGHT)
    first = tl.min(tl.where(fits, tried, 16), 0)
    wide, high = tl.sum(tl.where(tried == first, wide, 0.0), 0), tl.sum(tl.where(tried == first, high, 0.0), 0)
    numbers += views * _TRIES + 2 * view
    top = tl.floor(tl.load(numbers) * (HEIGHT - high + 1))
    left = tl.floor(tl.load(numbers + 1) * (WIDTH - wide + 1))
    none = first == 16
    return (
        tl.where(none, ALL_TOP, top),
        tl.where(none, ALL_LEFT, left),
        tl.where(none, ALL_HIGH, high),
        tl.where(none, ALL_WIDE, wide),
    )


@triton.jit
def _augment_kernel(
    images,  # [pictures, COLOURS, HEIGHT, WIDTH], bytes or float32
    numbers,  # uniform in 0–1: for each part that is on [views, columns of the part], one part after the other
    out,  # [views, COLOURS, OUT_HEIGHT, OUT_WIDTH]
    pictures,
    views,
    least,  # a crop's share of the area: smallest value and range; then the same for the logarithm of its ratio
    area,
    low,
    log_ratio,
    flip,  # probabilities and strengths
    brightness,
    contrast,
    saturation,
    turn,
    jitter,
    grey,
    COLOURS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ALL_TOP: tl.constexpr,  # the largest crop in the middle, if no try fits
    ALL_LEFT: tl.constexpr,
    ALL_HIGH: tl.constexpr,
    ALL_WIDE: tl.constexpr,
    BYTES: tl.constexpr,
    CROP: tl.constexpr,
    FLIP: tl.constexpr,
    JITTER: tl.constexpr,
    HUE: tl.constexpr,
    GREY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    PIXELS: tl.constexpr = OUT_HEIGHT * OUT_WIDTH
    view = tl.program_id(0).to(tl.int64)
    picture = images + (view % pictures) * (COLOURS * HEIGHT * WIDTH)
    top, left, high, wide = 0.0, 0.0, HEIGHT + 0.0, WIDTH + 0.0
    if CROP:
        top, left, high, wide = _box(numbers, view, views, least, area, low, log_ratio, HEIGHT, WIDTH,
                                     ALL_TOP, ALL_LEFT, ALL_HIGH, ALL_WIDE)  # fmt: skip
        numbers += views * (2 * _TRIES + 2)
    mirrored = view < 0
    if FLIP:
        mirrored = tl.load(numbers + view) < flip
        numbers += views

    # The order of the changes is a ranking of four random keys.
    if JITTER:
        mean = 0.0
        brightness = 1 + brightness * (2 * tl.load(numbers + 3 * view) - 1)
        contrast = 1 + contrast * (2 * tl.load(numbers + 3 * view + 1) - 1)
        saturation = 1 + saturation * (2 * tl.load(numbers + 3 * view + 2) - 1)
        numbers += 3 * views
        turn = turn * (2 * tl.load(numbers + view) - 1)
        numbers += views
        k0, k1 = tl.load(numbers + 4 * view), tl.load(numbers + 4 * view + 1)
        k2, k3 = tl.load(numbers + 4 * view + 2), tl.load(numbers + 4 * view + 3)
        numbers += 4 * views
        first = (k1 <= k0).to(tl.int32) + (k2 <= k0).to(tl.int32) + (k3 <= k0).to(tl.int32)
        second = (k0 < k1).to(tl.int32) + (k2 <= k1).to(tl.int32) + (k3 <= k1).to(tl.int32)
        third = (k0 < k2).to(tl.int32) + (k1 < k2).to(tl.int32) + (k3 <= k2).to(tl.int32)
        changes = tl.where(tl.load(numbers + view) < jitter, 4, 0)
        numbers += views
        sums = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, tl.where(changes > 0, PIXELS, 0), BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            red, green, blue = _cropped(picture, pixel, mirrored, top, left, high, wide, COLOURS, HEIGHT, WIDTH,
                                        OUT_HEIGHT, OUT_WIDTH, ROWS, COLUMNS, BYTES)  # fmt: skip
            for place in range(second):  # what comes before the contrast
                kind = tl.where(place == first, 0, tl.where(place == third, 2, 3))
                red, green, blue = _changed(red, green, blue, kind, brightness, contrast, saturation, turn, mean, HUE)
            sums += tl.where(pixel < PIXELS, _grey(red, green, blue), 0.0)
        mean = tl.sum(sums, 0) / PIXELS
    colourless = view < 0
    if GREY:
        colourless = tl.load(numbers + view) < grey

    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        red, green, blue = _cropped(picture, pixel, mirrored, top, left, high, wide, COLOURS, HEIGHT, WIDTH,
                                    OUT_HEIGHT, OUT_WIDTH, ROWS, COLUMNS, BYTES)  # fmt: skip
        if JITTER:
            for place in range(changes):
                kind = tl.where(place == second, 1, tl.where(place == third, 2, 3))
                kind = tl.where(place == first, 0, kind)
                red, green, blue = _changed(red, green, blue, kind, brightness, contrast, saturation, turn, mean, HUE)
        if GREY and COLOURS == 3:
            luma = _grey(red, green, blue)
            red = tl.where(colourless, luma, red)
            green, blue = tl.where(colourless, luma, green), tl.where(colourless, luma, blue)
        place = out + view * (COLOURS * PIXELS) + pixel
        tl.store(place, red, mask=pixel < PIXELS)
        if COLOURS == 3:
            tl.store(place + PIXELS, green, mask=pixel < PIXELS)
            tl.store(place + 2 * PIXELS, blue, mask=pixel < PIXELS)


def fits(images: Tensor, size: Size) -> bool:
    """Whether the kernel supports such pictures: bytes or float32, not shrunk to less than a quarter."""
    known = images.dtype in (torch.uint8, torch.float32) and not images.requires_grad
    return known and max(_taps(images, size)) <= _MOST_TAPS


def columns(config: AugmentConfig, *, crop: bool, jitter: bool) -> int:
    """Random numbers per view."""
    return (2 * TRIES + 2) * crop + bool(config.flip) + 9 * jitter + bool(config.grey)


def fused_views(
    images: Tensor, numbers: Tensor, config: AugmentConfig, size: Size, copies: int, *, crop: bool, jitter: bool
) -> Tensor:
    """`copies` views of each picture [B, C, H, W], all first ones before all second ones, without noise.

    numbers: [copies · B · columns] uniform in 0–1, in the order in which the plain forms draw them. crop, jitter:
    whether the config asks for them.
    """
    check_ranges(config.scale, config.ratio)
    images = images.contiguous()
    count, colours, height, width = images.shape
    out = images.new_empty(copies * count, colours, *size, dtype=torch.float32)
    rows, columns = _taps(images, size)
    all_high, all_wide = largest(height, width, config.ratio)
    low, high = math.log(config.ratio[0]), math.log(config.ratio[1])
    with torch.cuda.device_of(images):  # Triton launches on the current device
        _augment_kernel[(len(out),)](
            images,
            numbers,
            out,
            count,
            len(out),
            config.scale[0],
            config.scale[1] - config.scale[0],
            low,
            high - low,
            float(config.flip),
            float(config.brightness),
            float(config.contrast),
            float(config.saturation),
            float(config.hue),
            float(config.jitter),
            float(config.grey),
            COLOURS=colours,
            HEIGHT=height,
            WIDTH=width,
            OUT_HEIGHT=size[0],
            OUT_WIDTH=size[1],
            ROWS=rows,
            COLUMNS=columns,
            ALL_TOP=float(round((height - all_high) / 2)),
            ALL_LEFT=float(round((width - all_wide) / 2)),
            ALL_HIGH=float(all_high),
            ALL_WIDE=float(all_wide),
            BYTES=images.dtype == torch.uint8,
            CROP=crop,
            FLIP=bool(config.flip),
            JITTER=jitter,
            HUE=bool(config.hue) and colours == 3,
            GREY=bool(config.grey),
            BLOCK=_BLOCK,
            num_warps=8,
        )
    return out


def _taps(images: Tensor, size: Size) -> tuple[int, int]:
    """The largest number of input pixels per output pixel, for rows and for columns."""
    rows, columns = (math.ceil(2 * max(1.0, full / out)) for full, out in zip(images.shape[2:], size, strict=True))
    return rows, columns
