"""The multi-object benchmark's TFRecord files: Tetrominoes, Multi-dSprites and CLEVR with masks.

`tetrominoes_train.tfrecords`, `multi_dsprites_colored_on_grayscale.tfrecords` and `clevr_with_masks_train.tfrecords`
are their usual names; the sizes of a file's records show which set it holds. Crops and splits are those of the paper's
experiments: the first 64 pictures are set aside, then come 320 for testing, 10,000 for validation and 60,000 for
training, or as many as there are. CLEVR's scenes with more than six objects are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.objects.data.fitting import fitted
from akorn.objects.data.picture_sets import Image, Mask, Pictures
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.scenes import rendered
from akorn.objects.data.sets import SETS, DataSet, Split
from akorn.objects.data.tfrecord import Example, records

# Fewer for training if the file has no more.
SETS.register("clevr", DataSet(clusters=11, size=128, counts=(60_000, 10_000, 320), render=rendered("clevr")))

ENDINGS = (".tfrecords", ".tfrecord")
_SHARD = re.compile(r"\.tfrecords?(-\d+-of-\d+)?$")
# split → its first picture and the largest number of pictures
STRETCHES: Mapping[Split, tuple[int, int]] = {"test": (64, 320), "valid": (384, 10_000), "train": (10_384, 60_000)}


@dataclass(frozen=True)
class _Kind:
    """How a set's records are laid out, and which part of its pictures is used."""

    name: str
    height: int
    width: int
    entities: int  # masks per picture, the background first
    channels: int = 3
    entities_last: bool = False  # masks are [H, W, entities] rather than [entities, H, W]
    corner: tuple[int, int] = (0, 0)  # row and column of the first pixel that is used
    side: int = 64  # the side of the square that is used
    most: int | None = None  # objects in a scene; scenes with more are left out

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of a picture and of its masks."""
        pixels = self.height * self.width
        return pixels * self.channels, pixels * self.entities


_KINDS = {
    kind.sizes: kind
    for kind in (
        _Kind("tetrominoes", 35, 35, 4, corner=(1, 1), side=32),
        _Kind("dsprites", 64, 64, 6, entities_last=True),  # coloured on greyscale
        _Kind("dsprites", 64, 64, 5, entities_last=True),  # coloured on coloured
        _Kind("dsprites", 64, 64, 4, channels=1, entities_last=True),  # binarised
        _Kind("clevr", 240, 320, 11, corner=(29, 64), side=192, most=6),
    )
}


def is_shard(path: Path) -> bool:
    """Whether a file's name is that of a TFRecord file."""
    return _SHARD.search(path.name) is not None


@READERS.add("TFRecord files")
def open_multiobject(path: Path, asked: Asked) -> Pictures | None:
    """The content of a file, or of its shards in a folder; None if there are none."""
    shards = sorted(file for file in path.iterdir() if file.is_file() and is_shard(file)) if path.is_dir() else [path]
    if not shards or not is_shard(shards[0]):
        return None
    sets = {file.name.partition(".tfrecord")[0] for file in shards}
    if len(sets) > 1:
        raise AkornError(f"{path} has TFRecord files of several sets ({', '.join(sorted(sets))}): name one of them")
    found = read_multiobject(shards, asked.split, asked.limit, asked.labels)
    return found if asked.size is None else fitted(found, asked.size, asked.fit)


def read_multiobject(
    files: Sequence[Path],
    split: Split = "train",
    limit: int | None = None,
    labels: bool = True,
    stretches: Mapping[Split, tuple[int, int]] = STRETCHES,
) -> Pictures:
    """The pictures of a split, from one file or from the shards of one."""
    first, count = stretches[split]
    count = count if limit is None else min(count, limit)
    images: Image | None = None
    masks: Mask | None = None
    found, seen, kind = 0, 0, None
    for example in _examples(files):
        kind = kind or _kind(example)
        if kind.most is not None and _objects(example) > kind.most:
            continue
        seen += 1
        if seen <= first:
            continue
        image, mask = _picture(example, kind)
        if images is None or masks is None:  # memory is used only when it is first written
            images = np.empty((count, *image.shape), dtype=np.uint8)
            masks = np.empty((count if labels else 1, *mask.shape), dtype=np.int16)
        images[found] = image
        if labels:
            masks[found] = mask
        found += 1
        if found == count:
            break
    if kind is None or images is None or masks is None:
        raise AkornError(
            f"{files[0]} has no split {split!r}: it has {seen} usable pictures, and the split begins after {first}"
        )
    return Pictures(images[:found], masks[:found] if labels else None, None, SETS[kind.name].clusters, kind.name)


def _examples(files: Sequence[Path]) -> Iterator[Example]:
    for number, message in enumerate(records(files)):
        yield Example(message, f"{files[0]}, record {number}")


def _kind(example: Example) -> _Kind:
    sizes = len(example.bytes("image")), len(example.bytes("mask"))
    if sizes not in _KINDS:
        raise AkornError(
            f"{example.where}: a picture of {sizes[0]} bytes with masks of {sizes[1]}: "
            "this is neither Tetrominoes nor Multi-dSprites nor CLEVR with masks"
        )
    return _KINDS[sizes]


def _objects(example: Example) -> int:
    """How many objects a scene has, the background not counted."""
    return int((example.integers_or_floats("visibility") > 0).sum()) - 1


def _picture(example: Example, kind: _Kind) -> tuple[Image, Mask]:
    """The cropped picture [channels, H, W] and its labels [H, W]."""
    image, masks = example.bytes("image"), example.bytes("mask")
    if (len(image), len(masks)) != kind.sizes:
        raise AkornError(
            f"{example.where}: a picture of {len(image)} bytes with masks of {len(masks)}, "
            f"the first one has {kind.sizes[0]} and {kind.sizes[1]}"
        )
    pixels = image.reshape(kind.height, kind.width, kind.channels).transpose(2, 0, 1)
    shape = (kind.height, kind.width)
    if kind.entities_last:
        planes = masks.reshape(*shape, kind.entities).transpose(2, 0, 1)
    else:
        planes = masks.reshape(kind.entities, *shape)
    places = _nearest(kind.side, SETS[kind.name].size)
    rows, columns = kind.corner[0] + places[:, None], kind.corner[1] + places
    return pixels[:, rows, columns], planes[:, rows, columns].argmax(0).astype(np.int16)


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """For each of `new` pixels, the old one under its middle."""
    return ((np.arange(new) + 0.5) * old / new).astype(np.int64)
