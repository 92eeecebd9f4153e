"""ImageNet and any other pictures: a picture, or a folder with pictures anywhere below it.

The parts of ImageNet are folders `train` and `val`, or `ILSVRC/Data/CLS-LOC` with them. Pictures beside folders of
parts are for training. This reader comes last: it reads or refuses what no other reader recognises.
"""

from __future__ import annotations

import logging
from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data.picture_files import ENDINGS, FileSet, find_pictures
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import ALIASES, SETS, DataSet

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
        paths = find_pictures(root, asked.limit, parts) if asked.split == "train" else []
        said = ", ".join(sorted(parts))
        if not paths:
            raise AkornError(f"{path} has no split {asked.split!r}: found {said}; name the folder to read")
        logging.getLogger(__name__).warning("%s: pictures in %s are not read", path, said)
        return _set(root, paths, asked)
    paths = find_pictures(root, asked.limit)
    if not paths:
        raise AkornError(f"{root} contains nothing that can be read: expected {', '.join(READERS)}")
    return _set(root, paths, asked)


def _set(root: Path, paths: list[Path], asked: Asked) -> FileSet:
    return FileSet(root, paths, NAME, asked.size, asked.fit)
