"""The textured materials by name: a pattern with its colours, size, bumps, roughness and share of metal. Torch-free.

The materials are our own, and we say so: they replace CLEVRTex's photographed ones. `TRAINED` are the 64 of `clevrtex`,
`UNSEEN` the 25 of `clevrtex-ood`, whose patterns training never shows. Colours are linear reflectances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Material:
    """A textured surface."""

    pattern: str
    first: Colour
    second: Colour
    scale: float
    """Features per unit of length: a large object is 1.4 high."""
    detail: float = 0.5
    """The pattern's own number: how wide stripes and dots are, or how different bricks are from each other."""
    bump: float = 0.0
    """How high the pattern stands out, in units of its features."""
    rough: float = 0.4
    metallic: float = 0.0


PATTERNS = (
    "noise", "marble", "wood", "bricks", "checks", "weave", "stripes", "dots", "cellular", "scratches", "planks",
    "tiles", "waves", "spots", "speckle", "zigzag", "cracks", "shells", "diamonds", "camouflage", "gyroid",
)  # fmt: skip
"""In the order of their numbers in `textures`."""


def _m(
    pattern: str, first: str, second: str, scale: float, detail: float = 0.5, bump: float = 0.0, rough: float = 0.4,
    metallic: float = 0.0,
) -> Material:  # fmt: skip
    return Material(pattern, _linear(first), _linear(second), scale, detail, bump, rough, metallic)


def _linear(colour: str) -> Colour:
    """A colour in hexadecimal sRGB as linear reflectances."""
    levels = (int(colour[k : k + 2], 16) / 255 for k in (0, 2, 4))
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels)
    return r, g, b


