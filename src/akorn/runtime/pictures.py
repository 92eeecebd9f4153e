"""Opens users' picture files, or refuses them in one line."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from akorn.errors import AkornError
from akorn.runtime.picture_folders import expand_folders

MOST_PIXELS = 2**26
MOST_READ = 2**27
"""Pixels that are decoded if the picture is then shrunk."""
_MOST_JPEG = 2**30  # of a JPEG in its file: it is shrunk while it is decoded
_MOST_PROGRESSIVE = 2**28  # decoding such a JPEG holds all of it in memory
_JPEG = ("JPEG", "MPO")
_SEVERAL = ("AVIF", "GIF", "PNG", "TIFF", "WEBP")  # not MPO, where a camera adds previews
_REDUCED = ("L", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F")  # modes that Pillow can average
_ORIENTATION = 0x0112  # the EXIF tag
_LYING = (5, 6, 7, 8)  # its values that swap height and width

# Our own limit is lower and is reported in one line. The filter is permanent, since threads read pictures and share the
# filters, and it comes last, so that anyone who asks for Pillow's warning still gets it.
warnings.simplefilter("ignore", Image.DecompressionBombWarning, append=True)
# Damaged files that Pillow warns about are refused anyway, in one line.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.", append=True)


def open_picture(path: str | Path) -> Image.Image:
    """A picture in its own mode, whole in memory; AkornError if the file is not a picture, is damaged or too large."""
    return open_reduced(path)[0]


def open_reduced(
    path: str | Path, least: int | None = None, *, turn: bool = True
) -> tuple[Image.Image, tuple[int, int]]:
    """A picture in its own mode, and its height and width in the file.

    If decoding can shrink it (JPEG), which is fast, it does, but never below `least` pixels per side.
    turn: rotate as the camera was held; false if masks match the stored pixels.
    """
    with _readable(path), _open(path) as file:
        height, width = file.height, file.width
        if least is not None:
            _check_stored(path, file)
            file.draft("RGB", (least, least))
        if file.width * file.height > MOST_PIXELS:
            raise AkornError(f"{path}: {file.width} × {file.height} pixels, expected at most {MOST_PIXELS:,}")
        file.load()
        if not turn:
            return file.copy(), (height, width)
        # A phone stores the sensor's rows and notes how it was held.
        lying = file.getexif().get(_ORIENTATION) in _LYING
        return ImageOps.exif_transpose(file), (width, height) if lying else (height, width)


def open_within(path: str | Path, most: int) -> tuple[Image.Image, tuple[int, int]]:
    """A picture of at most about `most` pixels, and its height and width in the file.

    A larger one is shrunk by a whole factor before anything else, a JPEG already while it is decoded, to save memory.
    """
    with _readable(path), _open(path) as file:
        width, height = file.size
        _check_stored(path, file)
        if width * height > most:
            times = math.isqrt(width * height // most) + 1
            file.draft(file.mode, (width // times, height // times))  # never below that; of JPEG alone
        file.load()
        lying = file.getexif().get(_ORIENTATION) in _LYING
        size = (width, height) if lying else (height, width)
        factor = math.isqrt(max(file.width * file.height - 1, 0) // most) + 1
        if factor == 1:
            return ImageOps.exif_transpose(file), size
        if file.mode in _REDUCED:
            smaller = file.reduce(factor)
        else:  # palette indices cannot be averaged
            sides = (max(file.width // factor, 1), max(file.height // factor, 1))
            smaller = file.resize(sides, Image.Resampling.NEAREST)
        smaller.info, smaller.format = dict(file.info), file.format
        return ImageOps.exif_transpose(smaller), size


def is_first_of_several(path: str | Path) -> bool:
    """Whether a picture file holds more frames or pages than the one that is read."""
    with suppress(AkornError), _readable(path), _open(path) as file:
        return file.format in _SEVERAL and bool(getattr(file, "is_animated", False))
    return False


def picture_size(path: str | Path, *, turn: bool = True) -> tuple[int, int]:
    """Height and width from the file's first bytes, which is fast; AkornError if it is not a picture."""
    with _readable(path), _open(path) as file:
        # Pillow rotates TIFF itself; in other files only an orientation tag before the pixels is considered.
        noted = turn and file.format != "TIFF" and "exif" in file.info
        lying = noted and file.getexif().get(_ORIENTATION) in _LYING
        return (file.width, file.height) if lying else (file.height, file.width)


_opening = threading.Lock()


def _open(path: str | Path) -> Image.Image:
    """`Image.open` without Pillow's own limit, since ours comes before any pixel is decoded."""
    with _opening:  # the limit belongs to all threads
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _check_stored(path: str | Path, file: Image.Image) -> None:
    """AkornError if a file has more pixels than can be decoded, even if the picture is then shrunk."""
    most = MOST_READ
    if file.format in _JPEG:
        most = _MOST_PROGRESSIVE if "progressive" in file.info else _MOST_JPEG
    if file.width * file.height > most:
        has = math.ceil(file.width * file.height / 1e6)
        kind = "progressive JPEG" if most == _MOST_PROGRESSIVE else file.format
        raise AkornError(
            f"{path}: this picture has {has:,} megapixels; {kind} pictures of up to {most // 10**6:,} can be read"
        )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """AkornError, in one line, for whatever goes wrong with a file."""
    try:
        yield
    except AkornError:
        raise
    except FileNotFoundError:
        told = "this link leads to no file" if os.path.islink(path) else "there is no such file"
        raise AkornError(f"{path}: {told}") from None
    except IsADirectoryError:
        empty = expand_folders([str(path)]) == (str(path),)
        told = "this folder contains no pictures" if empty else "this is a folder, expected a picture"
        raise AkornError(f"{path}: {told}") from None
    except UnidentifiedImageError:
        raise AkornError(f"{path}: not a picture, expected PNG, JPEG or similar") from None
    except Exception as error:  # damaged files fail in Pillow and its codecs in many ways
        raise AkornError(f"{path}: cannot be read as a picture ({error})") from None


def flatten(picture: Image.Image) -> Image.Image:
    """The picture in 8 bits, grey or RGB, without transparency: transparent parts become white.

    Deeper greys are whole numbers, where white is 65535 or the largest value if that is more, or fractions, where white
    is the largest finite value. NaN is black.
    """
    if picture.mode.startswith(("I", "F")):
        values = np.array(picture, dtype=np.float64)
        values[np.isnan(values)] = 0
        least = 65535.0 if picture.mode.startswith("I") else 1e-12
        top = float(values.max(initial=least, where=np.isfinite(values)))
        return Image.fromarray((255 * (values / top).clip(0, 1)).round().astype(np.uint8))
    if picture.has_transparency_data:
        below = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(below, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")
