"""Packs of pictures (`akorn data pack`): one file, its parts, or a folder of several packs, as one set.

Pictures are decoded on access; in training that happens once, since they are then kept on the device as bytes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from akorn.errors import AkornError
from akorn.objects.data.fitting import Fit, fit_image
from akorn.objects.data.picture_files import FileSet
from akorn.objects.data.picture_sets import Image, Mask
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import SETS, DataSet
from akorn.runtime.packs import SUFFIX, Pack, parts_of

# Photographs for pre-training (recipes photos_…), scored on VOC: 64 pixels in patches of 4 are the paper's 16 × 16.
SETS.register("photos", DataSet(clusters=4, size=64))

_PLAIN = "imagenet"  # the name for plain pictures


class PackSet(FileSet):
    """The pictures of one or several packs, with their masks if all packs have them."""

    turn = False

    def __init__(
        self, root: Path, packs: Sequence[Pack], size: int | None = None, limit: int | None = None, fit: Fit = "crop"
    ) -> None:
        self.packs = list(packs)
        names = {pack.facts.name for pack in packs}
        name = names.pop() if len(names) == 1 else _PLAIN
        paths = [Path(name) for pack in packs for name in pack.names][:limit]
        side = max(pack.facts.size for pack in packs) if size is None else size
        super().__init__(root, paths, name if name in SETS else _PLAIN, side, fit)
        self._ends = list(accumulate(len(pack) for pack in packs))

    @property
    def split(self) -> str:
        """Which part of the data set was packed."""
        return self.packs[0].facts.split

    def _find(self, index: int) -> tuple[Pack, int]:
        which = bisect_right(self._ends, index)
        return self.packs[which], index - (self._ends[which - 1] if which else 0)

    def _read(self, index: int) -> tuple[Image, tuple[int, int]]:
        pack, place = self._find(index)
        image = pack.picture(place).convert("RGB")
        box = self._box(image.height, image.width, f"{pack.path}, {pack.names[place]}")
        pixels = np.asarray(fit_image(image, self.size, box))
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)), (image.height, image.width)

    def masks(self, index: int) -> tuple[Mask | None, Mask | None]:
        """Labels and classes of a picture, if its pack has them."""
        pack, place = self._find(index)
        return pack.mask("labels", place), pack.mask("classes", place)

    def _size_of(self, path: Path) -> tuple[int, int]:
        """All pictures of a pack have its size; `look` needs no more than that."""
        side = self.packs[0].facts.size
        return side, side

    def fingerprint(self) -> str:
        """SHA-256 of the pictures and masks, and of the target size."""
        digest = hashlib.sha256(f"{self.name} {self.size} {self.fit} {len(self)}".encode())
        for pack in self.packs:
            digest.update(pack.digest().encode())
        return digest.hexdigest()


@READERS.add("packs")
def open_packs(path: Path, asked: Asked) -> PackSet | None:
    """The pictures of a pack, or of all packs in a folder; None if there are none."""
    if path.is_file():
        files = parts_of(path) if path.suffix == SUFFIX else []
    else:
        # A hidden one is the unfinished file of a command that was killed.
        files = sorted(file for file in path.glob(f"*{SUFFIX}") if not file.name.startswith("."))
        for file in files:
            parts_of(file)  # reports a part that is missing
    if not files:
        return None
    packs = [Pack(file) for file in files]
    other = next((pack for pack in packs if pack.facts.split != "train"), None)
    if other is not None and asked.split == "train" and not asked.labels:
        # Pictures for testing must not be trained on by mistake.
        raise AkornError(f"{other.path}: a pack of the part {other.facts.split!r}, expected training pictures")
    if asked.split == "valid":
        other = next((pack for pack in packs if pack.facts.split == "test"), None)
        if other is not None:  # nothing is chosen on pictures for testing
            raise AkornError(f"{other.path}: a pack of the part 'test', expected pictures for validation")
    return PackSet(path.parent if path.is_file() else path, packs, asked.size, asked.limit, asked.fit)
