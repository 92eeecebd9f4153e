"""Light that the ground receives from itself, over all bounces; its matrix is computed once for all scenes.

The ground is cut into GRID_T × GRID_W cells. With the form factors F_ij (the share of the light leaving cell i that
arrives at cell j) the radiosity is B = ρ (E + F B), with E the lamps' irradiance, so that F B = F ρ (1 − ρ F)⁻¹ E: one
matrix, which depends only on the ground. Objects are left out here; paths account for what they hide and reflect.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.scenes import ground as g
from akorn.scenes.lamps import SUN, SUN_X, SUN_Y, SUN_Z
from akorn.scenes.layout import GRID_T, GRID_W

Array = NDArray[np.float64]
_FINE = 3  # points along each side of a cell, for the form factors


@cache
def cells(fine: int = 1) -> tuple[Array, Array, Array]:
    """Points [N, 3], normals [N, 3] and areas [N] of the cells, each cut into fine × fine."""
    t = (np.arange(GRID_T * fine) + 0.5) / (GRID_T * fine)
    w = g.WALL_LOW + (np.arange(GRID_W * fine) + 0.5) * (g.WALL_HIGH - g.WALL_LOW) / (GRID_W * fine)
    t, w = (a.ravel() for a in np.meshgrid(t, w, indexing="ij"))
    s, z = g.depth_at(t), g.Z4 * t**4
    ds, dz = g.depth_slope(t), 4 * g.Z4 * t**3
    length = np.hypot(ds, dz)
    points = np.stack([g.DEPTH_X * s - g.DEPTH_Y * w, g.DEPTH_Y * s + g.DEPTH_X * w, z], 1)
    normals = np.stack([-dz / length * g.DEPTH_X, -dz / length * g.DEPTH_Y, ds / length], 1)
    areas = length / (GRID_T * fine) * (g.WALL_HIGH - g.WALL_LOW) / (GRID_W * fine)
    return points, normals, areas


@cache
def form_factors() -> Array:
    """F [N, N]: the share of the irradiance at i that comes from j, per radiosity of j."""
    points, normals, _ = cells()
    there, towards, areas = cells(_FINE)
    way = there[None] - points[:, None]  # [N, N·fine², 3]
    square = (way**2).sum(-1)
    here = np.einsum("ijk,ik->ij", way, normals).clip(0)
    far = -np.einsum("ijk,jk->ij", way, towards).clip(None, 0)
    kernel = here * far * areas / (np.pi * np.maximum(square, 1e-6) ** 2)
    kernel = kernel.reshape(len(points), GRID_T, _FINE, GRID_W, _FINE).sum((2, 4)).reshape(len(points), -1)
    np.fill_diagonal(kernel, 0)
    over = kernel.sum(1, keepdims=True)
    return np.asarray(kernel / np.maximum(over, 1))  # no cell sees more than everything


@cache
def _spread(albedo: float) -> Array:
    f = form_factors()
    return np.asarray(f @ np.linalg.inv(np.eye(len(f)) - albedo * f) * albedo)


@cache
def _on_device(device: str) -> tuple[Tensor, Tensor, Tensor]:
    points, normals, _ = cells()
    spread = _spread(g.ALBEDO)
    return (
        torch.tensor(points, device=device),
        torch.tensor(normals, device=device),
        torch.tensor(spread, device=device),
    )


def ground_grid(lamps: Tensor, albedo: Tensor | None = None) -> Tensor:
    """The grids [B, 6, CELLS] of scenes with lamps [B, 3, LAMP]; albedo [B, 3]: the ground's mean colour, or 0.8.

    It is computed in float64, so that a scene's grid does not depend on the scenes beside it.
    """
    points, normals, spread = _on_device(str(lamps.device))
    there = lamps.double()
    place, shines, radiance, side = there[..., :3], there[..., 9:12], there[..., 12:15], there[..., 15]
    way = place[:, :, None] - points  # [B, 3, N, 3]
    square = (way**2).sum(-1)
    far = square.sqrt()
    lit = -(way * shines[:, :, None]).sum(-1) / far
    here = (way * normals).sum(-1) / far
    e = lit.clamp(min=0) * here.clamp(min=0) / square * (side**2)[..., None]  # [B, 3, N]
    direct = torch.einsum("bkn,bkc->bcn", e, radiance)
    sun = torch.tensor([SUN_X, SUN_Y, SUN_Z], device=lamps.device, dtype=torch.float64)
    direct = direct + SUN * (normals @ sun).clamp(min=0)
    around = direct @ spread.T  # [B, 3, N]
    if albedo is None:
        return torch.cat([around, g.ALBEDO * (direct + around)], 1).to(lamps.dtype)
    own = albedo.double()[..., None]
    around = around * (own / g.ALBEDO)
    return torch.cat([around, own * (direct + around)], 1).to(lamps.dtype)
