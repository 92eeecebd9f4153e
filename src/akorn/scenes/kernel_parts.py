"""`walk` and `paths` for Triton: a block of pixels of one scene, with all their samples, in one kernel.

These are plain functions until `kernel` passes them to Triton together with the shared ones. A scene is the tuple (its
rows, number of objects, lamps, grid, light around it), dice are (cells, cell, lattice, sample, samples).
"""

from __future__ import annotations

from typing import Any

import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]

from akorn.scenes.ground import ground_normal, hit_ground
from akorn.scenes.layout import (
    BOUND,
    BUMP,
    CELLS,
    COLUMNS,
    COS,
    DETAIL,
    GRID_T,
    GRID_W,
    GROUND,
    KIND,
    LAMBERT,
    LAMP,
    LAMPS,
    METAL,
    METALLIC,
    NOBODY,
    PATTERN,
    RED,
    ROUGH,
    ROWS,
    RUBBER,
    SCALE,
    SECOND,
    SHAPE,
    SHIFT,
    SIN,
    SIZE,
    TEXTURED,
    X,
)  # fmt: skip
from akorn.scenes.shapes import FAR, hit_solid, normal_of
from akorn.scenes.textures import pattern, textured
from akorn.scenes.transport import AGAIN, FIRST, LATER, ROUNDS, direct, ground_light, hidden_ground, vertex
from akorn.scenes.vectors import along, choose, clear_of, dot, facing, into_turned, out_of_turned, plus, scaled, times

CELL_COUNT = 65536
WITH_TEXTURES = True  # set by `kernel`

# The same functions for surfaces of one kind, under another name.
from akorn.scenes.transport import bounce as bounce_of_one  # noqa: E402
from akorn.scenes.transport import lobes as lobes_of_one  # noqa: E402


def some(mask: Any) -> Any:
    """Whether the mask is true for any ray of the block."""
    return tl.max(mask.to(tl.int32), 0) > 0


def draw(dice: Any, j: Any) -> Any:
    """The rays' random number j, in [0, 1)."""
    x = tl.load(dice[0] + j * CELL_COUNT + dice[1]) + tl.load(dice[2] + j * dice[4] + dice[3])
    return x - tl.floor(x)


def lamp(scene: Any, k: Any, j: Any) -> Any:
    """Number j of lamp k."""
    return tl.load(scene[2] + k * LAMP + j)


def row_of(scene: Any, k: Any, j: Any) -> Any:
    """Number j of object k."""
    return tl.load(scene[0] + k * COLUMNS + j)


def attribute(scene: Any, who: Any, j: Any) -> Any:
    """Number j of the rays' objects; the ground's for rays that meet nothing."""
    return tl.load(scene[0] + tl.where(who < 0, GROUND, who) * COLUMNS + j)


def background(scene: Any) -> Any:
    """The radiance of the world around the scene."""
    return scene[4]


def into(scene: Any, k: Any, o: Any, d: Any) -> Any:
    """A ray in the frame of an object: moved, turned, and scaled to half size 1."""
    by, c, s = 1.0 / row_of(scene, k, SIZE), row_of(scene, k, COS), row_of(scene, k, SIN)
    start = (o[0] - row_of(scene, k, X), o[1] - row_of(scene, k, X + 1), o[2] - row_of(scene, k, X + 2))
    return scaled(into_turned(start, c, s), by), scaled(into_turned(d, c, s), by)


def near_ball(scene: Any, k: Any, o: Any, d: Any, reach: Any) -> Any:
    """The rays that may meet an object before `reach`."""
    way = (row_of(scene, k, X) - o[0], row_of(scene, k, X + 1) - o[1], row_of(scene, k, X + 2) - o[2])
    b = dot(way, d)
    r = row_of(scene, k, BOUND)
    return (dot(way, way) - b * b < r * r) & (b > -r) & (b - r < reach)


def nearest(scene: Any, o: Any, d: Any) -> Any:
    """(t, who, tg): the first surface on each ray, what it belongs to, and the ground's parameter there."""
    t, tg = hit_ground(o, d)
    who = tl.where(t < FAR, GROUND, NOBODY)
    for k in range(scene[1]):
        near = near_ball(scene, k, o, d, t)
        if some(near):
            start, way = into(scene, k, o, d)
            found = hit_solid(row_of(scene, k, SHAPE).to(tl.int32), start, way)
            closer = near & (found < t)
            t = tl.where(closer, found, t)
            who = tl.where(closer, k, who)
    return t, who, tg


