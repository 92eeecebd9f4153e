"""Picture files that a user brings, opened whole or refused in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from akorn.errors import AkornError

MOST_PIXELS = 2**26


def open_picture(path: str | Path) -> Image.Image:
    """A picture in its own mode, whole in memory; AkornError where the file is none, is damaged or too large."""
    try:
        with Image.open(path) as file:
            if file.width * file.height > MOST_PIXELS:
                raise AkornError(f"{path}: {file.width} × {file.height} pixels, expected at most {MOST_PIXELS:,}")
            file.load()
            return ImageOps.exif_transpose(file)  # a phone lays the sensor's rows down and notes how it was held
    except AkornError:
        raise
    except FileNotFoundError:
        raise AkornError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise AkornError(f"{path}: is a folder, expected a picture") from None
    except UnidentifiedImageError:
        raise AkornError(f"{path}: not a picture that can be read, expected PNG, JPEG or the like") from None
    except Exception as error:  # damaged files fail in Pillow and its codecs, each in its own way
        raise AkornError(f"{path}: cannot be read as a picture ({error})") from None


def flatten(picture: Image.Image) -> Image.Image:
    """The picture in 8 bits, grey or RGB, without transparency: what is transparent lies on white."""
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture, dtype=np.float64)
        top = 65535.0 if picture.mode.startswith("I") else max(float(values.max(initial=0.0)), 1e-12)
        return Image.fromarray((255 * (values / top).clip(0, 1)).round().astype(np.uint8))
    if picture.has_transparency_data:
        below = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(below, picture.convert("RGBA")).convert("RGB")
    return picture.convert("RGB")
