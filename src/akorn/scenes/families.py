"""Which kinds of scenes there are: CLEVR's, and textured ones modelled on CLEVRTex. Torch-free.

`clevrtex`, `clevrtex-ood` and `clevrtex-camo` follow the published description of these sets with our own materials and
shapes: 3 to 10 objects in three sizes on a textured ground. OOD has other shapes and 25 other materials; in CAMO all
objects of a scene and its ground share one material.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from akorn.errors import AkornError
from akorn.registry import unknown
from akorn.scenes.materials import TRAINED, UNSEEN
from akorn.scenes.scene import COLOURS, SIZES


@dataclass(frozen=True)
class Family:
    """How the scenes of a set are drawn."""

    name: str
    least: int
    most: int
    shapes: tuple[str, ...]
    sizes: Mapping[str, float]
    looks: tuple[tuple[str, str], ...]
    """Material and colour that an object may have."""
    apart: float
    """The smallest distance between two objects, in the plane."""
    along: float
    """The smallest difference along the floor's directions left and behind."""
    grounds: tuple[str, ...] = ("white",)
    camouflage: bool = False
    pixels: int = 200
    """How many pixels of 320 × 240 each object must show."""


_TEXTURED = Family(
    "clevrtex",
    3,
    10,
    ("sphere", "cube", "cylinder", "capsule"),
    {"large": 0.7, "medium": 0.5, "small": 0.35},
    tuple((name, "") for name in TRAINED),
    apart=0.15,
    along=0.0,
    grounds=tuple(TRAINED),
)
FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "clevr",
            3,
            6,
            ("cube", "sphere", "cylinder"),
            SIZES,
            tuple((material, colour) for material in ("rubber", "metal") for colour in COLOURS),
            apart=0.25,
            along=0.4,
        ),
        _TEXTURED,
        replace(
            _TEXTURED,
            name="clevrtex-ood",
            shapes=("cone", "torus", "octahedron"),
            looks=tuple((name, "") for name in UNSEEN),
            grounds=tuple(UNSEEN),
        ),
        replace(_TEXTURED, name="clevrtex-camo", camouflage=True),
    )
}


def family_of(name: str, objects: tuple[int, int] | None = None) -> Family:
    """The family of that name, with another range of numbers of objects if one is given."""
    if name not in FAMILIES:
        raise AkornError(unknown("kind of scene", name, FAMILIES))
    family = FAMILIES[name]
    if objects is None:
        return family
    least, most = objects
    if not 0 <= least <= most <= 10 or most < 1:
        raise AkornError(
            f"objects are from {least} to {most}, expected from 0 to 10, the smaller number first, the larger above 0"
        )
    return replace(family, least=least, most=most)
