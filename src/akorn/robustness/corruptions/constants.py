"""The names of the corruptions and their constants for pictures of 32 × 32 (Hendrycks & Dietterich, 2019).

These are the constants of CIFAR-10-C, five a corruption, from severity 1 to 5. Needs no other module, so that
`--help` can list the names.
"""

from __future__ import annotations

from typing import Any

from akorn.errors import AkornError

CONSTANTS: dict[str, tuple[Any, ...]] = {
    # standard deviation
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    # photons a pixel of value 1
    "shot_noise": (500, 250, 100, 75, 50),
    # share of values replaced
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    # radius of the disk, standard deviation of its soft edge
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    # standard deviation of the blur before and after, farthest move, rounds
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    # radius, standard deviation
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    # number of zoom factors 1, 1.01, 1.02, …; published as ranges up to 1.06, 1.11, 1.16, 1.21 and 1.26 whose end
    # is left out, but which, in floating point, the first two ranges reach (blur.py has the step as it is there)
    "zoom_blur": (7, 12, 16, 21, 26),
    # mean and deviation of the flakes, zoom, threshold, radius and deviation of their motion, weight of the picture
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    # weights of picture and frost
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    # thickness, how fast the roughness falls from scale to scale
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    # added to the value of HSV
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    # factor on the distance from the mean colour
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    # size and smoothness of the displacement, size of the affine part; times 32 pixels
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    # size of the small picture, of 32: 0.95, 0.9, 0.85, 0.75 and 0.65, rounded down
    "pixelate": (30, 28, 27, 24, 20),
    # quality
    "jpeg_compression": (80, 65, 58, 50, 40),
    # standard deviation, relative to the pixel
    "speckle_noise": (0.06, 0.1, 0.12, 0.16, 0.2),
    # standard deviation
    "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
    # mean, deviation and blur of the liquid, threshold, strength (water) or blur (mud), mud or water
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    ),
    # factor on the saturation of HSV, and what is added to it
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

ALL = tuple(CONSTANTS)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
COMMON = tuple(name for name in ALL if name not in EXTRA)
"""The fifteen over which CIFAR-10-C is averaged."""
SEVERITIES = (1, 2, 3, 4, 5)

README = "README.json"  # beside a corrupted set of ours: what is in it and how it was made


def check_name(name: str) -> None:
    """AkornError unless it is one of the corruptions."""
    if name not in CONSTANTS:
        raise AkornError(f"unknown corruption {name!r}: the known ones are {', '.join(ALL)}")


def check_severity(severity: int) -> None:
    """AkornError unless it is a whole number from 1 to 5."""
    if isinstance(severity, bool) or severity not in SEVERITIES:
        raise AkornError(f"severity must be a whole number from 1 to 5, got {severity!r}")
