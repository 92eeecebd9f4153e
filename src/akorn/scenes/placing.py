"""Random scenes by the original's rules: jitter, places, sizes, and what must be visible.

Scene i of a key has its own random numbers. Camera and lamps are moved by jitter. Objects are placed one after the
other at uniform places in [−3, 3]². If one finds no place in 50 tries, all are placed anew; the scene is also drawn
anew while an object shows fewer than 200 pixels. Many scenes are drawn at once, and each is the same as if it were
drawn alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.scenes import layout as at
from akorn.scenes.draws import uniform
from akorn.scenes.families import Family
from akorn.scenes.materials import TEXTURES
from akorn.scenes.scene import CAMERA, LAMP_NAMES, LAMP_PLACES, Scene, Thing, ground_row, thing_row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRIES = 50
ATTEMPTS = 5000
_LEFT = np.array([-0.65631, -0.75449])
_BEHIND = np.array([-0.75449, 0.65631])
_PLACE, _LOOK = 64, 2**20  # where the streams for places and for looks begin


@dataclass(frozen=True)
class Drafts:
    """Scenes as whole numbers and places, before they become arrays."""

    family: Family
    numbers: NDArray[np.uint64]
    count: Ints  # [B]
    places: Floats  # [B, MOST, 2]
    sizes: Ints  # [B, MOST], like the next ones
    shapes: Ints
    looks: Ints
    theta: Floats
    camera: Floats  # [B, 3]
    lamps: Floats  # [B, 3, 3]
    ground: Ints  # [B]
    shifts: Floats  # [B, ROWS, 3]
    tries: Ints  # [B]: how often it was drawn

    def __len__(self) -> int:
        return len(self.count)

    def taken(self, chosen: Ints) -> Drafts:
        """Some of the scenes."""
        return Drafts(self.family, *(getattr(self, name)[chosen] for name in _FIELDS))

    def rows(self) -> Floats:
        """The objects' rows [B, ROWS, COLUMNS]."""
        family = self.family
        shapes, sizes, looks, grounds = _tables(family)
        out = np.zeros((len(self), at.ROWS, at.COLUMNS))
        body = out[:, : at.MOST]
        body[...] = looks[self.looks]
        radius = sizes[self.sizes]
        table = shapes[self.shapes]
        body[..., at.SHAPE] = table[..., 0]
        body[..., at.X : at.Y + 1] = self.places
        body[..., at.Z] = table[..., 1] * radius
        body[..., at.SIZE] = radius
        body[..., at.COS], body[..., at.SIN] = np.cos(self.theta), np.sin(self.theta)
        body[..., at.BOUND] = table[..., 2] * radius
        out[:, at.GROUND] = grounds[self.ground]
        out[..., at.SHIFT : at.SHIFT + 3] += self.shifts
        return out

    def scene(self, b: int) -> Scene:
        """One of the scenes in words."""
        family = self.family
        names = list(family.sizes)
        things = []
        for k in range(int(self.count[b])):
            material, colour = family.looks[self.looks[b, k]]
            size = names[self.sizes[b, k]]
            x, y = (float(v) for v in self.places[b, k])
            shift = tuple(float(v) for v in self.shifts[b, k])
            things.append(
                Thing(
                    family.shapes[self.shapes[b, k]], x, y, family.sizes[size], float(self.theta[b, k]), material,
                    colour or "gray", size, shift,  # type: ignore[arg-type]
                )
            )  # fmt: skip
        lamps = tuple(tuple(float(v) for v in place) for place in self.lamps[b])
        shift = tuple(float(v) for v in self.shifts[b, at.GROUND])
        camera = tuple(float(v) for v in self.camera[b])
        return Scene(tuple(things), camera, lamps, family.grounds[self.ground[b]], shift)  # type: ignore[arg-type]

    def described(self, b: int) -> dict[str, object]:
        """One of the scenes as CLEVR's JSON describes it."""
        scene = self.scene(b)
        objects = [
            {
                "shape": t.shape, "size": t.size, "r": t.r, "material": t.material,
                **({} if t.material in TEXTURES else {"color": t.colour}),
                "x": round(t.x, 5), "y": round(t.y, 5), "theta": round(t.theta, 5),
                **({"shift": [round(v, 5) for v in t.shift]} if t.material in TEXTURES else {}),
            }
            for t in scene.things
        ]  # fmt: skip
        return {
            "index": int(self.numbers[b]), "objects": objects, "camera": [round(v, 5) for v in scene.camera],
            "lights": {n: [round(v, 5) for v in p] for n, p in zip(LAMP_NAMES, scene.lamps, strict=True)},
            "ground": scene.ground,
            **({"ground_shift": [round(v, 5) for v in scene.shift]} if scene.ground in TEXTURES else {}),
            "tries": int(self.tries[b]),
        }  # fmt: skip


_FIELDS = (
    "numbers", "count", "places", "sizes", "shapes", "looks", "theta", "camera", "lamps", "ground", "shifts", "tries",
)  # fmt: skip
Seen = Callable[[Drafts], Ints]
"""How many pixels [B, MOST] each object of drafts shows."""


