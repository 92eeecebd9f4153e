"""Folders of pictures as command-line arguments: each stands for the pictures in it. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Suffixes of the files in a folder that count as pictures."""


def expand_folders(names: Iterable[str], without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names, with each folder replaced by its pictures, sorted, without those in subfolders.

    A folder without pictures stays in the list, so that its reader can report it. without: suffixes of names that are
    skipped in folders, such as those of files that a command has written there.
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
