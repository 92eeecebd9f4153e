"""The renderer as Triton kernels, built from the same functions that run in torch.

Each shared function is copied, its names are bound to other things (`sqrt` and the like to Triton's functions, scenes
to pointers), and the copy is passed to `triton.jit`. Plain numbers in the modules become constants of the kernel.
"""

from __future__ import annotations

import types
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from akorn.scenes import ground, kernel_parts, lamps, layout, reflection, shapes, textures, transport, vectors
from akorn.scenes.scene import Arrays

BLOCK = 32  # one warp: its rays branch together
SHARED = (vectors, shapes, ground, lamps, reflection, textures, transport)


@triton.jit
def _sqrt(x):  # type: ignore[no-untyped-def]
    return tl.sqrt(x)


@triton.jit
def _exp(x):  # type: ignore[no-untyped-def]
    return tl.exp(x)


@triton.jit
def _log(x):  # type: ignore[no-untyped-def]
    return tl.log(x)


@triton.jit
def _sin(x):  # type: ignore[no-untyped-def]
    return tl.sin(x)


@triton.jit
def _cos(x):  # type: ignore[no-untyped-def]
    return tl.cos(x)


@triton.jit
def _floor(x):  # type: ignore[no-untyped-def]
    return tl.floor(x)


@triton.jit
def _absolute(x):  # type: ignore[no-untyped-def]
    return tl.abs(x)


@triton.jit
def _where(mask, a, b):  # type: ignore[no-untyped-def]
    return tl.where(mask, a, b)


@triton.jit
def _maximum(a, b):  # type: ignore[no-untyped-def]
    return tl.maximum(a, b)


@triton.jit
def _minimum(a, b):  # type: ignore[no-untyped-def]
    return tl.minimum(a, b)


OPS = {
    "sqrt": _sqrt, "exp": _exp, "log": _log, "sin": _sin, "cos": _cos, "floor": _floor, "absolute": _absolute,
    "where": _where, "maximum": _maximum, "minimum": _minimum,
}  # fmt: skip


@cache
def built(textured: bool) -> dict[str, Any]:
    """All functions by name, compiled by Triton when they are first used."""
    # Triton's interpreter takes plain numbers; its compiler takes constants that are marked as such.
    constant: Any = tl.constexpr if isinstance(_sqrt, triton.JITFunction) else lambda value: value
    hints = dict.fromkeys(("Any", "Value", "Vector"), tl.tensor)  # Triton looks annotations up
    names: dict[str, Any] = {"__builtins__": __builtins__, "tl": tl, **OPS, **hints}
    for module in (layout, *SHARED, kernel_parts):
        for name, value in vars(module).items():
            if isinstance(value, int | float) and name.isupper():
                names[name] = constant(value)
    names["WITH_TEXTURES"] = constant(textured)
    for module in SHARED:
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                names[name] = _compiled(value, names)
    names["lobes_of_one"], names["bounce_of_one"] = names["lobes"], names["bounce"]
    for name, value in vars(kernel_parts).items():
        if isinstance(value, types.FunctionType) and value.__module__ == kernel_parts.__name__:
            names[name] = _compiled(value, names)
    return names


def _compiled(function: types.FunctionType, names: dict[str, Any]) -> Any:
    """A copy of a function that finds its names in `names`, for Triton."""
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__annotations__ = {k: v for k, v in function.__annotations__.items() if "constexpr" in str(v)}
    return triton.jit(copy)


def colours(
    scenes: Arrays, rows: Tensor, columns: Tensor, pixel: float, tables: tuple[Tensor, Tensor, Tensor], turns: Tensor,
    samples: int, bounces: int,
) -> Tensor:  # fmt: skip
    """Linear colours [B, 3, H·W]; tables: numbers of cells, of samples, and offsets of samples."""
    pixels, count = len(rows) * len(columns), len(scenes)
    cells, lattice, offsets = tables
    out = torch.empty(count, 3, pixels, device=rows.device, dtype=torch.float32)
    kernel = built(scenes.textured)["colours_kernel"]
    grid = (triton.cdiv(pixels, BLOCK), count)
    with _on(rows.device):
        kernel[grid](
            scenes.objects, scenes.counts, scenes.lamps, scenes.camera, scenes.grid, cells, lattice, offsets, rows,
            columns, turns, out, pixels, len(columns), pixel, samples, bounces, 0.0, BLOCK=BLOCK, num_warps=1,
        )  # fmt: skip
    return out


def labels(scenes: Arrays, rows: Tensor, columns: Tensor, with_normals: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Labels [B, H·W] as bytes, depth [B, H·W] and normals [B, 3, H·W]; the last two are empty unless asked for."""
    pixels, count = len(rows) * len(columns), len(scenes)
    found = torch.empty(count, pixels, device=rows.device, dtype=torch.uint8)
    size = pixels if with_normals else 0
    depth = torch.empty(count, size, device=rows.device)
    normals = torch.empty(count, 3, size, device=rows.device)
    kernel, grid = built(False)["labels_kernel"], (triton.cdiv(pixels, BLOCK), count)
    with _on(rows.device):
        kernel[grid](
            scenes.objects, scenes.counts, scenes.camera, rows, columns, found, depth, normals, pixels, len(columns),
            WITH_NORMALS=with_normals, BLOCK=BLOCK, num_warps=1,
        )  # fmt: skip
    return found, depth, normals


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Launches go to this device, whichever is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
