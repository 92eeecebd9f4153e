"""AugMix in one pass over memory: a program has one colour of one picture, and its chains stay in registers.

The plain form in `akorn.robustness.augmix` makes some two hundred passes, most of them for operations that a chain
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
_DEGREE = tl.constexpr(math.pi / 180)

_WARPS = 8
_LEAST, _MOST = 32 * _WARPS, 4096  # pixels of a picture: one a thread, and what stays in registers


@triton.jit
def _truncated(x):
    return x.to(tl.int32).to(tl.float32)


@triton.jit
def _moved(state, kind, level, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Grey levels read elsewhere, as `_places` and `_move` have it."""
    pixel = tl.arange(0, HEIGHT * WIDTH)
    x = (pixel % WIDTH).to(tl.float32) + 0.5
    y = (pixel // WIDTH).to(tl.float32) + 0.5
    angle = tl.where(kind == _ROTATE, _truncated(3 * level) * _DEGREE, 0.0)
    cos, sin = tl.cos(angle), tl.sin(angle)
    right = tl.where(kind == _TRANSLATE_X, _truncated(level * (WIDTH / 30)), 0.0)
    down = tl.where(kind == _TRANSLATE_Y, _truncated(level * (HEIGHT / 30)), 0.0)
    right += (WIDTH / 2) * (1 - cos) + (HEIGHT / 2) * sin
    down += (HEIGHT / 2) * (1 - cos) - (WIDTH / 2) * sin
    across = tl.where(kind == _SHEAR_X, 0.03 * level, 0.0) - sin
    along = tl.where(kind == _SHEAR_Y, 0.03 * level, 0.0) + sin
    # from −1 to 1, and back to pixels, in the plain form's order: which pixels lie inside hangs on the rounding
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
    """⌊(⌊s/2⌋ + pixels darker than v) / s⌋, as `_replace` has it."""
    brightest = tl.sum((state == tl.max(state, 0)).to(tl.int32), 0)
    step = (PIXELS - brightest) // 255
    counts = tl.histogram(state, 256)
    darker = tl.cumsum(counts, 0) - counts
    table = tl.minimum((darker + step // 2) // tl.maximum(step, 1), 255)
    return tl.where(step > 0, tl.gather(table, state, 0), state)


@triton.jit
def _augmix_kernel(
    x,  # [pictures, COLOURS, HEIGHT, WIDTH] float32
    out,
    operation,  # [depth, chains] int64
    levels,  # [depth, 2, chains]
    lengths,  # [chains] int64
    weights,  # [pictures, CHAINS]
    share,  # [pictures]
    chains,
    spread,
    COLOURS: tl.constexpr,
    CHAINS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    PIXELS: tl.constexpr = HEIGHT * WIDTH
    plane = tl.program_id(0).to(tl.int64)
    picture = plane // COLOURS
    place = plane * PIXELS + tl.arange(0, PIXELS)
    original = tl.load(x + place)
    mixed = tl.zeros((PIXELS,), tl.float32)
    total = 0.0
    for chain in range(CHAINS):
        number = picture * CHAINS + chain
        state = (original * 255 + 0.5).to(tl.int32)
        for step in range(tl.load(lengths + number).to(tl.int32)):
            kind = tl.load(operation + step * chains + number)
            strength = 0.1 + spread * tl.load(levels + 2 * step * chains + number)
            if kind == _AUTOCONTRAST:
                low, high = tl.min(state, 0), tl.max(state, 0)
                state = tl.where(high > low, (state - low) * 255 // tl.maximum(high - low, 1), state)
            elif kind == _EQUALIZE:
                state = _equalised(state, PIXELS)
            elif kind == _POSTERIZE:
                bits = 4 + (0.4 * strength).to(tl.int32)
                state = (state >> bits) << bits
            elif kind == _SOLARIZE:
                state = tl.where(state < 256 - (25.6 * strength).to(tl.int32), state, 255 - state)
            else:
                negative = tl.load(levels + (2 * step + 1) * chains + number) < 0.5
                state = _moved(state, kind, tl.where(negative, -strength, strength), HEIGHT, WIDTH)
        weight = tl.log(tl.maximum(tl.load(weights + number), 1e-12))
        total += weight
        mixed += weight * state
    mixed /= 255 * total
    mixed = original + tl.load(share + picture) * (mixed - original)
    tl.store(out + place, tl.minimum(tl.maximum(mixed, 0.0), 1.0))


def fits(x: Tensor) -> bool:
    """Whether the kernel knows pictures of this size: a power of two, neither few nor many pixels."""
    pixels = x.shape[2] * x.shape[3]
    return _LEAST <= pixels <= _MOST and pixels & (pixels - 1) == 0


def fused_augmix(x: Tensor, draws: Draws, severity: float) -> Tensor:
    """What `akorn.robustness.augmix` makes of pictures [B, C, H, W], float32 from 0 to 1, and its random numbers."""
    x = x.contiguous()
    out = torch.empty_like(x)
    batch, colours, height, width = x.shape
    with torch.cuda.device_of(x):  # Triton launches on the current one
        _augmix_kernel[(batch * colours,)](
            x,
            out,
            draws.operation,
            draws.levels,
            draws.lengths,
            draws.weights,
            draws.share,
            len(draws.lengths),
            severity - 0.1,
            COLOURS=colours,
            CHAINS=len(draws.lengths) // batch,
            HEIGHT=height,
            WIDTH=width,
            num_warps=_WARPS,
        )
    return out
