"""The photographs of frost that CIFAR-10-C was made with, where the package `imagecorruptions` is installed.

Only its pictures are read, and none of its code is run: `pip install --no-deps imagecorruptions` is enough.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from akorn.errors import AkornError

PACKAGE = "imagecorruptions"
FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
"""Five: CIFAR-10-C never drew the sixth."""
PROCEDURAL = "procedural texture"
_STEP = 5  # the pictures are scaled by a fifth
_LEAST = 33  # smallest side of a scaled picture in pixels: room for crops of 32 at a random place


def photographs() -> tuple[NDArray[np.uint8], ...] | None:
    """The pictures [3, H, W], scaled by 0.2; None if the package, or its pictures, are not installed."""
    folder = _folder()
    return _read(folder) if folder is not None else None


def frost_by() -> str:
    """What frost is made of here, in words for a record."""
    if _folder() is None:
        return PROCEDURAL
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return f"photographs of {PACKAGE} {version}"


def _folder() -> Path | None:
    """Where the pictures are; found without importing the package, whose own dependencies may be missing."""
    try:
        spec = find_spec(PACKAGE)
    except (ImportError, ValueError):  # a module of that name without a spec
        return None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "frost"
        if all((folder / name).is_file() for name in FILES):
            return folder
    return None


@lru_cache(maxsize=1)
def _read(folder: Path) -> tuple[NDArray[np.uint8], ...]:
    return tuple(_scaled(folder / name) for name in FILES)


def _scaled(path: Path) -> NDArray[np.uint8]:
    """A picture scaled by 0.2 as OpenCV does: pixel i is read at 5·(i + ½) − ½ = 5·i + 2, a whole number."""
    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))  # [H, W, 3]; transparent pixels keep their colour
    except Exception as error:  # cut short, or not a picture
        raise AkornError(f"{path} cannot be read as a picture ({error})") from None
    scaled = pixels[_STEP // 2 :: _STEP, _STEP // 2 :: _STEP]
    if min(scaled.shape[:2]) < _LEAST:
        raise AkornError(f"{path} has {pixels.shape[1]} × {pixels.shape[0]} pixels, too few for frost")
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))
