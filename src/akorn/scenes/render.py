"""Pictures of scenes: colours, labels, depth and normals, in batches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.errors import AkornError
from akorn.scenes import layout as at
from akorn.scenes.paths import eye_rays, radiance
from akorn.scenes.scene import Arrays
from akorn.scenes.transport import FIRST, LATER, ROUNDS
from akorn.scenes.vectors import along
from akorn.scenes.walk import Dice, World, nearest, normal_at

WIDTH, HEIGHT = 320, 240  # pixels of a whole picture
CORNER, SIDE = (29, 64), 192  # row and column, and side, of the benchmark's crop
NUMBERS = FIRST + LATER * ROUNDS
RAYS = 2**18  # rays at once in torch
SAMPLES = 16
BOUNCES = 3
CELL_COUNT = 2**16


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

    Up to 192 they are pixels of the 320 × 240 picture, the nearest ones, as the benchmark resizes. Above that, the
    picture is rendered at a finer resolution.
    """
    if not 1 <= size <= at.MOST_SIDE:
        raise AkornError(f"the size of pictures must be from 1 to {at.MOST_SIDE:,}, got {size:,}")
    places = (np.arange(size) + 0.5) * (SIDE / size)
    if size <= SIDE:
        places = np.floor(places) + 0.5
    rows, columns = (tuple(float(p) for p in places + start) for start in CORNER)
    return View(rows, columns, min(SIDE / size, 1.0))


@cache
def _filter() -> NDArray[np.float64]:
    """The inverse of the Blackman-Harris filter's integral, 1.5 pixels to each side, at 1025 places."""
    x = np.linspace(-1.5, 1.5, 4097)
    v = 2 * np.pi * (x / 3.0 + 0.5)
    y = 0.35875 - 0.48829 * np.cos(v) + 0.14128 * np.cos(2 * v) - 0.01168 * np.cos(3 * v)
    total = np.concatenate([[0], np.cumsum((y[1:] + y[:-1]) / 2)])
    return np.interp(np.linspace(0, 1, 1025), total / total[-1], x)


