"""One picture from a file in the form that a model expects, with a note on what was changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from akorn.errors import AkornError
from akorn.runtime.pictures import flatten, is_first_of_several, open_within

MOST_PIXELS = 2**26
"""Pixels of a picture and its mask: more than cameras have. Larger pictures are reduced, to stay within 1.5 GB."""


@dataclass(frozen=True)
class Read:
    """A picture from a file."""

    pixels: Tensor  # bytes [1 or 3, S, S], as the model expects it
    original: NDArray[np.uint8]  # [1 or 3, H, W], in its own size; a view of rows of pixels
    changes: tuple[str, ...]
    """What was changed, in words."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the picture, and of its mask."""
        return self.original.shape[1], self.original.shape[2]


def read_picture(path: str | Path, side: int, channels: int, *, resize: bool = True) -> Read:
    """A picture file as side × side pixels of 1 or 3 channels.

    Other proportions are stretched, so that the whole picture gets a mask. With resize=False a picture of another
    size is refused. Grey and colour are converted into each other as the model needs.
    """
    picture, (height, width) = open_within(path, MOST_PIXELS)
    changes = ["only the first of its frames or pages was read"] if is_first_of_several(path) else []
    if (picture.height, picture.width) != (height, width):
        changes.append(f"reduced from {width} × {height} to {picture.width} × {picture.height}, like its mask")
    mode = "L" if channels == 1 else "RGB"
    if picture.mode != mode:
        if not (picture.mode == "P" and channels == 3):  # a palette is only another way to store colours
            changes.append(f"converted from {picture.mode} to {'grey' if channels == 1 else 'RGB'}")
        picture = flatten(picture).convert(mode)
    original = _array(picture)
    if picture.size != (side, side):
        size = f"{picture.width} × {picture.height}"
        if not resize:
            raise AkornError(f"{path}: {size} pixels, expected {side} × {side} (because of --no-resize)")
        changes.append(f"resized from {size} to {side} × {side}")
        picture = picture.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return Read(torch.from_numpy(np.ascontiguousarray(_array(picture))), original, tuple(changes))


def _array(picture: Image.Image) -> NDArray[np.uint8]:
    """Bytes [1 or 3, H, W]."""
    array = np.array(picture, dtype=np.uint8)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
