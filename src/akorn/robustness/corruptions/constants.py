"""The corruptions: their names, functions and constants for pictures of 32 × 32 (Hendrycks & Dietterich, 2019).

The constants are those of CIFAR-10-C. A new corruption is a function in one of this package's modules, and an entry
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from akorn.errors import AkornError
from akorn.registry import Registry, load


@dataclass(frozen=True)
class Corruption:
    """A corruption: where its function is, and its constants at each severity."""

    place: str
    """`package.module:function`; the function maps pictures, constants and random draws to pictures."""
    constants: tuple[Any, ...]
    """Five, from severity 1 to 5."""
    common: bool = True
    """Whether it is one of the fifteen that CIFAR-10-C's mean is taken over."""

    def load(self) -> Any:
        """The function."""
        return load(self.place)


CORRUPTIONS: Registry[Corruption] = Registry("corruption")
"""In the usual order, which is that of CIFAR-10-C's tables."""


def _add(name: str, place: str, constants: tuple[Any, ...], *, common: bool = True) -> None:
    CORRUPTIONS.register(name, Corruption(f"{__package__}.{place}", constants, common))


# standard deviation
_add("gaussian_noise", "pixel_noise:gaussian_noise", (0.04, 0.06, 0.08, 0.09, 0.10))
# photons per pixel of value 1
_add("shot_noise", "pixel_noise:shot_noise", (500, 250, 100, 75, 50))
# share of values replaced
_add("impulse_noise", "pixel_noise:impulse_noise", (0.01, 0.02, 0.03, 0.05, 0.07))
# radius of the disk, standard deviation of its soft edge
_add("defocus_blur", "blur:defocus_blur", ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)))
# standard deviation of the blur before and after, farthest move, rounds
_add("glass_blur", "blur:glass_blur", ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)))
# radius, standard deviation
_add("motion_blur", "blur:blur_by_motion", ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)))
# number of zoom factors 1, 1.01, 1.02, …; published as ranges up to but without 1.06, 1.11, 1.16, 1.21 and 1.26; in
# floating point, the first two ranges do reach their end (blur.py has the exact step)
_add("zoom_blur", "blur:zoom_blur", (7, 12, 16, 21, 26))
# mean and deviation of the flakes, zoom, threshold, radius and deviation of their motion, weight of the picture
_add(
    "snow",
    "weather:snow",
    (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
)
# weights of picture and frost
_add("frost", "weather:frost", ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)))
# thickness, how fast the roughness falls from scale to scale
_add("fog", "weather:fog", ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)))
# added to the value of HSV
_add("brightness", "digital:brightness", (0.05, 0.1, 0.15, 0.2, 0.3))
# factor on the distance from the mean colour
_add("contrast", "digital:contrast", (0.75, 0.5, 0.4, 0.3, 0.15))
# size and smoothness of the displacement, size of the affine part; times 32 pixels
_add(
    "elastic_transform",
    "digital:elastic_transform",
    ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
)
# size of the small picture, of 32: 0.95, 0.9, 0.85, 0.75 and 0.65, rounded down
_add("pixelate", "digital:pixelate", (30, 28, 27, 24, 20))
# quality
_add("jpeg_compression", "digital:jpeg_compression", (80, 65, 58, 50, 40))
# standard deviation, relative to the pixel
_add("speckle_noise", "pixel_noise:speckle_noise", (0.06, 0.1, 0.12, 0.16, 0.2), common=False)
# standard deviation
_add("gaussian_blur", "blur:gaussian_blur", (0.4, 0.6, 0.7, 0.8, 1), common=False)
# mean, deviation and blur of the liquid, threshold, strength (water) or blur (mud), mud or water
_add(
    "spatter",
    "liquid:spatter",
    (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
    common=False,
)
# factor on the saturation of HSV, and what is added to it
_add("saturate", "digital:saturate", ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)), common=False)

ALL = tuple(CORRUPTIONS)
CONSTANTS = {name: corruption.constants for name, corruption in CORRUPTIONS.items()}
EXTRA = tuple(name for name in ALL if not CORRUPTIONS[name].common)
COMMON = tuple(name for name in ALL if CORRUPTIONS[name].common)
"""The fifteen that CIFAR-10-C's mean is taken over."""
SEVERITIES = (1, 2, 3, 4, 5)

README = "README.json"  # beside a corrupted set of ours: what is in it and how it was made


def check_name(name: str) -> None:
    """AkornError unless it is one of the corruptions."""
    if name not in CORRUPTIONS:
        raise AkornError(f"unknown corruption {name!r}: the known ones are {', '.join(ALL)}")


def check_severity(severity: int) -> None:
    """AkornError unless it is a whole number from 1 to 5."""
    if isinstance(severity, bool) or severity not in SEVERITIES:
        raise AkornError(f"severity must be a whole number from 1 to 5, got {severity!r}")