def blocked(scene: Any, o: Any, d: Any, reach: Any) -> Any:
    """Whether an object stands between the start of a ray and `reach`."""
    dark = reach < 0.0
    for k in range(scene[1]):
        near = near_ball(scene, k, o, d, reach) & (dark == 0)
        if some(near):
            start, way = into(scene, k, o, d)
            found = hit_solid(row_of(scene, k, SHAPE).to(tl.int32), start, way)
            dark = dark | (near & (found < reach))
    return dark


def normal_at(scene: Any, who: Any, p: Any, tg: Any) -> Any:
    """The unit normals of the rays' surfaces."""
    n = ground_normal(tg)
    for k in range(scene[1]):
        mine = who == k
        if some(mine):
            local, _ = into(scene, k, p, p)
            found = normal_of(row_of(scene, k, SHAPE).to(tl.int32), local)
            n = choose(mine, out_of_turned(found, row_of(scene, k, COS), row_of(scene, k, SIN)), n)
    return n


def cut_at(scene: Any, k: Any, p: Any) -> Any:
    """A point's place in the pattern of its surface."""
    moved = (p[0] - row_of(scene, k, X), p[1] - row_of(scene, k, X + 1), p[2] - row_of(scene, k, X + 2))
    shift = (row_of(scene, k, SHIFT), row_of(scene, k, SHIFT + 1), row_of(scene, k, SHIFT + 2))
    return along(shift, into_turned(moved, row_of(scene, k, COS), row_of(scene, k, SIN)), row_of(scene, k, SCALE))


def mixed(scene: Any, k: Any, a: Any) -> Any:
    """A mixture of an object's two colours."""
    r, g, b = row_of(scene, k, RED), row_of(scene, k, RED + 1), row_of(scene, k, RED + 2)
    return (
        r + a * (row_of(scene, k, SECOND) - r),
        g + a * (row_of(scene, k, SECOND + 1) - g),
        b + a * (row_of(scene, k, SECOND + 2) - b),
    )


def look(scene: Any, who: Any, p: Any, n: Any, plain: Any) -> Any:
    """(colour, roughness α, share of metal) of the rays' surfaces."""
    alpha, metallic = 0.0 * p[0], 0.0 * p[0]
    colour = plain
    if WITH_TEXTURES:
        patterned = attribute(scene, who, KIND) == TEXTURED
        for k in range(ROWS):
            mine = (who == k) & patterned
            if some(mine):
                axis = into_turned(n, row_of(scene, k, COS), row_of(scene, k, SIN))
                kind = row_of(scene, k, PATTERN).to(tl.int32)
                a, _ = pattern(kind, cut_at(scene, k, p), axis, row_of(scene, k, DETAIL))
                colour = choose(mine, mixed(scene, k, a), colour)
                rough = row_of(scene, k, ROUGH)
                alpha = tl.where(mine, rough * rough, alpha)
                metallic = tl.where(mine, row_of(scene, k, METALLIC), metallic)
    return colour, alpha, metallic


def look_bumpy(scene: Any, who: Any, p: Any, n: Any, d: Any, plain: Any) -> Any:
    """`look`, and the normals with the bumps of the surfaces' textures, still facing the rays d."""
    alpha, metallic = 0.0 * p[0], 0.0 * p[0]
    colour = plain
    out = n
    if WITH_TEXTURES:
        patterned = attribute(scene, who, KIND) == TEXTURED
        for k in range(ROWS):
            mine = (who == k) & patterned
            if some(mine):
                c, s = row_of(scene, k, COS), row_of(scene, k, SIN)
                kind = row_of(scene, k, PATTERN).to(tl.int32)
                detail, bump = row_of(scene, k, DETAIL), row_of(scene, k, BUMP)
                a, tilted = textured(kind, cut_at(scene, k, p), into_turned(n, c, s), detail, bump)
                colour = choose(mine, mixed(scene, k, a), colour)
                out = choose(mine, out_of_turned(tilted, c, s), out)
                rough = row_of(scene, k, ROUGH)
                alpha = tl.where(mine, rough * rough, alpha)
                metallic = tl.where(mine, row_of(scene, k, METALLIC), metallic)
        out = choose(dot(out, d) > -0.05, n, out)
    return colour, alpha, metallic, out


