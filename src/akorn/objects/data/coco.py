"""COCO 2017: `annotations/instances_val2017.json` beside `val2017/`, and the same with train.

Pixels that several objects cover, or that belong to a crowd, are ignored. The paper tests on `val2017`, so both our
"test" and "valid" are that part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from akorn.errors import AkornError
from akorn.objects.data.fitting import Fit
from akorn.objects.data.picture_files import FileSet
from akorn.objects.data.picture_sets import IGNORE, Mask
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.regions import region
from akorn.objects.data.sets import SETS, DataSet, Split
from akorn.runtime.json_files import read_json
from akorn.runtime.pictures import MOST_PIXELS

SETS.register("coco", DataSet(clusters=7, size=256))

_MOST_CLASSES = int(np.iinfo(np.int16).max)  # masks are int16


class COCOSet(FileSet):
    """Pictures with the masks of their objects and of their classes (COCO's category numbers, 1 to 90)."""

    turn = False

    def __init__(
        self, root: Path, images: list[dict[str, Any]], annotations: list[dict[str, Any]], *, size: int | None, fit: Fit
    ) -> None:
        super().__init__(root, [root / image["file_name"] for image in images], "coco", size, fit)
        self.images = images
        self._annotations: dict[int, list[dict[str, Any]]] = {image["id"]: [] for image in images}
        for annotation in annotations:
            if annotation["image_id"] in self._annotations:
                self._annotations[annotation["image_id"]].append(annotation)

    def masks(self, index: int) -> tuple[Mask | None, Mask | None]:
        """Labels, numbered in the order of the annotations, and classes."""
        image = self.images[index]
        height, width = image["height"], image["width"]
        labels = np.zeros((height, width), dtype=np.int16)
        classes = np.zeros_like(labels)
        covered = np.zeros((height, width), dtype=np.int32)
        objects = 0
        for annotation in self._annotations[image["id"]]:
            where = f"{image['file_name']}, annotation {annotation.get('id')}"
            pixels = region(annotation["segmentation"], height, width, where)
            if annotation.get("iscrowd"):
                covered[pixels] += 2  # treated as if covered twice
                continue
            objects += 1
            labels[pixels] = objects
            classes[pixels] = annotation["category_id"]
            covered[pixels] += 1
        ignored = covered > 1
        labels[ignored] = classes[ignored] = IGNORE
        return labels, classes


def is_coco(folder: Path) -> bool:
    """Whether the usual file of instances exists."""
    return any((folder / "annotations").glob("instances_*.json"))


@READERS.add("COCO")
def open_coco(path: Path, asked: Asked) -> COCOSet | None:
    """The pictures of a split; None if the folder does not have this layout."""
    if path.is_file() or not is_coco(path):
        return None
    return read_coco(path, asked.split, asked.size, asked.limit, asked.fit)


def read_coco(
    folder: Path, split: Split = "train", size: int | None = None, limit: int | None = None, fit: Fit = "crop"
) -> COCOSet:
    """The pictures of train2017 or val2017, in the order of their numbers, including those without objects."""
    part = "train2017" if split == "train" else "val2017"
    path = folder / "annotations" / f"instances_{part}.json"
    if not path.exists():
        raise AkornError(f"{folder} has no split {split!r}: {path} does not exist")
    root = folder / part
    if not root.is_dir():
        root = folder / "images" / part
    try:
        content = read_json(path)
        images = sorted(content["images"], key=lambda image: image["id"])[:limit]
        for image in images:
            _check_image(image, path)
        wanted = ("image_id", "category_id", "segmentation")
        lacking = next((key for one in content["annotations"] for key in wanted if key not in one), None)
        if lacking is not None:
            raise KeyError(lacking)
        for annotation in content["annotations"]:
            _check_class(annotation, path)
        found = COCOSet(root, images, content["annotations"], size=size, fit=fit)
    except (KeyError, TypeError) as error:
        raise AkornError(f"{path} does not have the layout of COCO's instances ({error})") from None
    missing = next((path for path in found.paths if not path.exists()), None)
    if missing is not None:
        raise AkornError(f"{missing} does not exist, but the instances of {part} name it")
    return found


def _check_image(image: dict[str, Any], path: Path) -> None:
    """AkornError unless the image has a plausible size, since masks of that size are created."""
    if not isinstance(image["id"], int):
        raise TypeError("an image's id must be a whole number")
    name = image["file_name"]
    if not isinstance(name, str) or "\0" in name or Path(name).name != name:
        raise AkornError(
            f"{path}: image {image['id']} has the file_name {name!r:.80}, expected a name without a folder"
        )
    height, width = image["height"], image["width"]
    whole = all(isinstance(side, int) and not isinstance(side, bool) for side in (height, width))
    if not whole or min(height, width) < 1 or height * width > MOST_PIXELS:
        raise AkornError(
            f"{path}: image {image['id']} has height {height!r} and width {width!r}, expected whole numbers from 1,"
            f" of at most {MOST_PIXELS:,} pixels"
        )


def _check_class(annotation: dict[str, Any], path: Path) -> None:
    """AkornError unless its class can be stored in a mask, where 0 is the background and −1 is ignored."""
    number = annotation["category_id"]
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MOST_CLASSES:
        raise AkornError(
            f"{path}: annotation {annotation.get('id')} has the category_id {number!r}, expected a whole number from 1"
            f" to {_MOST_CLASSES}"
        )