@cache
def lattice(samples: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(offsets [samples, 2] in pixels, numbers [NUMBERS, samples]): well spread in every pair that belongs together.

    Pairs are points of the two-dimensional Sobol sequence, each pair in its own order; single numbers are even steps.
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
    """A random number for each cell and each of a path's numbers [NUMBERS, cells]: they make pixels differ."""
    return np.random.Generator(np.random.PCG64(99)).random((NUMBERS, cells), dtype=np.float32)


def world(scenes: Arrays, b: int) -> World:
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


@cache
def _tables(samples: int, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of cells [NUMBERS, CELL_COUNT], of samples [NUMBERS, samples], and offsets [samples, 2]."""
    offsets, points = lattice(samples)
    return (
        torch.tensor(cell_numbers(CELL_COUNT), device=device, dtype=dtype),
        torch.tensor(points, device=device, dtype=dtype),
        torch.tensor(offsets, device=device, dtype=dtype),
    )


@cache
def _places(view: View, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return (
        torch.tensor(view.rows, device=device, dtype=dtype),
        torch.tensor(view.columns, device=device, dtype=dtype),
    )


def uses_kernel(scenes: Arrays) -> bool:
    """Whether Triton renders these scenes: float32 on a CUDA device; elsewhere torch does."""
    fit = scenes.camera.device.type == "cuda" and scenes.camera.dtype == torch.float32
    return fit and find_spec("triton") is not None


def colours(
    scenes: Arrays, view: View, samples: int = SAMPLES, bounces: int = BOUNCES, turns: Tensor | None = None
) -> Tensor:
    """Linear colours [B, 3, H, W] of scenes.

    samples: rays per pixel. bounces: surfaces that a path may meet after its first. turns: whole numbers [B] that make
    the noise of scenes differ.
    """
    if not 1 <= samples <= at.MOST_RAYS or bounces < 0:
        raise AkornError(
            f"samples must be from 1 to {at.MOST_RAYS:,} and bounces at least 0, got {samples:,} and {bounces}"
        )
    device, dtype = scenes.camera.device, scenes.camera.dtype
    if turns is None:
        turns = torch.zeros(len(scenes), dtype=torch.int32, device=device)
    tables = _tables(samples, str(device), dtype)
    rows, columns = _places(view, str(device), dtype)
    if uses_kernel(scenes):
        from akorn.scenes import kernel

        found = kernel.colours(scenes, rows, columns, view.pixel, tables, turns, samples, bounces)
    else:
        found = _in_torch(scenes, rows, columns, view.pixel, tables, turns, samples, bounces)
    return found.reshape(len(scenes), 3, len(rows), len(columns))


def _in_torch(
    scenes: Arrays, rows: Tensor, columns: Tensor, pixel: float, tables: tuple[Tensor, Tensor, Tensor], turns: Tensor,
    samples: int, bounces: int,
) -> Tensor:  # fmt: skip
    """Linear colours [B, 3, H·W], one scene after the other, with as many samples at once as fit."""
    cells, points, offsets = tables
    h, w = len(rows), len(columns)
    place = torch.arange(h * w, device=rows.device)
    y, x = rows[place // w], columns[place % w]
    out = torch.zeros(len(scenes), 3, h * w, device=rows.device, dtype=rows.dtype)
    group = max(1, min(samples, RAYS // (h * w)))

    def one_scene(b: int) -> None:
        one = world(scenes, b)
        cell = (place + turns[b]) % CELL_COUNT
        for used in torch.arange(samples, device=rows.device).split(group):
            shift = offsets[used].repeat_interleave(h * w, 0) * pixel
            o, d = eye_rays(scenes.camera[b], x.repeat(len(used)) + shift[:, 0], y.repeat(len(used)) + shift[:, 1])
            dice = Dice(cells, points, cell.repeat(len(used)), used.repeat_interleave(h * w))
            out[b] += radiance(one, dice, o, d, bounces).reshape(3, len(used), -1).sum(1)

    _each(one_scene, len(scenes), rows.device)
    return out / samples


def _each(work: Callable[[int], None], count: int, device: torch.device) -> None:
    """Do the work for each scene; on a CPU in as many threads as torch has, each of which takes whole scenes.

    Scenes in parallel share nothing, while threads within an operation would wait for each other at every step.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or count == 1:
        for b in range(count):
            work(b)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="akorn-scenes") as pool:
            list(pool.map(torch.no_grad()(work), range(count)))
    finally:
        torch.set_num_threads(threads)


def labels(scenes: Arrays, view: View) -> Tensor:
    """Labels [B, H, W] as bytes at the pixels' middles: 0 is the ground, 1 the first object."""
    return geometry(scenes, view, with_normals=False)[0]


def geometry(scenes: Arrays, view: View, with_normals: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(labels [B, H, W], depth [B, H, W], normals [B, 3, H, W]) at the pixels' middles.

    Depth is the distance from the camera along the ray. Without normals the last two are empty.
    """
    device, dtype = scenes.camera.device, scenes.camera.dtype
    rows, columns = _places(view, str(device), dtype)
    count, h, w = len(scenes), len(rows), len(columns)
    if uses_kernel(scenes):
        from akorn.scenes import kernel

        found, depth, normals = kernel.labels(scenes, rows, columns, with_normals)
        if not with_normals:
            return found.reshape(count, h, w), depth, normals
        return found.reshape(count, h, w), depth.reshape(count, h, w), normals.reshape(count, 3, h, w)
    place = torch.arange(h * w, device=device)
    found = torch.empty(count, h * w, device=device, dtype=torch.uint8)
    depth = torch.empty(count, h * w if with_normals else 0, device=device, dtype=dtype)
    normals = torch.empty(count, 3, h * w if with_normals else 0, device=device, dtype=dtype)

    def one_scene(b: int) -> None:
        one = world(scenes, b)
        o, d = eye_rays(scenes.camera[b], columns[place % w], rows[place // w])
        t, who, tg = nearest(one, o, d)
        found[b] = torch.where((who == at.GROUND) | (who == at.NOBODY), 0, who + 1)
        if with_normals:
            depth[b] = t
            normals[b] = torch.stack(normal_at(one, who, along(o, d, t), tg))

    _each(one_scene, count, device)
    if not with_normals:
        return found.reshape(count, h, w), depth, normals
    return found.reshape(count, h, w), depth.reshape(count, h, w), normals.reshape(count, 3, h, w)