def from_ground(scene: Any, t: Any, w: Any, which: Any) -> Any:
    """The known light at a place of the ground: 0 is the irradiance from other ground, 1 all light that leaves it."""
    a = tl.minimum(tl.maximum(t * GRID_T - 0.5, 0.0), GRID_T - 1.001)
    b = tl.minimum(tl.maximum((w + 29.905) * (GRID_W / 56.485) - 0.5, 0.0), GRID_W - 1.001)
    i, j = tl.floor(a), tl.floor(b)
    a, b = a - i, b - j
    at = (i * GRID_W + j).to(tl.int32)
    g = scene[3] + 3 * which * CELLS
    return (between(g, at, a, b), between(g + CELLS, at, a, b), between(g + 2 * CELLS, at, a, b))


def between(g: Any, at: Any, a: Any, b: Any) -> Any:
    """Bilinear interpolation."""
    low = tl.load(g + at) * (1.0 - b) + tl.load(g + at + 1) * b
    high = tl.load(g + at + GRID_W) * (1.0 - b) + tl.load(g + at + GRID_W + 1) * b
    return low * (1.0 - a) + high * a


def lobes(group: Any, n: Any, v: Any, to: Any, colour: Any, alpha: Any, metallic: Any) -> Any:
    """`transport.lobes` for a block whose rays are at surfaces of several kinds."""
    out = lobes_of_one(LAMBERT, n, v, to, colour, alpha, metallic)
    if some(group == RUBBER):
        out = choose(group == RUBBER, lobes_of_one(RUBBER, n, v, to, colour, alpha, metallic), out)
    if some(group == METAL):
        out = choose(group == METAL, lobes_of_one(METAL, n, v, to, colour, alpha, metallic), out)
    if WITH_TEXTURES:
        out = choose(group == TEXTURED, lobes_of_one(TEXTURED, n, v, to, colour, alpha, metallic), out)
    return out


def bounce(group: Any, n: Any, v: Any, colour: Any, alpha: Any, metallic: Any, pick: Any, u1: Any, u2: Any) -> Any:
    """`transport.bounce` for a block whose rays are at surfaces of several kinds."""
    way, weight, mirror = bounce_of_one(LAMBERT, n, v, colour, alpha, metallic, pick, u1, u2)
    if some(group == RUBBER):
        w1, f1, _ = bounce_of_one(RUBBER, n, v, colour, alpha, metallic, pick, u1, u2)
        way, weight = choose(group == RUBBER, w1, way), choose(group == RUBBER, f1, weight)
    if some(group == METAL):
        w2, f2, m2 = bounce_of_one(METAL, n, v, colour, alpha, metallic, pick, u1, u2)
        way, weight = choose(group == METAL, w2, way), choose(group == METAL, f2, weight)
        mirror = mirror | (m2 & (group == METAL))
    if WITH_TEXTURES:
        w3, f3, _ = bounce_of_one(TEXTURED, n, v, colour, alpha, metallic, pick, u1, u2)
        way, weight = choose(group == TEXTURED, w3, way), choose(group == TEXTURED, f3, weight)
    return way, weight, mirror


