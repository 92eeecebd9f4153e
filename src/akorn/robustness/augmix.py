"""AugMix (Hendrycks et al., 2020): a picture mixed with changed versions of itself, a batch at once, on its device.

Every operation is one of three kinds. Rotation, shear and translation read each pixel from another place: one bilinear
look-up with six numbers per picture. Autocontrast, equalise, posterise and solarise replace each grey level of a colour
by another: one look-up in a table of 256. Brightness, colour, contrast and sharpness blend the picture with a poorer
one. So one step of all chains of all pictures is one operation of each kind, with numbers and tables that do nothing
for the chains that drew another kind. Shapes do not depend on what was drawn and nothing waits for the device, so a
step may be recorded in a CUDA graph. On a CUDA device with Triton one kernel does it all, with the same random numbers:
`akorn.robustness.augmix_kernel`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn import kernels
from akorn.augment.image_batch import as_float
from akorn.robustness.recipes import AugmixOperations

OPERATIONS = (
    "autocontrast",
    "equalize",
    "posterize",
    "rotate",
    "solarize",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "brightness",
    "colour",
    "contrast",
    "sharpness",
)
"""The first nine are those of AugMix's own paper; none of them is a corruption of CIFAR-10-C."""
COUNTS: dict[AugmixOperations, int] = {"thirteen": 13, "nine": 9}
_BLENDS = OPERATIONS[9:]
_LEVELS = 256
_STEPS = 10  # equal steps of magnitude, for the thirteen operations


def augmix(
    images: Tensor,
    generator: torch.Generator | None = None,
    *,
    operations: AugmixOperations = "thirteen",
    width: int = 3,
    depth: int = 3,
    severity: float = 3,
) -> Tensor:
    """(1 − m)·x + m·Σᵢ wᵢ·chainᵢ(x) for each picture, [B, C, H, W], bytes or floats in 0–1; float32 in 0–1 comes back.

    m is uniform and w uniform on the simplex (Beta and Dirichlet with α = 1). Each of `width` chains applies one to
    `depth` operations; their number and each operation are drawn at random. Chains work on whole grey levels, as Pillow
    does, and pixels from outside the picture are black. Both signs are equally likely.

    operations: "thirteen", as in the published CIFAR-10 experiments; each has one of the first `severity` of ten even
    steps k = 0, …, 9: shear by ±0.3·k/9, translate by ±⌊W/3·k/9⌋ pixels, rotate by ±30·k/9 degrees, posterise to
    4 − round(4·k/9) bits, solarise from 255 − 255·k/9 on, and brightness, colour, contrast and sharpness times
    1 ± 0.9·k/9. "nine", as in AugMix's own paper: with a level l uniform in 0.1 to `severity`, posterise to 4 − ⌊0.4 l⌋
    bits, rotate by ±⌊3 l⌋ degrees, solarise from 256 − ⌊25.6 l⌋ on, shear by ±0.03 l, translate by ±⌊l·W/30⌋ pixels.
    """
    if operations not in COUNTS:
        raise ValueError(f"operations must be thirteen or nine, got {operations!r}")
    if width < 1 or depth < 1:
        raise ValueError(f"width and depth must be at least 1, got {width} and {depth}")
    if operations == "thirteen" and severity not in range(1, _STEPS + 1):
        raise ValueError(f"severity must be a whole number from 1 to 10 for thirteen operations, got {severity}")
    if not 0.1 <= severity <= 10:
        raise ValueError(f"severity must be between 0.1 and 10, got {severity}")
    x = as_float(images).float()
    draws = _draw(x, width, depth, COUNTS[operations], generator)
    amounts = (_of_thirteen if operations == "thirteen" else _of_nine)(draws, severity, *x.shape[2:])
    if kernels.usable(x) and not (x.requires_grad and torch.is_grad_enabled()):
        from akorn.robustness import augmix_kernel

        if augmix_kernel.fits(x):
            return augmix_kernel.fused_augmix(x, draws, amounts)
    return _mix(x, draws, amounts, blends=operations == "thirteen")


class Draws(NamedTuple):
    """The random numbers of a batch with `chains` = B · width chains, all uniform."""

    operation: Tensor
    """Which of the operations, [depth, chains]."""
    levels: Tensor
    """In 0–1, [depth, 2, chains]: the level, and whether it is negative (below ½)."""
    lengths: Tensor
    """How many operations of a chain are done, from 1 to depth: [chains]."""
    weights: Tensor
    """[B, width] in 0–1; minus their logarithms are exponential numbers, and these over their sum are the weights."""
    share: Tensor
    """m, [B]."""


def _draw(x: Tensor, width: int, depth: int, count: int, generator: torch.Generator | None) -> Draws:
    batch, device = len(x), x.device
    chains = batch * width
    operation = torch.randint(count, (depth, chains), generator=generator, device=device)
    levels = torch.rand(depth, 2, chains, generator=generator, device=device)
    lengths = torch.randint(1, depth + 1, (chains,), generator=generator, device=device)
    weights = torch.rand(batch, width, generator=generator, device=device)
    return Draws(operation, levels, lengths, weights, torch.rand(batch, generator=generator, device=device))


