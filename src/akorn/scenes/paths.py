"""Light along rays through one scene, in torch: on any device, in float32 or float64. `kernel_parts` is for Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from akorn.scenes.layout import GROUND, KIND, LAMBERT, NOBODY, RED
from akorn.scenes.ops import Vector
from akorn.scenes.shapes import FAR
from akorn.scenes.transport import AGAIN, FIRST, LATER, ROUNDS, bounce, direct, ground_light, hidden_ground, vertex
from akorn.scenes.vectors import along, clear_of, facing, scaled
from akorn.scenes.walk import Dice, World, attribute, background, blocked, draw, look_bumpy, nearest, normal_at, pick


def radiance(scene: World, dice: Dice, o: Vector, d: Vector, bounces: int) -> Tensor:
    """The light [3, rays] that comes along rays to the eye, linear."""
    t, who, tg = nearest(scene, o, d)
    light = torch.zeros(3, len(t), dtype=t.dtype, device=t.device)
    light[:, who == NOBODY] = background(scene)
    kinds = torch.where(who == NOBODY, -1, attribute(scene, who, KIND).to(torch.int64))
    for kind in sorted({int(row[KIND]) for row in [*scene.rows[: scene.count], scene.rows[GROUND]]}):
        for floor in (False, True):
            chosen = ((kinds == kind) & ((who == GROUND) == floor)).nonzero()[:, 0]
            if len(chosen):
                _surface(
                    scene, dice, kind, floor, chosen, pick(o, chosen), pick(d, chosen), (t, who, tg), light, bounces
                )
    return light


def _surface(
    scene: World,
    dice: Dice,
    kind: int,
    floor: bool,
    lanes: Tensor,
    o: Vector,
    d: Vector,
    hit: tuple[Tensor, Tensor, Tensor],
    light: Tensor,
    bounces: int,
) -> None:
    """Add the light of first surfaces of one kind, for the rays `lanes`, and of the paths that continue there."""
    t, who, tg = (a[lanes] for a in hit)
    own = dice.at(lanes)
    p, v = along(o, d, t), scaled(d, -1.0)
    n = facing(normal_at(scene, who, p, tg), d)
    plain = (attribute(scene, who, RED), attribute(scene, who, RED + 1), attribute(scene, who, RED + 2))
    colour, alpha, metallic, n = look_bumpy(scene, who, p, n, d, plain)
    _add(light, lanes, direct(scene, own, kind, p, n, v, colour, alpha, metallic))
    if floor:
        _add(light, lanes, ground_light(scene, p, tg, colour))
    group = LAMBERT if floor else kind
    way, weight, mirror = bounce(
        group, n, v, colour, alpha, metallic, draw(own, FIRST - 3), draw(own, FIRST - 2), draw(own, FIRST - 1)
    )
    start = clear_of(p, n)
    if floor:  # only the changes due to objects
        meets = blocked(scene, start, way, torch.full_like(t, FAR)).nonzero()[:, 0]
        lanes, own, mirror = lanes[meets], own.at(meets), mirror[meets]
        start, way, weight = pick(start, meets), pick(way, meets), pick(weight, meets)
        _add(light, lanes, hidden_ground(scene, start, way), scaled(weight, -1.0))
    for turn in range(bounces):
        if not len(lanes):
            break
        j = FIRST + LATER * (turn % ROUNDS)
        if turn and turn % ROUNDS == 0:
            own = own.moved(AGAIN)
        found, start, way, factor, mirror, alive = vertex(scene, own, j, start, way, mirror)
        _add(light, lanes, found, weight)
        on = alive.nonzero()[:, 0]
        lanes, own, mirror, start, way = lanes[on], own.at(on), mirror[on], pick(start, on), pick(way, on)
        weight = pick((weight[0] * factor[0], weight[1] * factor[1], weight[2] * factor[2]), on)


def _add(light: Tensor, lanes: Tensor, found: Vector, weight: Vector | None = None) -> None:
    for c in range(3):
        light[c, lanes] += found[c] if weight is None else found[c] * weight[c]


def eye_rays(camera: Tensor, x: Tensor, y: Tensor) -> tuple[Vector, Vector]:
    """Rays (o, d) through points (x, y) of a picture of 320 × 240, x to the right and y down; camera [12]."""
    c = [float(v) for v in camera]
    a, b = (x - 160.0) / 350.0, (120.0 - y) / 350.0
    by = 1.0 / (a * a + b * b + 1.0).sqrt()
    d = tuple((c[3 + i] * a + c[6 + i] * b - c[9 + i]) * by for i in range(3))
    zero = torch.zeros_like(x)
    return (zero + c[0], zero + c[1], zero + c[2]), (d[0], d[1], d[2])
