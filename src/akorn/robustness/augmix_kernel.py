"""AugMix in one pass over memory: a program keeps the chains of one picture, in one or three colours, in registers.

The plain form in `akorn.robustness.augmix` makes about three hundred passes, most of them for operations that a chain
did not draw. Needs Triton to import.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

import math

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.robustness.augmix import OPERATIONS, Draws

_AUTOCONTRAST = tl.constexpr(OPERATIONS.index("autocontrast"))
_EQUALIZE = tl.constexpr(OPERATIONS.index("equalize"))
_POSTERIZE = tl.constexpr(OPERATIONS.index("posterize"))
_ROTATE = tl.constexpr(OPERATIONS.index("rotate"))
_SOLARIZE = tl.constexpr(OPERATIONS.index("solarize"))
_SHEAR_X = tl.constexpr(OPERATIONS.index("shear_x"))
_SHEAR_Y = tl.constexpr(OPERATIONS.index("shear_y"))
_TRANSLATE_X = tl.constexpr(OPERATIONS.index("translate_x"))
_TRANSLATE_Y = tl.constexpr(OPERATIONS.index("translate_y"))
_BRIGHTNESS = tl.constexpr(OPERATIONS.index("brightness"))
_COLOUR = tl.constexpr(OPERATIONS.index("colour"))
_CONTRAST = tl.constexpr(OPERATIONS.index("contrast"))
_SHARPNESS = tl.constexpr(OPERATIONS.index("sharpness"))
_DEGREE = tl.constexpr(math.pi / 180)

_WARPS = 8
_LEAST, _MOST = 32 * _WARPS, 4096  # pixels of a picture: one per thread, and what fits in registers


@triton.jit
def _moved(state, kind, amount, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Grey levels read elsewhere, as in `_places` and `_move`."""
    pixel = tl.arange(0, HEIGHT * WIDTH)
    x = (pixel % WIDTH).to(tl.float32) + 0.5
    y = (pixel // WIDTH).to(tl.float32) + 0.5
    angle = tl.where(kind == _ROTATE, amount * _DEGREE, 0.0)
    cos, sin = tl.cos(angle), tl.sin(angle)
    right = tl.where(kind == _TRANSLATE_X, amount, 0.0)
    down = tl.where(kind == _TRANSLATE_Y, amount, 0.0)
    right += (WIDTH / 2) * (1 - cos) + (HEIGHT / 2) * sin
    down += (HEIGHT / 2) * (1 - cos) - (WIDTH / 2) * sin
    across = tl.where(kind == _SHEAR_X, amount, 0.0) - sin
    along = tl.where(kind == _SHEAR_Y, amount, 0.0) + sin
    # from −1 to 1, and back to pixels, in the plain form's order: which pixels lie inside depends on the rounding
    x, y = (
        cos * (2 / WIDTH) * x + (across * (2 / WIDTH) * y + (right * (2 / WIDTH) - 1)),
        along * (2 / HEIGHT) * x + (cos * (2 / HEIGHT) * y + (down * (2 / HEIGHT) - 1)),
    )
    inside = (x >= -1) & (x < 1) & (y >= -1) & (y < 1)
    x = tl.minimum(tl.maximum(((x + 1) * WIDTH - 1) / 2, 0.0), WIDTH - 1.0)
    y = tl.minimum(tl.maximum(((y + 1) * HEIGHT - 1) / 2, 0.0), HEIGHT - 1.0)
    left, top = x.to(tl.int32), y.to(tl.int32)
    by_x, by_y = x - left, y - top
    further, lower = tl.minimum(left + 1, WIDTH - 1), tl.minimum(top + 1, HEIGHT - 1)
    upper_row = tl.gather(state, top * WIDTH + left, 0) * (1 - by_x) + tl.gather(state, top * WIDTH + further, 0) * by_x
    lower_row = (
        tl.gather(state, lower * WIDTH + left, 0) * (1 - by_x) + tl.gather(state, lower * WIDTH + further, 0) * by_x
    )
    value = upper_row * (1 - by_y) + lower_row * by_y
    return tl.where(inside, (value + 1e-3).to(tl.int32), 0)


@triton.jit
def _equalised(state, PIXELS: tl.constexpr):
    """⌊(⌊s/2⌋ + pixels darker than v) / s⌋, as in `_replace`."""
    brightest = tl.sum((state == tl.max(state, 0)).to(tl.int32), 0)
    step = (PIXELS - brightest) // 255
    counts = tl.histogram(state, 256)
    darker = tl.cumsum(counts, 0) - counts
    table = tl.minimum((darker + step // 2) // tl.maximum(step, 1), 255)
    return tl.where(step > 0, tl.gather(table, state, 0), state)


@triton.jit
def _changed(state, kind, amount, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """One of the nine operations that see a single colour."""
    if kind == _AUTOCONTRAST:
        low, high = tl.min(state, 0), tl.max(state, 0)
        state = tl.where(high > low, (state - low) * 255 // tl.maximum(high - low, 1), state)
    elif kind == _EQUALIZE:
        state = _equalised(state, HEIGHT * WIDTH)
    elif kind == _POSTERIZE:
        bits = amount.to(tl.int32)
        state = (state >> bits) << bits
    elif kind == _SOLARIZE:
        state = tl.where(state < amount, state, 255 - state)
    else:
        state = _moved(state, kind, amount, HEIGHT, WIDTH)
    return state


@triton.jit
def _smoothed(state, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """The mean over 3 × 3 pixels, the middle five times; the border stays, as in the plain `_smoothed`."""
    pixel = tl.arange(0, HEIGHT * WIDTH)
    column, row = pixel % WIDTH, pixel // WIDTH
    inner = (column > 0) & (column < WIDTH - 1) & (row > 0) & (row < HEIGHT - 1)
    sides = (column > 0) & (column < WIDTH - 1)  # also in the first and last row, which inner pixels look at
    across = state + tl.gather(state, tl.where(sides, pixel - 1, pixel), 0)
    across += tl.gather(state, tl.where(sides, pixel + 1, pixel), 0)
    around = across + tl.gather(across, tl.where(inner, pixel - WIDTH, pixel), 0)
    around += tl.gather(across, tl.where(inner, pixel + WIDTH, pixel), 0)
    return tl.where(inner, (2 * (around + 4 * state) + 13) // 26, state)


@triton.jit
def _blended(state, grey, mean, kind, amount, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Brightness, colour, contrast or sharpness of one colour, as in the plain `_blend`."""
    other = tl.where(kind == _COLOUR, grey, tl.where(kind == _CONTRAST, mean, 0))
    if kind == _SHARPNESS:
        other = _smoothed(state, HEIGHT, WIDTH)
    value = other + (1 + amount) * (state - other)
    return (tl.minimum(tl.maximum(value, 0.0), 255.0) + 1e-3).to(tl.int32)


@triton.jit
def _augmix_kernel(
    x,  # [pictures, COLOURS, HEIGHT, WIDTH] float32
    out,
    operation,  # [depth, chains] int64
    amounts,  # [depth, chains]
    lengths,  # [chains] int64
    weights,  # [pictures, CHAINS]
    share,  # [pictures]
    chains,
    COLOURS: tl.constexpr,
    CHAINS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    PIXELS: tl.constexpr = HEIGHT * WIDTH
    picture = tl.program_id(0).to(tl.int64)
    place = picture * (COLOURS * PIXELS) + tl.arange(0, PIXELS)
    first = tl.load(x + place)
    second, third = first, first
    if COLOURS == 3:
        second, third = tl.load(x + place + PIXELS), tl.load(x + place + 2 * PIXELS)
    sum1, sum2, sum3 = tl.zeros_like(first), tl.zeros_like(first), tl.zeros_like(first)
    total = 0.0
    for chain in range(CHAINS):
        number = picture * CHAINS + chain
        red, green, blue = _grey_levels(first), _grey_levels(second), _grey_levels(third)
        for step in range(tl.load(lengths + number).to(tl.int32)):
            kind = tl.load(operation + step * chains + number)
            amount = tl.load(amounts + step * chains + number)
            if kind < _BRIGHTNESS:
                red = _changed(red, kind, amount, HEIGHT, WIDTH)
                if COLOURS == 3:
                    green = _changed(green, kind, amount, HEIGHT, WIDTH)
                    blue = _changed(blue, kind, amount, HEIGHT, WIDTH)
            else:
                grey = red
                if COLOURS == 3:
                    grey = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
                mean = (2 * tl.sum(grey, 0) + PIXELS) // (2 * PIXELS)
                red = _blended(red, grey, mean, kind, amount, HEIGHT, WIDTH)
                if COLOURS == 3:
                    green = _blended(green, grey, mean, kind, amount, HEIGHT, WIDTH)
                    blue = _blended(blue, grey, mean, kind, amount, HEIGHT, WIDTH)
        weight = tl.log(tl.maximum(tl.load(weights + number), 1e-12))
        total += weight
        sum1 += weight * red
        sum2 += weight * green
        sum3 += weight * blue
    total *= 255
    by = tl.load(share + picture)
    _store(out + place, first, sum1 / total, by)
    if COLOURS == 3:
        _store(out + place + PIXELS, second, sum2 / total, by)
        _store(out + place + 2 * PIXELS, third, sum3 / total, by)


@triton.jit
def _grey_levels(x):
    return (x * 255 + 0.5).to(tl.int32)


@triton.jit
def _store(place, original, mixed, share):
    tl.store(place, tl.minimum(tl.maximum(original + share * (mixed - original), 0.0), 1.0))


def fits(x: Tensor) -> bool:
    """Whether the kernel takes pictures of this size: their number of pixels is a power of two within its limits."""
    pixels = x.shape[2] * x.shape[3]
    return _LEAST <= pixels <= _MOST and pixels & (pixels - 1) == 0


def fused_augmix(x: Tensor, draws: Draws, amounts: Tensor) -> Tensor:
    """What `akorn.robustness.augmix` makes of pictures [B, C, H, W], float32 from 0 to 1, and its random numbers.

    amounts: of each operation, [depth, chains].
    """
    x = x.contiguous()
    out = torch.empty_like(x)
    batch, colours, height, width = x.shape
    with torch.cuda.device_of(x):  # Triton launches on the current device
        _augmix_kernel[(batch,)](
            x,
            out,
            draws.operation,
            amounts,
            draws.lengths,
            draws.weights,
            draws.share,
            len(draws.lengths),
            COLOURS=colours,
            CHAINS=len(draws.lengths) // batch,
            HEIGHT=height,
            WIDTH=width,
            num_warps=_WARPS,
        )
    return out
