"""A scene in words: its objects, lamps and camera, as CLEVR's files describe them; and as arrays for the renderer.

Imports no torch until arrays are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.registry import similar, unknown
from akorn.scenes import layout as at
from akorn.scenes.materials import PATTERNS, TEXTURES

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = NDArray[np.float64]

# RGB/255 is taken as linear reflectance, as in the original.
COLOURS: Mapping[str, tuple[int, int, int]] = {
    "gray": (87, 87, 87), "red": (173, 35, 35), "blue": (42, 75, 215), "green": (29, 105, 20),
    "brown": (129, 74, 25), "purple": (129, 38, 192), "cyan": (41, 208, 208), "yellow": (255, 238, 51),
}  # fmt: skip
SHAPES = ("sphere", "cube", "cylinder", "capsule", "cone", "torus", "octahedron")
"""In the order of their numbers in `shapes`."""
MATERIALS = ("lambert", "rubber", "metal")
"""Plain materials, in the order of their numbers in `layout`."""
SIZES: Mapping[str, float] = {"large": 0.7, "small": 0.35}
CAMERA = (7.48113, -6.50764, 5.34367)
LAMP_PLACES = ((6.44671, -2.90517, 4.25840), (-1.16850, 2.64602, 5.81574), (-4.67112, -4.01360, 3.01122))
LAMP_NAMES = ("Lamp_Key", "Lamp_Back", "Lamp_Fill")
_SIDES = (0.5, 1.0, 0.5)
_POWERS = (100.0, 50.0, 30.0)
_LIGHT = ((1.0, 0.93231, 0.81666), (1.0, 1.0, 1.0), (0.76167, 0.81772, 1.0))
_BOUNDS = {
    "sphere": 1.0, "cube": 1.6, "cylinder": 1.40, "capsule": 1.01, "cone": 1.42, "torus": 1.01, "octahedron": 1.01,
}  # fmt: skip
"""Radii of balls around the solids: rays that miss a ball are not traced further, nor are they shadowed."""


@dataclass(frozen=True)
class Thing:
    """One object: it stands on the floor at (x, y)."""

    shape: str
    x: float
    y: float
    r: float
    theta: float = 0.0
    material: str = "rubber"
    colour: str | tuple[float, float, float] = "gray"
    """A name of CLEVR's, or linear reflectances."""
    size: str = ""
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Where the material's pattern is cut from."""

    def height(self) -> float:
        """The height of its middle above the floor."""
        return self.r * (0.32 if self.shape == "torus" else 1.0)


@dataclass(frozen=True)
class Scene:
    """Objects on the ground, lamps and a camera that looks at the origin."""

    things: tuple[Thing, ...]
    camera: tuple[float, float, float] = CAMERA
    lamps: tuple[tuple[float, float, float], ...] = LAMP_PLACES
    ground: str = "white"
    """A material; white is CLEVR's, Lambertian with albedo 0.8."""
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


def scene_of(described: Mapping[str, Any]) -> Scene:
    """A scene in the words of CLEVR's JSON, checked: objects, and perhaps camera, lights, ground and ground_shift.

    An object has shape, material, color, and either x, y, r, theta, as we write them, or size, 3d_coords and rotation,
    as CLEVR's own files do. Those do not tell the camera and lamps, so they stay where they are without jitter.
    """
    if not isinstance(described, Mapping):
        raise AkornError(f"a scene is {type(described).__name__}, expected a mapping with objects")
    objects, lights = described.get("objects", []), described.get("lights", {})
    if not isinstance(objects, list | tuple) or not isinstance(lights, Mapping):
        raise AkornError("a scene has objects or lights of the wrong kind, expected a list and a mapping")
    _check_keys("a scene", described, _SCENE_KEYS)
    _check_keys("lights", lights, LAMP_NAMES)
    lamps = tuple(_three(lights.get(n, p), f"the lamp {n}") for n, p in zip(LAMP_NAMES, LAMP_PLACES, strict=True))
    scene = Scene(
        tuple(_thing_of(number, one) for number, one in enumerate(objects)),
        _three(described.get("camera", CAMERA), "the camera"), lamps, str(described.get("ground", "white")),
        _three(described.get("ground_shift", (0, 0, 0)), "ground_shift"),
    )  # fmt: skip
    scene_rows(scene, np.zeros((at.ROWS, at.COLUMNS)))  # reports unknown words
    return scene