def _of_nine(draws: Draws, severity: float, height: int, width: int) -> Tensor:
    """The amount of each operation in the paper's form, [depth, chains]; the units are those of `_amounts`."""
    level = 0.1 + (severity - 0.1) * draws.levels[:, 0]
    signed = torch.where(draws.levels[:, 1] < 0.5, -level, level)
    # trunc, since int() cuts towards 0 and the sign comes after it
    return _amounts(
        draws.operation,
        shear=0.03 * signed,
        right=(signed * (width / 30)).trunc(),
        down=(signed * (height / 30)).trunc(),
        degrees=(3 * signed).trunc(),
        cleared=4 + (0.4 * level).floor(),
        threshold=_LEVELS - (25.6 * level).floor(),
        blend=torch.zeros_like(level),
    )


def _of_thirteen(draws: Draws, severity: float, height: int, width: int) -> Tensor:
    """The same in the published form: one of the first `severity` of ten steps."""
    step = (severity * draws.levels[:, 0]).floor().clamp_max(severity - 1)
    signed = torch.where(draws.levels[:, 1] < 0.5, -step, step)
    last = _STEPS - 1
    return _amounts(
        draws.operation,
        shear=signed * (0.3 / last),
        right=(signed * (width / 3 / last)).trunc(),
        down=(signed * (height / 3 / last)).trunc(),
        degrees=signed * (30 / last),
        cleared=4 + (step * (4 / last)).round(),
        threshold=255 - step * (255 / last),
        blend=signed * (0.9 / last),
    )


def _amounts(
    operation: Tensor,
    *,
    shear: Tensor,
    right: Tensor,
    down: Tensor,
    degrees: Tensor,
    cleared: Tensor,
    threshold: Tensor,
    blend: Tensor,
) -> Tensor:
    """What each operation takes, in its own unit: slope, pixels, degrees, cleared bits, grey level, factor minus 1."""
    amount = torch.where(operation >= OPERATIONS.index(_BLENDS[0]), blend, shear)
    for name, value in (
        ("translate_x", right),
        ("translate_y", down),
        ("rotate", degrees),
        ("posterize", cleared),
        ("solarize", threshold),
    ):
        amount = torch.where(operation == OPERATIONS.index(name), value, amount)
    return amount


def _mix(x: Tensor, draws: Draws, amounts: Tensor, *, blends: bool = True) -> Tensor:
    """The plain form, for any device. blends: whether brightness, colour, contrast or sharpness may have been drawn."""
    batch, _, height, long = x.shape
    depth, width = len(draws.operation), draws.weights.shape[1]
    unused = torch.arange(depth, device=x.device)[:, None] >= draws.lengths
    operation = draws.operation.masked_fill(unused, -1)  # −1 does nothing
    weights = draws.weights.clamp_min(1e-12).log()
    weights = weights / weights.sum(1, keepdim=True)  # exponential numbers over their sum: uniform on the simplex

    # What does not depend on the state is computed for all steps at once: on a GPU the cost is in launches.
    grids, inside = _places(operation, amounts, height, long)
    tables = _fixed_tables(operation, amounts)
    stretch, equalise = (
        operation == OPERATIONS.index(name) for name in ("autocontrast", "equalize")
    )  # [depth, chains]
    state = (x * 255).round().repeat_interleave(width, 0)  # [chains, C, H, W], whole numbers 0–255
    for step in range(depth):
        levels = _move(state, grids[step], inside[step])
        state = _replace(levels, tables[step], stretch[step], equalise[step]).view_as(state)
        if blends:
            state = _blend(state, operation[step], amounts[step])
    mixed = (state.view(batch, width, -1) * (weights / 255)[:, :, None]).sum(1)
    return torch.lerp(x, mixed.view_as(x), draws.share[:, None, None, None]).clamp_(0, 1)