TRAINED: Mapping[str, Material] = {
    # noises: stone, soil, plaster
    "granite": _m("noise", "4a4a4c", "b9b4ac", 6.0, 0.5, 0.03, 0.5),
    "sandstone": _m("noise", "b58a58", "dcc193", 4.0, 0.8, 0.05, 0.7),
    "plaster": _m("noise", "cfc8bb", "efe9de", 3.0, 0.9, 0.04, 0.7),
    "soil": _m("noise", "2e2117", "6b4a30", 7.0, 0.7, 0.15, 0.9),
    "moss": _m("noise", "24381a", "6f8f3a", 8.0, 0.7, 0.18, 0.9),
    "rust": _m("noise", "5a2812", "b5642a", 4.0, 0.6, 0.06, 0.7),
    "cloudy-sky": _m("noise", "4f7fc0", "f0f4fa", 2.0, 0.6, 0.0, 0.5),
    "lava": _m("noise", "1a1010", "d2491c", 3.0, 0.35, 0.1, 0.6),
    "slate": _m("noise", "2c3338", "59646b", 3.0, 0.7, 0.08, 0.5),
    "oxidised-copper": _m("noise", "2f7d6b", "8a5a3c", 3.0, 0.4, 0.03, 0.5),
    # marbles
    "white-marble": _m("marble", "e9e6e0", "6a6a70", 1.2, 0.7, 0.0, 0.2),
    "black-marble": _m("marble", "18181b", "c9c2b0", 1.5, 0.9, 0.0, 0.2),
    "green-marble": _m("marble", "1f4a35", "b8d0b4", 1.3, 0.8, 0.0, 0.2),
    "rose-marble": _m("marble", "b46a68", "f2d9d0", 1.6, 0.7, 0.0, 0.25),
    "agate": _m("marble", "7a3b1d", "e3b873", 2.6, 0.4, 0.0, 0.2),
    # woods and planks
    "oak": _m("wood", "c49a62", "7c5328", 2.0, 0.5, 0.03, 0.5),
    "walnut": _m("wood", "5b3a22", "2b1a10", 2.4, 0.6, 0.03, 0.5),
    "pine": _m("wood", "e3c48d", "b3803f", 1.6, 0.4, 0.02, 0.5),
    "mahogany": _m("wood", "6e2f1c", "3a140c", 2.2, 0.5, 0.02, 0.4),
    "light-planks": _m("planks", "d2b078", "8f6a3c", 2.0, 0.5, 0.08, 0.5),
    "dark-planks": _m("planks", "4d3524", "23170f", 2.4, 0.5, 0.08, 0.6),
    "grey-planks": _m("planks", "8d8a85", "4c4a48", 2.0, 0.6, 0.1, 0.7),
    "painted-planks": _m("planks", "5f88a8", "d8dfe2", 2.2, 0.3, 0.08, 0.6),
    # bricks and tiles
    "red-bricks": _m("bricks", "8e3b28", "b9b2a6", 3.0, 0.4, 0.12, 0.8),
    "yellow-bricks": _m("bricks", "c9a25a", "8c8478", 3.0, 0.3, 0.12, 0.8),
    "grey-bricks": _m("bricks", "6e6e70", "c9c7c2", 2.6, 0.4, 0.12, 0.8),
    "black-bricks": _m("bricks", "242326", "8a8782", 3.4, 0.3, 0.12, 0.7),
    "white-tiles": _m("tiles", "e6e8ea", "7a7a78", 2.5, 0.1, 0.08, 0.2),
    "blue-tiles": _m("tiles", "24518f", "d8dce2", 3.0, 0.3, 0.08, 0.2),
    "terracotta-tiles": _m("tiles", "a8532e", "d9c8b4", 2.0, 0.4, 0.1, 0.6),
    "green-tiles": _m("tiles", "2c7552", "cfd8cc", 4.0, 0.5, 0.08, 0.25),
    # cloths
    "linen": _m("weave", "c8b997", "8e7f62", 12.0, 0.6, 0.05, 0.9),
    "denim": _m("weave", "22365e", "8797b4", 14.0, 0.5, 0.05, 0.9),
    "wicker": _m("weave", "a9793f", "5a3a1a", 5.0, 0.4, 0.15, 0.7),
    "burlap": _m("weave", "8f6f45", "4d3820", 8.0, 0.5, 0.1, 0.9),
    "red-canvas": _m("weave", "9c2a26", "5a1412", 10.0, 0.5, 0.05, 0.9),
    "carbon-weave": _m("weave", "17181a", "4c4f54", 9.0, 0.4, 0.06, 0.25),
    # checks, stripes, dots
    "chessboard": _m("checks", "1d1b1a", "e9e4d8", 3.0, 0.0, 0.0, 0.3),
    "picnic": _m("checks", "b3262a", "f0ece4", 4.0, 0.0, 0.0, 0.8),
    "blue-checks": _m("checks", "2b4fa0", "c9d4ec", 5.0, 0.0, 0.0, 0.6),
    "deck-chair": _m("stripes", "2f6db0", "f1efe8", 3.0, 0.5, 0.0, 0.7),
    "wasp": _m("stripes", "1b1a17", "e6b91e", 3.5, 0.5, 0.0, 0.4),
    "corrugated": _m("waves", "8f9498", "c4c8cc", 4.0, 0.0, 0.12, 0.35, 0.8),
    "polka": _m("dots", "d23b4e", "f6f0ee", 4.0, 0.55, 0.0, 0.5),
    "studs": _m("dots", "35302c", "a79a86", 5.0, 0.5, 0.12, 0.4),
    "ladybird": _m("dots", "c22a1c", "151312", 3.0, 0.6, 0.0, 0.2),
    "candy-waves": _m("waves", "e884a8", "f7f2ea", 3.0, 0.4, 0.0, 0.3),
    "sea-waves": _m("waves", "123e63", "6fb0c0", 2.0, 0.5, 0.06, 0.2),
    "dunes": _m("waves", "c79a5c", "e6cc98", 3.0, 0.25, 0.08, 0.9),
    # cells and spots
    "pebbles": _m("cellular", "b9b2a4", "3e3a35", 4.0, 0.5, 0.15, 0.6),
    "leather": _m("cellular", "5a3520", "25140b", 9.0, 0.2, 0.06, 0.5),
    "scales": _m("cellular", "3f7a4a", "12261a", 5.0, 0.8, 0.12, 0.3),
    "foam": _m("cellular", "f2efe6", "a9b4ba", 5.0, 0.4, 0.08, 0.7),
    "cow": _m("spots", "efece6", "1c1a19", 2.0, 0.55, 0.0, 0.6),
    "leopard": _m("spots", "d19a4a", "3a2412", 6.0, 0.6, 0.0, 0.7),
    "lichen": _m("spots", "6d6e66", "b9b95a", 5.0, 0.6, 0.05, 0.8),
    "terrazzo": _m("speckle", "d8d2c8", "6e4a3c", 4.0, 0.15, 0.0, 0.3),
    "confetti": _m("speckle", "35486e", "e6c84a", 3.0, 0.2, 0.0, 0.4),
    # metals
    "brushed-steel": _m("scratches", "9a9da0", "5c5f62", 1.5, 0.6, 0.01, 0.3, 1.0),
    "scratched-brass": _m("scratches", "b08a3c", "5e4618", 1.5, 0.8, 0.02, 0.25, 1.0),
    "scratched-copper": _m("scratches", "b36a44", "5e2f1a", 1.2, 0.7, 0.02, 0.25, 1.0),
    "worn-paint": _m("scratches", "1f5b46", "a7a9a8", 1.0, 0.5, 0.02, 0.4),
    "hammered-gold": _m("cellular", "d9a43a", "a8761e", 5.0, 0.6, 0.08, 0.2, 1.0),
    "hammered-iron": _m("noise", "45474a", "77797c", 5.0, 0.8, 0.1, 0.3, 1.0),
}
UNSEEN: Mapping[str, Material] = {
    "herringbone": _m("zigzag", "6b4a2e", "c9a878", 4.0, 0.5, 0.05, 0.6),
    "chevron-red": _m("zigzag", "a8202c", "f0e8e0", 3.0, 0.5, 0.0, 0.5),
    "chevron-teal": _m("zigzag", "147a7a", "e6d9b8", 5.0, 0.4, 0.0, 0.5),
    "hazard": _m("zigzag", "16151a", "f2c40e", 2.5, 0.5, 0.0, 0.4),
    "dry-mud": _m("cracks", "9a7a54", "2e2014", 3.0, 0.4, 0.15, 0.9),
    "crazed-glaze": _m("cracks", "5fa8a0", "163c3c", 5.0, 0.2, 0.03, 0.15),
    "basalt": _m("cracks", "3c3e42", "101114", 3.5, 0.6, 0.15, 0.7),
    "stained-glass": _m("cracks", "a03a8a", "140f16", 2.5, 0.25, 0.06, 0.15),
    "turtle": _m("cracks", "55662a", "d6c77e", 3.0, 0.5, 0.1, 0.5),
    "onion": _m("shells", "8a3a6a", "efe0ea", 6.0, 0.5, 0.0, 0.4),
    "target": _m("shells", "c8242a", "f2efe8", 4.0, 0.5, 0.0, 0.5),
    "growth-rings": _m("shells", "c9b48a", "6a5230", 9.0, 0.4, 0.03, 0.6),
    "sonar": _m("shells", "0c2f24", "3fd08a", 5.0, 0.25, 0.0, 0.3),
    "argyle": _m("diamonds", "2c5a3c", "d9cba8", 2.5, 0.0, 0.0, 0.8),
    "harlequin": _m("diamonds", "5a2a7a", "e8c23a", 2.0, 0.0, 0.0, 0.5),
    "quilt": _m("diamonds", "c4627a", "f0c8cc", 3.0, 0.5, 0.08, 0.9),
    "steel-plate": _m("diamonds", "7c8084", "9ea2a6", 5.0, 0.8, 0.08, 0.3, 1.0),
    "woodland": _m("camouflage", "2c3a20", "8c7a4a", 3.0, 0.5, 0.0, 0.8),
    "desert": _m("camouflage", "b89a6a", "6a4a30", 3.0, 0.4, 0.0, 0.8),
    "arctic": _m("camouflage", "eef0f2", "7c8894", 3.0, 0.5, 0.0, 0.7),
    "giraffe": _m("camouflage", "d9a860", "6a3818", 4.0, 0.9, 0.0, 0.7),
    "gyroid-orange": _m("gyroid", "d86a18", "2a1408", 2.0, 0.3, 0.05, 0.4),
    "gyroid-blue": _m("gyroid", "1c3c9a", "a8d0f0", 2.5, 0.4, 0.05, 0.3),
    "coral": _m("gyroid", "e88a7a", "7a2a2a", 4.0, 0.5, 0.12, 0.6),
    "printed-metal": _m("gyroid", "a0a4a8", "4c5054", 4.0, 0.4, 0.08, 0.25, 1.0),
}
TEXTURES: Mapping[str, Material] = {**TRAINED, **UNSEEN}
