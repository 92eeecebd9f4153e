"""Pictures with their masks, as readers and generators return them and evaluations use them.

`Pictures` holds arrays. Sets whose pictures are read from files on access have the same interface, `PictureSet`.
Imports no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.errors import AkornError

Image = NDArray[np.uint8]
Mask = NDArray[np.int16]
Indices = Sequence[int] | NDArray[np.int64]

IGNORE, BACKGROUND = -1, 0


@dataclass(frozen=True)
class Picture:
    """One picture with its masks."""

    image: Image  # [1 or 3, H, W]
    labels: Mask | None = None  # [H, W]: −1 ignore, 0 background, 1.. objects
    classes: Mask | None = None  # [H, W]: −1 ignore, 0 background, 1.. classes


class PictureSet(Protocol):
    """An ordered set of pictures, in arrays or in files."""

    @property
    def name(self) -> str:
        """Which data set this is."""
        ...

    @property
    def clusters(self) -> int:
        """How many clusters the paper's tables use for it."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Picture: ...

    def image(self, index: int, /) -> Image:
        """A picture alone, [1 or 3, H, W]: training needs no masks."""
        ...

    def load(self, indices: Indices, /) -> Pictures:
        """These pictures as arrays."""
        ...

    def fingerprint(self) -> str:
        """Digest of the data: equal digests mean equal data."""
        ...


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size with their masks, in memory."""

    images: NDArray[np.uint8]  # [N, 1 or 3, H, W]
    labels: NDArray[np.int16] | None  # [N, H, W]: −1 ignore, 0 background, 1.. objects
    classes: NDArray[np.int16] | None  # [N, H, W]: −1 ignore, 0 background, 1.. classes; None if the set has none
    clusters: int  # how many the paper's tables use for this set
    name: str
    made: Mapping[str, Any] = field(default_factory=dict)  # how akorn rendered the pictures, if their file says so

    def __post_init__(self) -> None:
        images = self.images
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
            raise AkornError(
                f"{self.name}: the pictures are {images.dtype} {list(images.shape)}, expected bytes [N, 1 or 3, H, W]"
            )
        for what, masks in (("labels", self.labels), ("classes", self.classes)):
            if masks is None:
                continue
            if masks.dtype != np.int16:
                raise AkornError(f"{self.name}: the {what} are {masks.dtype}, expected int16")
            if masks.shape != (len(images), *images.shape[2:]):
                raise AkornError(
                    f"{self.name}: the {what} are {list(masks.shape)}, the pictures {list(images.shape)}: "
                    f"expected a mask [H, W] for each picture"
                )
            if masks.min() < IGNORE:
                raise AkornError(f"{self.name}: {what} of {masks.min()}, expected −1 (ignore), 0 (background) or more")
        if self.clusters < 1:
            raise AkornError(f"{self.name}: clusters is {self.clusters}, expected at least 1")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Picture:
        return Picture(self.images[index], _at(self.labels, index), _at(self.classes, index))

    def image(self, index: int) -> Image:
        """A picture alone, [1 or 3, H, W]."""
        return self.images[index]

    def load(self, indices: Indices) -> Pictures:
        """These pictures, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        return Pictures(
            self.images[chosen], _at(self.labels, chosen), _at(self.classes, chosen), self.clusters, self.name
        )

    def fingerprint(self) -> str:
        """SHA-256 of the arrays with their shapes."""
        digest = hashlib.sha256()
        for array in (self.images, self.labels, self.classes):
            digest.update(repr(None if array is None else (array.dtype.str, array.shape)).encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def stack(pictures: Sequence[Picture], clusters: int, name: str) -> Pictures:
    """Pictures of one size, as arrays; AkornError if they differ."""
    shapes = {picture.image.shape for picture in pictures}
    if len(shapes) != 1:
        said = " and ".join(str(list(shape)) for shape in sorted(shapes)[:2]) or "none"
        raise AkornError(
            f"{name}: pictures of different sizes ({said}) do not fit into one array; set a size to resize to"
        )
    return Pictures(
        np.stack([picture.image for picture in pictures]),
        _stack([picture.labels for picture in pictures]),
        _stack([picture.classes for picture in pictures]),
        clusters,
        name,
    )


def as_labels(values: ArrayLike, where: str) -> Mask:
    """Whole numbers as int16; AkornError for other numbers or too large ones."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype.kind == "f" and (array == np.rint(array)).all():  # NaN is not equal to itself, so it is refused
        array = array.astype(np.float64)
    elif array.dtype.kind not in "iu":
        raise AkornError(f"{where}: labels are {array.dtype}, expected whole numbers")
    if array.size and (array.min() < IGNORE or array.max() >= 2**15):
        raise AkornError(f"{where}: labels from {array.min()} to {array.max()}, expected −1 to {2**15 - 1}")
    return array.astype(np.int16)


def count_clusters(labels: Mask | None, default: int) -> int:
    """The number of clusters as in the paper's tables: the largest number of objects in a picture, plus the background.

    The numbers of the labels do not matter: 60, 120 and 180 are three objects.
    """
    if labels is None:
        return default
    objects = (int(np.count_nonzero(np.bincount(mask.clip(0).ravel())[1:])) for mask in labels)
    return max(1, max(objects)) + 1


def _at(masks: Mask | None, index: int | NDArray[np.int64]) -> Mask | None:
    return None if masks is None else masks[index]


def _stack(masks: Sequence[Mask | None]) -> Mask | None:
    known = [mask for mask in masks if mask is not None]
    return np.stack(known) if len(known) == len(masks) else None
