"""Folders of pictures as words of a command: each stands for the pictures in it. Torch-free."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""How the names of files end that are taken for pictures in a folder."""


def expand_folders(names: Iterable[str], without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names, each folder replaced by its pictures, sorted, those of folders within it not.

    A folder without pictures stays as it is, for whoever reads it to complain. without: endings of names that are not
    taken from folders, such as those of what a command has written there.
    """
    found: list[str] = []
    for name in names:
        inside = _pictures_in(Path(name), without) if os.path.isdir(name) else []
        found += inside or [name]
    return tuple(found)


def _pictures_in(folder: Path, without: tuple[str, ...]) -> list[str]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
    except OSError:
        return []
    return [str(path) for path in files if not path.name.startswith(".") and not path.name.endswith(without or ("\0",))]
