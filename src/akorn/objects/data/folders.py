"""ImageNet and any other pictures: a picture, or a folder with pictures anywhere below it.

The parts of ImageNet are folders `train` and `val`, or `ILSVRC/Data/CLS-LOC` with them. Pictures beside folders of
parts are for training. This reader comes last: what no other knows, it takes or refuses.
"""

from __future__ import annotations

import logging
from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data.picture_files import ENDINGS, FileSet, find_pictures
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import ALIASES, SETS, DataSet

NAME = "imagenet"  # what plain pictures are called
SETS.register(NAME, DataSet(clusters=7, size=256))  # the paper has no clusters for it: COCO's pictures are as rich


@READERS.add("ImageNet, or any pictures")
def open_pictures(path: Path, asked: Asked) -> FileSet:
    """A picture, or the pictures of a folder; AkornError where there are none."""
    if path.is_file():
        if path.suffix.lower() not in ENDINGS:
            raise AkornError(f"{path} is of no known kind: expected {', '.join(READERS)}")
        return _set(path.parent, [path], asked)
    root = path
    for place in ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC"):
        if (path / place).is_dir():
            root = path / place
    parts = [alias for aliases in ALIASES.values() for alias in aliases if (root / alias).is_dir()]
    mine = [alias for alias in ALIASES[asked.split] if alias in parts]
    if mine:
        root = root / mine[0]
    elif parts:  # what lies beside the pictures of other parts is for training
        paths = find_pictures(root, asked.limit, parts) if asked.split == "train" else []
        said = ", ".join(sorted(parts))
        if not paths:
            raise AkornError(f"{path} has no split {asked.split!r}: found {said}; name the folder that is meant")
        logging.getLogger(__name__).warning("%s: its pictures are read without those in %s", path, said)
        return _set(root, paths, asked)
    paths = find_pictures(root, asked.limit)
    if not paths:
        raise AkornError(f"{root} holds nothing that can be read: expected {', '.join(READERS)}")
    return _set(root, paths, asked)


def _set(root: Path, paths: list[Path], asked: Asked) -> FileSet:
    return FileSet(root, paths, NAME, asked.size, asked.fit)
