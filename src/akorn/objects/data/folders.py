"""ImageNet and any other pictures: a picture, or a folder with pictures anywhere below it.

The parts of ImageNet are folders `train` and `val`, or `ILSVRC/Data/CLS-LOC` with them. Pictures beside folders of
parts are for training. This reader comes last: it reads or refuses what no other reader recognises.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data.picture_files import ENDINGS, FileSet, find_pictures
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import ALIASES, SETS, DataSet
from akorn.objects.data.voc import held_out

NAME = "imagenet"  # the name for plain pictures
SETS.register(
    NAME, DataSet(clusters=7, size=256)
)  # not in the paper: as many clusters as for COCO, whose pictures are similar


@READERS.add("ImageNet, or any pictures")
def open_pictures(path: Path, asked: Asked) -> FileSet:
    """A picture, or the pictures of a folder; AkornError if there are none."""
    if path.is_file():
        if path.suffix.lower() not in ENDINGS:
            raise AkornError(f"{path} is of an unknown kind: expected {', '.join(READERS)}")
        return _set(path.parent, [path], asked)
    root = path
    for place in ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC"):
        if (path / place).is_dir():
            root = path / place
    parts = [alias for aliases in ALIASES.values() for alias in aliases if (root / alias).is_dir()]
    mine = [alias for alias in ALIASES[asked.split] if alias in parts]
    if mine:
        root = root / mine[0]
    elif parts:  # pictures beside folders of other parts are for training
        paths = _find(root, asked, parts) if asked.split == "train" else []
        said = ", ".join(sorted(parts))
        if not paths:
            raise AkornError(f"{path} has no split {asked.split!r}: found {said}; name the folder to read")
        logging.getLogger(__name__).warning("%s: pictures in %s are not read", path, said)
        return _set(root, paths, asked)
    paths = _find(root, asked)
    if not paths:
        raise AkornError(f"{root} contains nothing that can be read: expected {', '.join(READERS)}")
    return _set(root, paths, asked)


def _find(root: Path, asked: Asked, but: Collection[str] = ()) -> list[Path]:
    """The pictures of a folder; those that VOC has for testing are left out of training, and one line says so."""
    if asked.split != "train":
        return find_pictures(root, asked.limit, but)
    testing = 0

    def names(folder: Path) -> Collection[str]:
        nonlocal testing
        found = held_out(folder)
        testing += (
            sum(path.stem in found and path.suffix.lower() in ENDINGS for path in folder.iterdir()) if found else 0
        )
        return found

    paths = find_pictures(root, asked.limit, but, names)
    if testing and not paths:
        raise AkornError(f"{root} has no pictures except those of VOC's val.txt, which are for testing")
    if testing:
        line = "%s: pictures left out, since VOC's val.txt keeps them for testing: %s"
        logging.getLogger(__name__).warning(line, root, f"{testing:,}")
    return paths


def _set(root: Path, paths: list[Path], asked: Asked) -> FileSet:
    return FileSet(root, paths, NAME, asked.size, asked.fit)