def draw_scenes(
    family: Family,
    key: int,
    numbers: NDArray[np.uint64],
    seen: Seen,
    together: int = 1,
    begun: Drafts | None = None,
) -> Drafts:
    """The scenes of these numbers; AkornError if objects do not fit.

    together: how many attempts are rendered at once, for devices where each query is slow; the scenes are the same.
    begun: the result of `first_attempts` for the same scenes.
    """
    numbers = np.asarray(numbers, np.uint64)
    whole: Drafts | None = None
    waiting = np.arange(len(numbers))
    for first in range(0, ATTEMPTS, together):
        new = begun if first == 0 and begun is not None else _attempts(family, key, numbers[waiting], first, together)
        good = new.tries > 0  # [together · waiting]
        if good.any():
            placed = good.nonzero()[0]
            there = np.arange(at.MOST) < new.count[placed, None]
            good[placed] = ((seen(new.taken(placed)) >= family.pixels) | ~there).all(1)
        good = good.reshape(together, len(waiting))
        chosen = new.taken(good.argmax(0) * len(waiting) + np.arange(len(waiting)))
        if whole is None:
            whole = chosen
        else:
            for name in _FIELDS:
                getattr(whole, name)[waiting] = getattr(chosen, name)
        waiting = waiting[~good.any(0)]
        if not len(waiting):
            return whole
    raise AkornError(
        f"{len(waiting)} of {len(numbers)} scenes of {family.name} with up to {family.most} objects were not found in"
        f" {ATTEMPTS} tries each: ask for fewer objects"
    )


def first_attempts(family: Family, key: int, numbers: NDArray[np.uint64], together: int) -> Drafts:
    """The first attempts at scenes, which need no renderer yet."""
    return _attempts(family, key, np.asarray(numbers, np.uint64), 0, together)


def _attempts(family: Family, key: int, numbers: NDArray[np.uint64], first: int, together: int) -> Drafts:
    """Several attempts at each scene, one after the other: [together · scenes]."""
    parts = [_attempt(family, key, numbers, first + k) for k in range(together)]
    if together == 1:
        return parts[0]
    return Drafts(family, *(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))


def _attempt(family: Family, key: int, numbers: NDArray[np.uint64], attempt: int) -> Drafts:
    """Scenes drawn once; `tries` is 0 where an object found no place."""
    b = len(numbers)
    fixed = np.arange(_PLACE, dtype=np.uint64)
    u = uniform(key, numbers[:, None], fixed)  # the numbers that stay the same in all attempts
    count = family.least + np.floor(u[:, 12] * (family.most - family.least + 1)).astype(np.int64)
    camera = np.array(CAMERA) + (u[:, 0:3] - 0.5)
    lamps = np.array(LAMP_PLACES) + 2 * (u[:, 3:12].reshape(b, 3, 3) - 0.5)
    ground = np.floor(u[:, 13] * len(family.grounds)).astype(np.int64)
    shifts = 40 * u[:, 16 : 16 + 3 * at.ROWS].reshape(b, at.ROWS, 3)
    one = _LOOK + (attempt * at.MOST + np.arange(at.MOST)) * 8
    look = uniform(key, numbers[:, None, None], (one[:, None] + np.arange(5)).astype(np.uint64))  # [B, MOST, 5]
    sizes = np.floor(look[..., 0] * len(family.sizes)).astype(np.int64)
    shapes = np.floor(look[..., 1] * len(family.shapes)).astype(np.int64)
    looks = np.floor(look[..., 2] * len(family.looks)).astype(np.int64)
    if family.camouflage:
        looks = np.broadcast_to(ground[:, None], looks.shape).copy()
        shifts = np.broadcast_to(shifts[:, at.GROUND, None], shifts.shape).copy()
    places, ok = _places(family, key, numbers, attempt, count, np.array(list(family.sizes.values()))[sizes])
    tries = np.where(ok, attempt + 1, 0)
    theta = 2 * np.pi * look[..., 3]
    return Drafts(
        family, numbers.copy(), count, places, sizes, shapes, looks, theta, camera, lamps, ground, shifts, tries
    )


def _places(
    family: Family, key: int, numbers: NDArray[np.uint64], attempt: int, count: Ints, radius: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Places [B, MOST, 2] of the objects, and whether all were found."""
    b = len(numbers)
    places = np.full((b, at.MOST, 2), 1e3)
    ok = np.ones(b, bool)
    for k in range(family.most):
        waiting = ((count > k) & ok).nonzero()[0]
        for turn in range(TRIES):
            if not len(waiting):
                break
            stream = _LOOK * 64 + ((attempt * at.MOST + k) * TRIES + turn) * 2
            xy = 6 * uniform(key, numbers[waiting, None], np.array([stream, stream + 1], np.uint64)) - 3
            away = xy[:, None] - places[waiting, :k]
            gap = np.linalg.norm(away, axis=-1) - radius[waiting, :k] - radius[waiting, k, None]
            good = (gap >= family.apart).all(1)
            if family.along:
                good &= (np.abs(away @ _LEFT) >= family.along).all(1) & (np.abs(away @ _BEHIND) >= family.along).all(1)
            places[waiting[good], k] = xy[good]
            waiting = waiting[~good]
        ok[waiting] = False
    return places, ok


def _tables(family: Family) -> tuple[Floats, Floats, Floats, Floats]:
    """Rows of shapes (number, height, bound), radii, looks and grounds."""
    shapes, looks = np.zeros((len(family.shapes), 3)), np.zeros((len(family.looks), at.COLUMNS))
    for k, shape in enumerate(family.shapes):
        row = np.zeros(at.COLUMNS)
        thing_row(Thing(shape, 0, 0, 1.0), row)
        shapes[k] = row[at.SHAPE], row[at.Z], row[at.BOUND]
    for k, (material, colour) in enumerate(family.looks):
        thing_row(Thing("sphere", 0, 0, 1.0, 0.0, material, colour or "gray"), looks[k])
    grounds = np.zeros((len(family.grounds), at.COLUMNS))
    for k, name in enumerate(family.grounds):
        ground_row(Scene((), ground=name), grounds[k])
    return shapes, np.array(list(family.sizes.values())), looks, grounds
