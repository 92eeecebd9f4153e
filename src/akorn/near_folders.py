"""Model folders with a path similar to one that does not exist, for "did you mean". Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from akorn.settings import CONFIG_FILE

_LOOKED_AT = 2000
"""The largest number of files and folders to look at: a hint is not worth a long search."""


def near_folders(path: Path, count: int = 3) -> list[str]:
    """Up to `count` existing model folders that `path` may have meant, the most similar first."""
    ancestor = next((parent for parent in path.parents if os.path.isdir(parent)), None)
    if ancestor is None:
        return []
    wanted = path.relative_to(ancestor)
    found: dict[str, str] = {}  # what is compared → the folder
    for folder in _models_below(ancestor, depth=len(wanted.parts) + 1):
        name = folder.relative_to(ancestor)
        found[str(name)] = str(folder)
        if name.name == "model":  # runs/x is often written for runs/x/model
            found.setdefault(str(name.parent), str(folder))
    near = get_close_matches(str(wanted), found, n=2 * count, cutoff=0.7)
    return list(dict.fromkeys(found[name] for name in near))[:count]


def _models_below(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a model's config, at most `depth` levels below, upper levels first."""
    level, left = [folder], _LOOKED_AT
    for _ in range(depth):
        below: list[Path] = []
        for parent in level:
            for child in _folders_in(parent, left):
                below.append(child)
                if (child / CONFIG_FILE).is_file():
                    yield child
            left = _LOOKED_AT - len(below)
            if left <= 0:
                return
        level = below


def _folders_in(folder: Path, count: int) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            some = [entry for entry, _ in zip(entries, range(max(count, 0)), strict=False)]
        return sorted(folder / entry.name for entry in some if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []
