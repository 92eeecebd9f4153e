"""Names of the files that `akorn segment` writes for each picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from akorn.errors import AkornError


def output_prefixes(images: Sequence[str]) -> dict[str, str]:
    """How the names of each picture's files begin: with its stem, and its suffix if that tells pictures apart."""
    stems = Counter(Path(name).stem for name in images)
    suffixes: dict[str, set[str]] = {}
    for name in images:
        # Only pictures claim names: photo.json beside photo.png is no conflict.
        if stems[Path(name).stem] > 1 and _is_picture(name):
            suffixes.setdefault(Path(name).stem, set()).add(Path(name).suffix)
    several = {stem for stem, found in suffixes.items() if len(found) > 1}
    paths = [(name, Path(name)) for name in images]
    return {name: path.stem + (path.suffix.replace(".", "-") if path.stem in several else "") for name, path in paths}


def _is_picture(name: str) -> bool:
    from akorn.runtime.pictures import picture_size  # Pillow is not needed for --help

    try:
        picture_size(name)
    except AkornError:
        return False
    return True