def _places(operation: Tensor, amount: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where [..., n] operations read each pixel, [..., n, H, W, 2], and whether that lies inside, [..., n, 1, H, W].

    (x, y) ↦ (a·x + b·y + c, d·x + e·y + f), counted in pixels from the picture's corner: the first has its centre at ½.
    The grid has −1 and 1 at the borders, as `grid_sample` takes it.
    """

    def of(name: str) -> Tensor:
        return torch.where(operation == OPERATIONS.index(name), amount, 0.0)

    angle = of("rotate") * (math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    right = of("translate_x") + (width / 2) * (1 - cos) + (height / 2) * sin
    down = of("translate_y") + (height / 2) * (1 - cos) - (width / 2) * sin
    across, along = of("shear_x") - sin, of("shear_y") + sin
    by_x, by_y, shift = (
        torch.stack((first * (2 / width), second * (2 / height)), -1)[..., None, None, :]  # [..., n, 1, 1, 2]
        for first, second in ((cos, along), (across, cos), (right, down))
    )
    x = torch.arange(width, device=amount.device)[:, None] + 0.5
    y = torch.arange(height, device=amount.device)[:, None, None] + 0.5
    # One by one: a matrix product would be rounded to TF32.
    grid = torch.addcmul(by_y * y + (shift - 1), by_x, x)  # [..., n, H, W, 2]
    return grid, ((grid >= -1) & (grid < 1)).all(-1).unsqueeze(-3)


def _move(state: Tensor, grid: Tensor, inside: Tensor) -> Tensor:
    """Grey levels of [n, C, H, W] read elsewhere: bilinear, rounded down, black from outside; int64 [n, C, pixels]."""
    moved = F.grid_sample(state, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return ((moved + 1e-3) * inside).flatten(2).long()  # 1e-3 keeps whole numbers from being rounded down


def _fixed_tables(operation: Tensor, amount: Tensor) -> Tensor:
    """For [..., n] operations, what each grey level becomes, whatever the picture: float [..., n, 256].

    posterise: v with its lowest bits cleared; solarise: 255 − v from the threshold on; else v.
    """
    value = torch.arange(_LEVELS, device=amount.device, dtype=torch.float32)
    kind, amount = operation[..., None], amount[..., None]
    step = 2.0 ** torch.where(kind == OPERATIONS.index("posterize"), amount, 0.0)  # 2 to the number of cleared bits
    table = (value / step).floor() * step
    solarised = (kind == OPERATIONS.index("solarize")) & (value >= amount)
    return torch.where(solarised, 255 - value, table)


def _replace(levels: Tensor, fixed: Tensor, stretch: Tensor, equalise: Tensor) -> Tensor:
    """The grey levels [n, C, pixels] replaced, float: by a table of the picture's own, or by the fixed one [n, 256].

    stretch, equalise: which of the n are stretched (autocontrast) or equalised.
    """
    value = torch.arange(_LEVELS, device=levels.device, dtype=torch.float32)
    low, high = torch.aminmax(levels, dim=2, keepdim=True)
    # Autocontrast: ⌊255·(v − low) / (high − low)⌋; a flat colour stays.
    stretched = ((value - low) * 255).div((high - low).clamp_min(1), rounding_mode="floor").clamp(0, 255)
    table = torch.where(stretch[:, None, None] & (high > low), stretched, fixed[:, None])  # [n, C, 256]
    # Equalise, as Pillow does it: ⌊(⌊s/2⌋ + pixels darker than v) / s⌋, for s = ⌊(pixels − brightest ones) / 255⌋;
    # where s is 0, the colour stays. Counts are whole numbers, so the order in which a GPU adds them does not matter.
    counts = torch.zeros(table.shape, dtype=torch.int32, device=levels.device)
    one = torch.ones((), dtype=torch.int32, device=levels.device)
    counts.scatter_add_(2, levels, one.expand(levels.shape))
    step = (levels.shape[2] - counts.gather(2, high)) // 255  # [n, C, 1]
    darker = counts.cumsum(2, dtype=torch.int32) - counts
    equalised = ((darker + step // 2) // step.clamp_min(1)).clamp_max(255)
    table = torch.where(equalise[:, None, None] & (step > 0), equalised, table)
    return table.gather(2, levels)


def _blend(state: Tensor, operation: Tensor, amount: Tensor) -> Tensor:
    """Whole grey levels [n, C, H, W] as y + f·(x − y), clipped to 0–255 and rounded down, for f = 1 + the amount [n].

    y is black (brightness), each pixel's grey (colour), the mean grey (contrast) or the smoothed picture (sharpness),
    as in Pillow's `ImageEnhance`. All sums are sums of whole numbers, and exact.
    """

    def is_kind(name: str) -> Tensor:
        return (operation == OPERATIONS.index(name))[:, None, None, None]

    grey = state
    if state.shape[1] == 3:
        red, green, blue = state.split(1, 1)
        grey = ((19595 * red + 38470 * green + 7471 * blue + 32768) / 65536).floor()  # ITU-R BT.601 in 16 bits
    mean = (grey.mean((2, 3), keepdim=True) + 0.5).floor()
    other = torch.where(is_kind("colour"), grey, torch.where(is_kind("contrast"), mean, 0.0))
    other = torch.where(is_kind("sharpness"), _smoothed(state), other)
    blends = (operation >= OPERATIONS.index(_BLENDS[0]))[:, None, None, None]
    factor = torch.where(blends, 1 + amount[:, None, None, None], 1.0)  # 1 changes nothing
    return ((other + factor * (state - other)).clamp(0, 255) + 1e-3).floor()


def _smoothed(state: Tensor) -> Tensor:
    """The mean over 3 × 3 pixels, where the middle counts five times; pixels at the border stay as they are."""
    if min(state.shape[2:]) < 3:
        return state
    around = F.avg_pool2d(state, 3, stride=1, divisor_override=1)  # [n, C, H − 2, W − 2]
    inner = ((around + 4 * state[:, :, 1:-1, 1:-1]) / 13 + 0.5).floor()
    smoothed = state.clone()
    smoothed[:, :, 1:-1, 1:-1] = inner
    return smoothed
