"""Folders of pictures as command-line arguments: each stands for the pictures in it. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

FORMATS = (
    "AVIF", "BMP", "DDS", "DIB", "GIF", "ICNS", "ICO", "JPEG", "JPEG2000", "MPO", "PCX", "PNG", "PPM", "PSD", "QOI",
    "SGI", "SUN", "TGA", "TIFF", "WEBP",
)  # fmt: skip
"""Pillow's formats that count as pictures in a folder: no documents, drawings by lines, videos or measurements."""


@cache
def endings() -> frozenset[str]:
    """Suffixes, in small letters, of the files in a folder that count as pictures: those that this Pillow reads."""
    from PIL import Image

    known = Image.registered_extensions().items()
    return frozenset(ending for ending, kind in known if kind in FORMATS and kind in Image.OPEN)


def expand_folders(names: Iterable[str], without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names, with each folder replaced by its pictures, sorted, without those in subfolders.

    A folder without pictures stays in the list, and links in a folder that lead nowhere count as pictures, so that
    their reader can report them. without: suffixes of names that are skipped in folders, such as those of files that a
    command has written there.
    """
    found: list[str] = []
    for name in names:
        inside = _pictures_in(Path(name), without) if os.path.isdir(name) else []
        found += inside or [name]
    return tuple(found)


def _pictures_in(folder: Path, without: tuple[str, ...]) -> list[str]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in endings())
        files = [path for path in paths if path.is_file() or (path.is_symlink() and not path.exists())]
    except OSError:
        return []
    return [str(path) for path in files if not path.name.startswith(".") and not path.name.endswith(without or ("\0",))]
