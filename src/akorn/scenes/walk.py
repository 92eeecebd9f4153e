"""Rays through one scene, in torch: nearest surfaces, shadows, and how surfaces look. `kernel_parts` has the same for
Triton.

Rays are first compared with the ball around each object; only those that meet it are computed further.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from akorn.scenes.ground import ground_normal, hit_ground
from akorn.scenes.layout import (
    BOUND,
    BUMP,
    COS,
    DETAIL,
    GRID_T,
    GRID_W,
    GROUND,
    KIND,
    METALLIC,
    NOBODY,
    PATTERN,
    RED,
    ROUGH,
    SCALE,
    SECOND,
    SHAPE,
    SHIFT,
    SIN,
    SIZE,
    TEXTURED,
    X,
)  # fmt: skip
from akorn.scenes.ops import Value, Vector
from akorn.scenes.shapes import FAR, hit_solid, normal_of
from akorn.scenes.textures import pattern, textured
from akorn.scenes.vectors import along, choose, dot, into_turned, out_of_turned, scaled


@dataclass
class World:
    """One scene, as the numbers that the functions here use."""

    rows: list[list[float]]  # [ROWS][COLUMNS], plain numbers
    table: Tensor  # the same [COLUMNS, ROWS]
    count: int
    lamps: list[list[float]]  # [3][LAMP]
    grid: Tensor  # [6, CELLS]
    environment: float = 0.0
    with_ground: bool = True
    textured: bool = False


@dataclass
class Dice:
    """The random numbers of rays: number j of a ray is its cell's number plus its sample's, modulo 1."""

    cells: Tensor  # [numbers, cells]
    lattice: Tensor  # [numbers, samples]
    cell: Tensor  # [rays]
    sample: Tensor  # [rays]

    def at(self, chosen: Tensor) -> Dice:
        """The random numbers of some of the rays."""
        return Dice(self.cells, self.lattice, self.cell[chosen], self.sample[chosen])

    def moved(self, by: int) -> Dice:
        """The random numbers of other cells, for paths that have used up their own."""
        return Dice(self.cells, self.lattice, (self.cell + by) % self.cells.shape[1], self.sample)


def draw(dice: Dice, j: int) -> Tensor:
    """The rays' random number j, in [0, 1)."""
    return (dice.cells[j][dice.cell] + dice.lattice[j][dice.sample]) % 1.0


def lamp(scene: World, k: int, j: int) -> float:
    """Number j of lamp k."""
    return scene.lamps[k][j]


def attribute(scene: World, who: Tensor, j: int) -> Tensor:
    """Number j of the rays' objects; the ground's for rays that meet nothing."""
    return scene.table[j][who]


def background(scene: World) -> float:
    """The radiance of the world around the scene: black in CLEVR, white in a furnace."""
    return scene.environment


def into(row: list[float], o: Vector, d: Vector) -> tuple[Vector, Vector]:
    """A ray in the frame of an object: moved, turned, and scaled to half size 1."""
    by, c, s = 1.0 / row[SIZE], row[COS], row[SIN]
    start = (o[0] - row[X], o[1] - row[X + 1], o[2] - row[X + 2])
    return scaled(into_turned(start, c, s), by), scaled(into_turned(d, c, s), by)


def near_balls(scene: World, o: Vector, d: Vector, reach: Value) -> list[tuple[int, Tensor]]:
    """For each object, the rays that may meet it before `reach`."""
    found = []
    for k in range(scene.count):
        row = scene.rows[k]
        x, y, z = row[X] - o[0], row[X + 1] - o[1], row[X + 2] - o[2]
        b = x * d[0] + y * d[1] + z * d[2]
        away = x * x + y * y + z * z
        r = row[BOUND]
        chosen = ((away - b * b < r * r) & (b > -r) & (b - r < reach)).nonzero()[:, 0]
        if len(chosen):
            found.append((k, chosen))
    return found


def nearest(scene: World, o: Vector, d: Vector) -> tuple[Tensor, Tensor, Tensor]:
    """(t, who, tg): the first surface on each ray, what it belongs to, and the ground's parameter there."""
    if scene.with_ground:
        t, tg = hit_ground(o, d)
    else:
        t, tg = torch.full_like(d[0], FAR), torch.zeros_like(d[0])
    who = torch.where(t < FAR, GROUND, NOBODY)
    for k, chosen in near_balls(scene, o, d, t):
        row = scene.rows[k]
        start, way = into(row, pick(o, chosen), pick(d, chosen))
        found = hit_solid(int(row[SHAPE]), start, way)
        closer = found < t[chosen]
        chosen = chosen[closer]
        t[chosen] = found[closer]
        who[chosen] = k
    return t, who, tg


def blocked(scene: World, o: Vector, d: Vector, reach: Tensor) -> Tensor:
    """Whether an object stands between the start of a ray and `reach`. The ground, being convex, never does."""
    dark = torch.zeros_like(d[0], dtype=torch.bool)
    for k, chosen in near_balls(scene, o, d, reach):
        row = scene.rows[k]
        chosen = chosen[~dark[chosen]]
        start, way = into(row, pick(o, chosen), pick(d, chosen))
        dark[chosen] = hit_solid(int(row[SHAPE]), start, way) < reach[chosen]
    return dark


