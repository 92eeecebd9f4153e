"""Pictures of scenes: colours, labels, depth and normals, in batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.errors import AkornError
from akorn.scenes import layout as at
from akorn.scenes.paths import eye_rays, radiance
from akorn.scenes.scene import Arrays
from akorn.scenes.transport import FIRST, LATER, ROUNDS
from akorn.scenes.walk import Dice, World, nearest, normal_at

WIDTH, HEIGHT = 320, 240  # of a whole picture
CORNER, SIDE = (29, 64), 192  # row and column, and side, of the benchmark's crop
NUMBERS = FIRST + LATER * ROUNDS
RAYS = 2**17  # at once on a CPU


@dataclass(frozen=True)
class View:
    """Which points of the 320 × 240 picture are looked at: the middles of rows and columns, and a pixel's width."""

    rows: tuple[float, ...]
    columns: tuple[float, ...]
    pixel: float = 1.0


def whole_view() -> View:
    """The whole picture of 320 × 240."""
    return View(tuple(i + 0.5 for i in range(HEIGHT)), tuple(i + 0.5 for i in range(WIDTH)))


def cropped_view(size: int = 128) -> View:
    """The benchmark's crop in size × size pixels.

    Up to 192 they are pixels of the 320 × 240 picture, the nearest ones, as the benchmark resizes; above, the picture is
    rendered finer.
    """
    if size < 1:
        raise AkornError(f"the size of pictures must be at least 1, got {size}")
    places = (np.arange(size) + 0.5) * (SIDE / size)
    if size <= SIDE:
        places = np.floor(places) + 0.5
    rows, columns = (tuple(float(p) for p in places + start) for start in CORNER)
    return View(rows, columns, min(SIDE / size, 1.0))


@cache
def _filter() -> NDArray[np.float64]:
    """The inverse of the Blackman-Harris filter's integral, 1.5 pixels wide, at 1025 places."""
    x = np.linspace(-0.75, 0.75, 4097)
    v = 2 * np.pi * (x / 1.5 + 0.5)
    y = 0.35875 - 0.48829 * np.cos(v) + 0.14128 * np.cos(2 * v) - 0.01168 * np.cos(3 * v)
    total = np.concatenate([[0], np.cumsum((y[1:] + y[:-1]) / 2)])
    return np.interp(np.linspace(0, 1, 1025), total / total[-1], x)


@cache
def lattice(samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(offsets [samples, 2] in pixels, numbers [NUMBERS, samples]): well spread in every pair of numbers that belong.

    Pairs are points of the two-dimensional Sobol sequence, in an order of their own; single numbers are even steps.
    """
    rng = np.random.Generator(np.random.PCG64(1234))
    engine = torch.quasirandom.SobolEngine(2, scramble=True, seed=5)
    points = engine.draw(samples, dtype=torch.float64).numpy()
    offsets = np.interp(points, np.linspace(0, 1, 1025), _filter())
    numbers = np.empty((NUMBERS, samples))
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (9, 10)]
    pairs += [(FIRST + LATER * k + first, FIRST + LATER * k + first + 1) for k in range(ROUNDS) for first in (1, 4)]
    single = set(range(NUMBERS)) - {j for pair in pairs for j in pair}
    for pair in pairs:
        numbers[list(pair)] = points[rng.permutation(samples)].T
    for j in single:
        numbers[j] = (rng.permutation(samples) + 0.5) / samples
    return offsets, numbers


@cache
def cell_numbers(cells: int) -> NDArray[np.float32]:
    """A random number for each cell and each of a path's numbers [NUMBERS, cells]: by these pixels differ."""
    return np.random.Generator(np.random.PCG64(99)).random((NUMBERS, cells), dtype=np.float32)


CELL_COUNT = 2**16


def world(scenes: Arrays, b: int, **more: float) -> World:
    """One of the scenes."""
    rows = scenes.objects[b]
    return World(
        rows.tolist(), rows.T.contiguous(), int(scenes.counts[b]), scenes.lamps[b].tolist(), scenes.grid[b],
        textured=scenes.textured,
    )  # fmt: skip


def to_levels(linear: Tensor) -> Tensor:
    """Linear light as 8-bit levels by the sRGB curve, clipped at white."""
    x = linear.clamp(0, 1)
    curve = torch.where(x <= 0.0031308, 12.92 * x, 1.055 * x.clamp(min=1e-6) ** (1 / 2.4) - 0.055)
    return (curve * 255).round().to(torch.uint8)


def render_linear(scenes: Arrays, view: View, samples: int = 16, bounces: int = 3, numbers: Tensor | None = None) -> Tensor:
    """Linear colours [B, 3, H, W] of scenes, in torch, one after the other."""
    device, dtype = scenes.camera.device, scenes.camera.dtype
    h, w = len(view.rows), len(view.columns)
    offsets, points = lattice(samples)
    cells = torch.tensor(cell_numbers(CELL_COUNT), device=device, dtype=dtype)
    spread = torch.tensor(points, device=device, dtype=dtype)
    place = torch.arange(h * w, device=device)
    y = torch.tensor(view.rows, device=device, dtype=dtype)[place // w]
    x = torch.tensor(view.columns, device=device, dtype=dtype)[place % w]
    out = torch.zeros(len(scenes), 3, h * w, device=device, dtype=dtype)
    group = max(1, min(samples, RAYS // (h * w)))
    for b in range(len(scenes)):
        one = world(scenes, b)
        turn = 0 if numbers is None else int(numbers[b])
        for first in range(0, samples, group):
            used = list(range(first, min(first + group, samples)))
            sample = torch.tensor(used, device=device).repeat_interleave(h * w)
            cell = ((place * 1 + turn) % CELL_COUNT).repeat(len(used))
            dx = torch.tensor(offsets[used], device=device, dtype=dtype).repeat_interleave(h * w, 0) * view.pixel
            o, d = eye_rays(scenes.camera[b], x.repeat(len(used)) + dx[:, 0], y.repeat(len(used)) + dx[:, 1])
            light = radiance(one, Dice(cells, spread, cell, sample), o, d, bounces)
            out[b] += light.reshape(3, len(used), -1).sum(1)
    return out.reshape(len(scenes), 3, h, w) / samples


def labels_of(scenes: Arrays, view: View) -> tuple[Tensor, Tensor, Tensor]:
    """(labels [B, H, W], depth [B, H, W], normals [B, 3, H, W]) at the pixels' middles; 0 is the ground."""
    device, dtype = scenes.camera.device, scenes.camera.dtype
    h, w = len(view.rows), len(view.columns)
    y, x = torch.meshgrid(
        torch.tensor(view.rows, device=device, dtype=dtype),
        torch.tensor(view.columns, device=device, dtype=dtype),
        indexing="ij",
    )
    found = []
    for b in range(len(scenes)):
        one = world(scenes, b)
        o, d = eye_rays(scenes.camera[b], x.flatten(), y.flatten())
        t, who, tg = nearest(one, o, d)
        p = tuple(a + t * c for a, c in zip(o, d, strict=True))
        n = normal_at(one, who, p, tg)  # type: ignore[arg-type]
        label = torch.where((who == at.GROUND) | (who == at.NOBODY), 0, who + 1)
        found.append((label.reshape(h, w), t.reshape(h, w), torch.stack(n).reshape(3, h, w)))
    labels, depth, normals = zip(*found, strict=True)
    return torch.stack(labels), torch.stack(depth), torch.stack(normals)