def _thing_of(number: int, one: Any) -> Thing:
    """An object in the words of CLEVR's JSON."""
    try:
        _check_keys("it", one, _THING_KEYS)
        x, y = one["3d_coords"][:2] if "3d_coords" in one else (one["x"], one["y"])
        size = str(one.get("size", ""))
        if "r" not in one and size not in SIZES:
            raise AkornError(unknown("size", size, SIZES))
        return Thing(
            str(one["shape"]), float(x), float(y), float(one["r"] if "r" in one else SIZES[size]),
            float(one.get("theta", one.get("rotation", 0.0))), str(one.get("material", "rubber")),
            one.get("color", "gray"), size, _three(one.get("shift", (0, 0, 0)), "shift"),
        )  # fmt: skip
    except AkornError as error:
        raise AkornError(f"object {number} of the scene: {error}") from None
    except KeyError as error:
        raise AkornError(f"object {number} of the scene has no {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise AkornError(f"object {number} of the scene has a wrong value: {error}") from None


_SCENE_KEYS = ("objects", "camera", "lights", "ground", "ground_shift")
_THING_KEYS = ("shape", "material", "color", "x", "y", "r", "theta", "shift", "size", "3d_coords", "rotation")


def _check_keys(what: str, described: Mapping[str, Any], known: Sequence[str]) -> None:
    """AkornError for a key that looks like a mistyped one; other keys that we do not know are left alone."""
    for key in described:
        near = [name for name in similar(str(key), known) if name not in described]
        if key not in known and near:
            raise AkornError(f"{what} has the unknown key {key!r}: did you mean {near[0]!r}?")


def _three(values: Any, what: str) -> tuple[float, float, float]:
    """Three finite numbers; AkornError if they are something else."""
    try:
        x, y, z = (float(v) for v in values)
        if math.isfinite(x + y + z) and not isinstance(values, str):
            return x, y, z
    except (TypeError, ValueError):
        pass
    raise AkornError(f"{what} is {values!r}, expected three finite numbers")


def _check_looking(place: Any, what: str) -> None:
    """AkornError unless something at this place can look at the origin without roll."""
    x, y, _ = _three(place, what)
    if math.hypot(x, y) < 1e-6:
        raise AkornError(f"{what} is at {tuple(place)}, at or straight above the origin: expected a place beside it")


@dataclass(frozen=True)
class Arrays:
    """Scenes as arrays for the renderer (`layout` names the columns)."""

    objects: Tensor  # [B, ROWS, COLUMNS]
    counts: Tensor  # [B], whole numbers
    lamps: Tensor  # [B, 3, LAMP]
    camera: Tensor  # [B, 12]
    grid: Tensor  # [B, 6, CELLS]
    textured: bool

    def __len__(self) -> int:
        return len(self.counts)


def looking(place: Array) -> Array:
    """(right, up, backwards) [..., 3, 3] of something at `place` that looks at the origin, without roll."""
    back = place / np.linalg.norm(place, axis=-1, keepdims=True)
    right = np.stack([-back[..., 1], back[..., 0], np.zeros_like(back[..., 0])], -1)
    right = right / np.maximum(np.linalg.norm(right, axis=-1, keepdims=True), 1e-12)
    return np.stack([right, np.cross(back, right), back], -2)


def lamp_rows(places: Array) -> Array:
    """The lamps' numbers [B, 3, LAMP] from their places [B, 3, 3]."""
    rows = np.zeros((*places.shape[:2], at.LAMP))
    axes = looking(places)
    rows[..., 0:3] = places
    rows[..., 3:6], rows[..., 6:9], rows[..., 9:12] = axes[..., 0, :], axes[..., 1, :], -axes[..., 2, :]
    side, power = np.array(_SIDES), np.array(_POWERS)
    rows[..., 12:15] = (power / (4 * side**2))[:, None] * np.array(_LIGHT)
    rows[..., 15] = side
    return rows


def scene_rows(scene: Scene, rows: Array) -> None:
    """Fill a scene's rows [ROWS, COLUMNS]; AkornError if the scene cannot be rendered."""
    if len(scene.things) > at.MOST:
        raise AkornError(f"a scene has {len(scene.things)} objects, expected at most {at.MOST}")
    if len(scene.lamps) != at.LAMPS:
        raise AkornError(f"a scene has {len(scene.lamps)} lamps, expected {at.LAMPS}")
    _check_looking(scene.camera, "the camera")
    for place, name in zip(scene.lamps, LAMP_NAMES, strict=True):
        _check_looking(place, f"the lamp {name}")
    for thing, row in zip(scene.things, rows, strict=False):
        thing_row(thing, row)
    ground_row(scene, rows[at.GROUND])


def thing_row(thing: Thing, row: Array) -> None:
    """Fill an object's row."""
    if thing.shape not in SHAPES:
        raise AkornError(unknown("shape", thing.shape, SHAPES))
    if not (math.isfinite(thing.r) and thing.r > 0):
        raise AkornError(f"the size of an object is {thing.r:g}, expected above 0")
    if not math.isfinite(thing.x + thing.y + thing.theta):
        raise AkornError(
            f"an object is at ({thing.x:g}, {thing.y:g}), turned by {thing.theta:g}: expected finite numbers"
        )
    row[at.SHAPE] = SHAPES.index(thing.shape)
    row[at.X : at.Z + 1] = thing.x, thing.y, thing.height()
    row[at.SIZE] = thing.r
    row[at.COS], row[at.SIN] = math.cos(thing.theta), math.sin(thing.theta)
    row[at.BOUND] = _BOUNDS[thing.shape] * thing.r
    material_row(thing.material, thing.colour, thing.shift, row)


def material_row(name: str, colour: str | Sequence[float], shift: tuple[float, float, float], row: Array) -> None:
    """Fill the part of a row that says how the surface looks."""
    if name in MATERIALS:
        row[at.KIND] = MATERIALS.index(name)
        if isinstance(colour, str):
            if colour not in COLOURS:
                raise AkornError(unknown("colour", colour, COLOURS))
            row[at.RED : at.RED + 3] = np.array(COLOURS[colour]) / 255
        else:
            found = _three(colour, "a colour")
            if min(found) < 0 or max(found) > 1:
                raise AkornError(f"a colour is {tuple(colour)}, expected reflectances from 0 to 1")
            row[at.RED : at.RED + 3] = found
        return
    if name not in TEXTURES:
        raise AkornError(unknown("material", name, (*MATERIALS, *TEXTURES)))
    made = TEXTURES[name]
    row[at.KIND] = at.TEXTURED
    row[at.PATTERN] = PATTERNS.index(made.pattern)
    row[at.RED : at.RED + 3], row[at.SECOND : at.SECOND + 3] = made.first, made.second
    row[at.SCALE], row[at.DETAIL], row[at.BUMP] = made.scale, made.detail, made.bump
    row[at.ROUGH], row[at.METALLIC] = made.rough, made.metallic
    row[at.SHIFT : at.SHIFT + 3] = _three(shift, "a shift")


def arrays(scenes: Sequence[Scene], device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Arrays:
    """Scenes as arrays on a device."""
    import torch

    if not scenes:
        raise AkornError("there is no scene to render")
    objects = np.zeros((len(scenes), at.ROWS, at.COLUMNS))
    for scene, rows in zip(scenes, objects, strict=True):
        scene_rows(scene, rows)
    camera, lamps = (np.array([getattr(scene, what) for scene in scenes], float) for what in ("camera", "lamps"))
    counts = np.array([len(scene.things) for scene in scenes])
    return as_arrays(objects, counts, camera, lamps, device, dtype or torch.float32)


def as_arrays(
    objects: Array,
    counts: NDArray[np.int64],
    camera: Array,
    lamps: Array,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Arrays:
    """Rows of objects [B, ROWS, COLUMNS], places of cameras [B, 3] and lamps [B, 3, 3] as arrays on a device."""
    import torch

    from akorn.scenes.radiosity import ground_grid

    def there(values: Array) -> Tensor:
        return torch.tensor(values, device=device, dtype=dtype)

    textured = bool((objects[:, :, at.KIND] == at.TEXTURED).any())
    table, lights = there(objects), there(lamp_rows(lamps))
    albedo = mean_colour(table[:, at.GROUND]) if textured else None
    eye = np.concatenate([camera, looking(camera).reshape(len(camera), 9)], 1)
    return Arrays(
        table,
        torch.tensor(counts, device=device, dtype=torch.int32),
        lights,
        there(eye),
        ground_grid(lights, albedo),
        textured,
    )


def ground_row(scene: Scene, row: Array) -> None:
    """Fill the ground's row."""
    row[at.SIZE] = row[at.COS] = 1.0
    if scene.ground == "white":
        row[at.KIND] = at.LAMBERT
        row[at.RED : at.RED + 3] = 0.8
    else:
        material_row(scene.ground, (0.8, 0.8, 0.8), scene.shift, row)


def mean_colour(rows: Tensor) -> Tensor:
    """The approximate mean reflectance [B, 3] of surfaces."""
    first, second = rows[:, at.RED : at.RED + 3], rows[:, at.SECOND : at.SECOND + 3]
    return first + 0.5 * (second - first) * (rows[:, at.KIND, None] == at.TEXTURED)