def normal_at(scene: World, who: Tensor, p: Vector, tg: Tensor) -> Vector:
    """The unit normals of the rays' surfaces; upwards where there is none."""
    n = torch.stack(ground_normal(tg))
    for k in range(scene.count):
        chosen = (who == k).nonzero()[:, 0]
        if not len(chosen):
            continue
        row = scene.rows[k]
        local, _ = into(row, pick(p, chosen), pick(p, chosen))
        put(n, chosen, out_of_turned(normal_of(int(row[SHAPE]), local), row[COS], row[SIN]))
    return n[0], n[1], n[2]


def look(scene: World, who: Tensor, p: Vector, n: Vector, plain: Vector) -> tuple[Vector, Tensor, Tensor]:
    """(colour, roughness α, share of metal) of the rays' surfaces."""
    alpha, metallic = torch.zeros_like(p[0]), torch.zeros_like(p[0])
    if not scene.textured:
        return plain, alpha, metallic
    colour = torch.stack(plain)
    for row, chosen in textured_rays(scene, who):
        axis = into_turned(pick(n, chosen), row[COS], row[SIN])
        a, _ = pattern(int(row[PATTERN]), cut_at(row, pick(p, chosen)), axis, row[DETAIL])
        for c in range(3):
            colour[c, chosen] = row[RED + c] + a * (row[SECOND + c] - row[RED + c])
        alpha[chosen] = row[ROUGH] * row[ROUGH]
        metallic[chosen] = row[METALLIC]
    return (colour[0], colour[1], colour[2]), alpha, metallic


def look_bumpy(
    scene: World, who: Tensor, p: Vector, n: Vector, d: Vector, plain: Vector
) -> tuple[Vector, Tensor, Tensor, Vector]:
    """`look`, and the normals with the bumps of the surfaces' textures, still facing the rays d."""
    alpha, metallic = torch.zeros_like(p[0]), torch.zeros_like(p[0])
    if not scene.textured:
        return plain, alpha, metallic, n
    colour, out = torch.stack(plain), torch.stack(n)
    for row, chosen in textured_rays(scene, who):
        axis = into_turned(pick(n, chosen), row[COS], row[SIN])
        place = cut_at(row, pick(p, chosen))
        a, tilted = textured(int(row[PATTERN]), place, axis, row[DETAIL], row[BUMP])
        for c in range(3):
            colour[c, chosen] = row[RED + c] + a * (row[SECOND + c] - row[RED + c])
        alpha[chosen] = row[ROUGH] * row[ROUGH]
        metallic[chosen] = row[METALLIC]
        put(out, chosen, out_of_turned(tilted, row[COS], row[SIN]))
    bumps = (out[0], out[1], out[2])
    return (colour[0], colour[1], colour[2]), alpha, metallic, choose(dot(bumps, d) > -0.05, n, bumps)


def textured_rays(scene: World, who: Tensor) -> list[tuple[list[float], Tensor]]:
    """The textured surfaces that rays meet: their numbers, and the rays."""
    found = []
    for k in (*range(scene.count), GROUND):
        if scene.rows[k][KIND] == TEXTURED:
            chosen = (who == k).nonzero()[:, 0]
            if len(chosen):
                found.append((scene.rows[k], chosen))
    return found


def cut_at(row: list[float], p: Vector) -> Vector:
    """A point's place in the pattern of its surface."""
    moved = into_turned((p[0] - row[X], p[1] - row[X + 1], p[2] - row[X + 2]), row[COS], row[SIN])
    shift = (row[SHIFT], row[SHIFT + 1], row[SHIFT + 2])
    return along(shift, moved, row[SCALE])


def put(into: Tensor, chosen: Tensor, a: Vector) -> None:
    """Write the vectors of some of the rays."""
    into[0, chosen], into[1, chosen], into[2, chosen] = a


def from_ground(scene: World, t: Tensor, w: Tensor, which: int) -> Vector:
    """The known light at a place of the ground: 0 is the irradiance from other ground, 1 all light that leaves it."""
    a = (t * GRID_T - 0.5).clamp(0, GRID_T - 1.001)
    b = ((w + 29.905) * (GRID_W / 56.485) - 0.5).clamp(0, GRID_W - 1.001)
    i, j = a.floor(), b.floor()
    a, b = a - i, b - j
    at = (i * GRID_W + j).long()
    out = []
    for c in range(3):
        g = scene.grid[3 * which + c]
        low = g[at] * (1 - b) + g[at + 1] * b
        high = g[at + GRID_W] * (1 - b) + g[at + GRID_W + 1] * b
        out.append(low * (1 - a) + high * a)
    return out[0], out[1], out[2]


def pick(a: Vector, chosen: Tensor) -> Vector:
    """The vectors of some of the rays."""
    return a[0][chosen], a[1][chosen], a[2][chosen]
