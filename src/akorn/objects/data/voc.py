"""Pascal VOC 2012: `VOCdevkit/VOC2012` with JPEGImages, SegmentationObject, SegmentationClass and ImageSets.

Masks are PNGs with a palette whose numbers are the labels, where 255 marks borders that are ignored. The masks of
the official test set are not public: the paper tests on the 1,449 pictures of `val`, and so does our "test".
Training needs no masks and takes all other photographs; those of them that have masks, `train`, are also our "valid".
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from akorn.errors import AkornError
from akorn.objects.data.fitting import Fit
from akorn.objects.data.picture_files import FileSet, open_mask
from akorn.objects.data.picture_sets import IGNORE, Mask
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import SETS, DataSet, Split

SETS.register("voc", DataSet(clusters=4, size=256))

_SEAM = 255
_LISTS = "ImageSets/Segmentation"
_PLACES = ("", "VOC2012", "VOCdevkit/VOC2012")


class VOCSet(FileSet):
    """Pictures with the masks of their objects and of their classes (1 aeroplane to 20 television)."""

    turn = False

    def masks(self, index: int) -> tuple[Mask | None, Mask | None]:
        """Labels and classes. Pixels that either file ignores are ignored in both."""
        found = []
        for kind in ("SegmentationObject", "SegmentationClass"):
            path = self.root / kind / f"{self.paths[index].stem}.png"
            if not path.exists():
                raise AkornError(f"{path} does not exist: expected the masks of {self.paths[index].name}")
            found.append(open_mask(path))
        labels, classes = found
        if labels.shape != classes.shape:
            raise AkornError(
                f"{self.paths[index].stem}: the masks of objects are {list(labels.shape)}, but those of classes "
                f"{list(classes.shape)}"
            )
        ignored = (labels == _SEAM) | (classes == _SEAM)
        return np.where(ignored, np.int16(IGNORE), labels), np.where(ignored, np.int16(IGNORE), classes)


class Photographs(FileSet):
    """Pictures without masks, for training."""


def read_photographs(folder: Path, size: int | None = None, limit: int | None = None, fit: Fit = "crop") -> Photographs:
    """All photographs except those of `val`, for training without labels: 15,676 of the 17,125."""
    root = find_voc(folder)
    if root is None:
        raise AkornError(f"{folder} has no JPEGImages and SegmentationObject, as in VOCdevkit/VOC2012")
    if not (root / _LISTS / "val.txt").exists():
        raise AkornError(f"{root / _LISTS / 'val.txt'} does not exist: it names the photographs that are for testing")
    testing = set(_listed(folder, root, "test"))
    paths = sorted(path for path in (root / "JPEGImages").glob("*.jpg") if path.stem not in testing)
    if not paths:
        raise AkornError(f"{root / 'JPEGImages'} has no photographs except those of val.txt, which are for testing")
    return Photographs(root, paths[:limit], "voc", size, fit)


def held_out(folder: Path) -> frozenset[str]:
    """The names of VOC's pictures for testing if this is its folder JPEGImages, otherwise none."""
    real = Path(os.path.realpath(folder))
    if real.name != "JPEGImages" or not (real.parent / _LISTS / "val.txt").is_file():
        return frozenset()
    return frozenset(_listed(folder, real.parent, "test"))


def _listed(folder: Path, root: Path, split: Split) -> list[str]:
    """The names that ImageSets/Segmentation has for the split."""
    listing = root / _LISTS / _list_of(split)
    try:
        return listing.read_text(encoding="utf-8").split()
    except OSError:
        raise AkornError(f"{folder} has no split {split!r}: {listing} does not exist") from None
    except UnicodeDecodeError as error:
        raise AkornError(f"{listing} is not text, expected names of pictures in UTF-8 ({error})") from None


def _list_of(split: Split) -> str:
    return "val.txt" if split == "test" else "train.txt"


def find_voc(folder: Path) -> Path | None:
    """The folder that holds JPEGImages and SegmentationObject: this one or one of the usual places below it."""
    for place in _PLACES:
        if (folder / place / "JPEGImages").is_dir() and (folder / place / "SegmentationObject").is_dir():
            return folder / place
    return None


@READERS.add("VOC")
def open_voc(path: Path, asked: Asked) -> VOCSet | Photographs | None:
    """The pictures of a split, or all for training without labels; None if the folder does not have this layout."""
    if path.is_file() or find_voc(path) is None:
        return None
    if asked.split == "train" and not asked.labels:
        return read_photographs(path, asked.size, asked.limit, asked.fit)
    return read_voc(path, asked.split, asked.size, asked.limit, asked.fit)


def read_voc(
    folder: Path, split: Split = "train", size: int | None = None, limit: int | None = None, fit: Fit = "crop"
) -> VOCSet:
    """The pictures that ImageSets/Segmentation names for the split."""
    root = find_voc(folder)
    if root is None:
        raise AkornError(f"{folder} has no JPEGImages and SegmentationObject, as in VOCdevkit/VOC2012")
    names = _listed(folder, root, split)
    paths = [root / "JPEGImages" / f"{name}.jpg" for name in names[:limit]]
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None:
        raise AkornError(f"{missing} does not exist, but {_list_of(split)} names it")
    if not paths:
        raise AkornError(f"{folder} has no split {split!r}: {_list_of(split)} names no picture")
    return VOCSet(root, paths, "voc", size, fit)