def radiance(scene: Any, dice: Any, o: Any, d: Any, bounces: Any) -> Any:
    """The light that comes along rays to the eye, linear; `paths.radiance` for a block."""
    t, who, tg = nearest(scene, o, d)
    nobody, floor = who == NOBODY, who == GROUND
    p, v = along(o, d, tl.where(nobody, 0.0, t)), scaled(d, -1.0)
    n = facing(normal_at(scene, who, p, tg), d)
    kind = attribute(scene, who, KIND).to(tl.int32)
    plain = (attribute(scene, who, RED), attribute(scene, who, RED + 1), attribute(scene, who, RED + 2))
    colour, alpha, metallic, n = look_bumpy(scene, who, p, n, d, plain)
    light = direct(scene, dice, kind, p, n, v, colour, alpha, metallic)
    around = ground_light(scene, p, tg, colour)
    light = choose(floor, plus(light, around), light)
    behind = background(scene) + 0.0 * t
    light = choose(nobody, (behind, behind, behind), light)
    group = tl.where(floor, LAMBERT, kind)
    way, weight, mirror = bounce(
        group, n, v, colour, alpha, metallic, draw(dice, FIRST - 3), draw(dice, FIRST - 2), draw(dice, FIRST - 1)
    )
    start = clear_of(p, n)
    alive = nobody == 0
    if some(floor):  # only the changes due to objects
        meets = blocked(scene, start, way, FAR + 0.0 * t)
        gone = floor & meets
        if some(gone):
            hidden = times(hidden_ground(scene, start, way), weight)
            light = choose(gone, along(light, hidden, -1.0), light)
        alive = alive & ((floor == 0) | meets)
    for turn in range(bounces):
        if some(alive):
            j = FIRST + LATER * (turn % ROUNDS)
            cell = (dice[1] + AGAIN * (turn // ROUNDS)) % CELL_COUNT
            own = (dice[0], cell, dice[2], dice[3], dice[4])
            found, next_start, next_way, factor, next_mirror, on = vertex(scene, own, j, start, way, mirror)
            light = choose(alive, plus(light, times(found, weight)), light)
            weight = times(weight, factor)
            start, way, mirror = next_start, next_way, next_mirror
            alive = alive & on
    return light


def eye_ray(camera: Any, x: Any, y: Any) -> Any:
    """Rays through points (x, y) of a picture of 320 × 240; `paths.eye_rays`."""
    a, b = (x - 160.0) / 350.0, (120.0 - y) / 350.0
    by = 1.0 / tl.sqrt(a * a + b * b + 1.0)
    right = (tl.load(camera + 3), tl.load(camera + 4), tl.load(camera + 5))
    up = (tl.load(camera + 6), tl.load(camera + 7), tl.load(camera + 8))
    back = (tl.load(camera + 9), tl.load(camera + 10), tl.load(camera + 11))
    d = (
        (right[0] * a + up[0] * b - back[0]) * by,
        (right[1] * a + up[1] * b - back[1]) * by,
        (right[2] * a + up[2] * b - back[2]) * by,
    )
    o = (tl.load(camera) + 0.0 * a, tl.load(camera + 1) + 0.0 * a, tl.load(camera + 2) + 0.0 * a)
    return o, d


def colours_kernel(  # type: ignore[no-untyped-def]
    objects, counts, lamps, camera, grid, cells, lattice, offsets, rows, columns, turns, out,
    pixels, width, pixel, samples, bounces, environment, BLOCK: tl.constexpr,
):  # fmt: skip
    """Linear colours out[b, 3, pixels] of scene b = program 1, for the pixels of program 0."""
    b = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    at = tl.where(inside, place, 0)
    scene = (
        objects + b * (ROWS * COLUMNS), tl.load(counts + b), lamps + b * (LAMPS * LAMP), grid + b * (6 * CELLS),
        environment,
    )  # fmt: skip
    x, y = tl.load(columns + at % width), tl.load(rows + at // width)
    cell = (at + tl.load(turns + b)) % CELL_COUNT
    light = (0.0 * x, 0.0 * x, 0.0 * x)
    for s in range(samples):
        dice = (cells, cell, lattice, s, samples)
        o, d = eye_ray(camera + b * 12, x + pixel * tl.load(offsets + 2 * s), y + pixel * tl.load(offsets + 2 * s + 1))
        light = plus(light, radiance(scene, dice, o, d, bounces))
    by = 1.0 / samples
    to = out + b * 3 * pixels + at
    tl.store(to, light[0] * by, mask=inside)
    tl.store(to + pixels, light[1] * by, mask=inside)
    tl.store(to + 2 * pixels, light[2] * by, mask=inside)


def labels_kernel(  # type: ignore[no-untyped-def]
    objects, counts, camera, rows, columns, labels, depth, normals, pixels, width,
    WITH_NORMALS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """labels[b, pixels], and perhaps depth[b, pixels] and normals[b, 3, pixels], at the pixels' middles."""
    b = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < pixels
    at = tl.where(inside, place, 0)
    rows_of_scene = objects + b * (ROWS * COLUMNS)
    scene = (rows_of_scene, tl.load(counts + b), objects, objects, 0.0)
    o, d = eye_ray(camera + b * 12, tl.load(columns + at % width), tl.load(rows + at // width))
    t, who, tg = nearest(scene, o, d)
    label = tl.where((who == GROUND) | (who == NOBODY), 0, who + 1)
    tl.store(labels + b * pixels + at, label.to(tl.uint8), mask=inside)
    if WITH_NORMALS:
        n = normal_at(scene, who, along(o, d, t), tg)
        to = normals + b * 3 * pixels + at
        tl.store(depth + b * pixels + at, t, mask=inside)
        tl.store(to, n[0], mask=inside)
        tl.store(to + pixels, n[1], mask=inside)
        tl.store(to + 2 * pixels, n[2], mask=inside)
