"""Random changes to pictures, on the device, a whole batch at once, each picture with random numbers of its own.

Pictures are [B, 1 or 3, H, W], bytes or floats in 0–1; what comes back are float32 in 0–1. All random numbers come
from the generator handed over, nothing waits for the device and shapes never depend on what was drawn, so all of it
may be recorded in a CUDA graph. Names are imported when they are first used: the settings need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from akorn.augment.config import AugmentConfig

if TYPE_CHECKING:
    from akorn.augment.colour import colour_jitter, greyscale, hsv_to_rgb, rgb_to_hsv, shift_hue, to_grey
    from akorn.augment.crop import random_boxes, random_flip, random_resized_crop, random_shift, resample
    from akorn.augment.noise import gaussian_noise
    from akorn.augment.pictures import as_float
    from akorn.augment.views import augment, two_views

_LAZY = {
    "as_float": "pictures",
    "augment": "views",
    "colour_jitter": "colour",
    "gaussian_noise": "noise",
    "greyscale": "colour",
    "hsv_to_rgb": "colour",
    "random_boxes": "crop",
    "random_flip": "crop",
    "random_resized_crop": "crop",
    "random_shift": "crop",
    "resample": "crop",
    "rgb_to_hsv": "colour",
    "shift_hue": "colour",
    "to_grey": "colour",
    "two_views": "views",
}

__all__ = [
    "AugmentConfig",
    "as_float",
    "augment",
    "colour_jitter",
    "gaussian_noise",
    "greyscale",
    "hsv_to_rgb",
    "random_boxes",
    "random_flip",
    "random_resized_crop",
    "random_shift",
    "resample",
    "rgb_to_hsv",
    "shift_hue",
    "to_grey",
    "two_views",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.augment.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.augment' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
