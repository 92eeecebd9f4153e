"""The paper's data sets in numbers: how many clusters its tables use, picture sizes, how many pictures a split has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from akorn.errors import AkornError

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

# What folders and files call the splits, in the order in which they are looked for.
ALIASES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation"),
    "test": ("test",),
}


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper's tables of settings (appendix)."""

    clusters: int  # "#clusters set for eval"
    size: int  # "image size": the side of a picture
    channels: int = 3
    counts: tuple[int, int, int] | None = None  # pictures to train on, to validate with, to test on


SETS: Mapping[str, DataSet] = {
    "shapes": DataSet(5, 40, 1, (40_000, 1_000, 1_000)),
    "tetrominoes": DataSet(4, 32, 3, (60_000, 10_000, 320)),
    "dsprites": DataSet(7, 64, 3, (60_000, 10_000, 320)),
    "clevr": DataSet(11, 128, 3, (60_000, 10_000, 320)),  # fewer to train on, where the file has no more
    "clevrtex": DataSet(11, 128),
    "clevrtex-ood": DataSet(11, 128),
    "clevrtex-camo": DataSet(11, 128),
    "voc": DataSet(4, 256),
    "coco": DataSet(7, 256),
    "imagenet": DataSet(7, 256),  # the paper has no number for it; COCO's, whose pictures are as rich
}
GENERATED = ("shapes", "tetrominoes", "dsprites")


def check_split(split: str) -> Split:
    """The split, if it is one."""
    for known in SPLITS:
        if split == known:
            return known
    raise AkornError(f"split is {split!r}, expected {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")


def check_limit(limit: int | None) -> None:
    """AkornError unless this can be a number of pictures to stop after."""
    if limit is not None and limit < 1:
        raise AkornError(f"the number of pictures must be at least 1, got {limit}")
