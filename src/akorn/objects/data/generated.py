"""Data sets that need no download: the same for the same seed, however they are split into pieces.

Pictures come in blocks of 256, each with its own random generator, seeded by set, split, seed and number of the block.
So any range can be generated alone, and splits are endless and share nothing. Imports no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from akorn.errors import AkornError
from akorn.objects.data.picture_sets import Image, Mask, Pictures
from akorn.objects.data.sets import GENERATED, SETS, SPLITS, DataSet, Split, Wanted, check_split
from akorn.runtime.devices import machine_memory

Progress = Callable[[int, int], None]

BLOCK = 256
_SHARE = 0.75  # share of the machine's memory for pictures


def default_count(name: str, split: Split) -> int:
    """How many pictures a split of a generated set has in the paper."""
    about = _generated(name)
    assert about.counts is not None
    return about.counts[SPLITS.index(split)]


def generate(
    name: str,
    split: Split = "train",
    count: int | None = None,
    seed: int = 0,
    *,
    start: int = 0,
    labels: bool = True,
    progress: Progress | None = None,
    device: str = "auto",
    samples: int | None = None,
) -> Pictures:
    """Pictures `start` to `start + count` of a split of a generated set (`GENERATED`).

    count: by default the paper's number; more are possible, as long as they fit into memory. labels: whether to make
    masks, which training does not need. `progress(done, count)` is called after each block. device, samples: where
    scenes are rendered, and with how many rays per pixel.
    """
    about = _generated(name)
    check_split(split)
    if count is None:
        count = default_count(name, split)
    if count < 1 or start < 0:
        raise AkornError(f"the number of pictures must be at least 1 and the first at least 0, got {count} and {start}")
    check_memory(name, count, labels=labels)
    if about.render is not None:
        pictures, found = about.render(Wanted(split, seed, start, count, labels, progress, device, samples))
        return Pictures(pictures, found, None, about.clusters, name)
    try:
        images = np.empty((count, about.channels, about.size, about.size), dtype=np.uint8)
        masks = np.empty((count, about.size, about.size), dtype=np.int16) if labels else None
    except (MemoryError, ValueError) as error:  # more than the system provides, or than an array can hold
        raise AkornError(f"{count:,} pictures of {name} do not fit into memory: ask for fewer") from error
    stop = start + count
    for number in range(start // BLOCK, -(-stop // BLOCK)):
        # A block is always generated whole, so that its pictures do not depend on how many are wanted.
        drawn, marked = _block(name, split, seed, number)
        low, high = max(start, number * BLOCK), min(stop, (number + 1) * BLOCK)
        there, here = slice(low - start, high - start), slice(low - number * BLOCK, high - number * BLOCK)
        images[there] = drawn[here]
        if masks is not None:
            masks[there] = marked[here]
        if progress is not None:
            progress(high - start, count)
    return Pictures(images, masks, None, about.clusters, name)


def check_memory(name: str, count: int, size: int | None = None, *, labels: bool = True) -> None:
    """AkornError if this many generated pictures, and their copies of side `size`, do not fit into memory.

    Without this check the system grants arrays of any size and fails when they fill.
    """
    about = _generated(name)
    sides = {about.size, about.size if size is None else size}
    needed = count * sum(side**2 for side in sides) * (about.channels + (2 if labels else 0))
    memory = machine_memory()
    if needed > _SHARE * memory:
        raise AkornError(
            f"{count:,} pictures of {name} need {needed // 10**9:,} GB, more than three quarters of the memory"
            f" ({memory / 1e9:.0f} GB): ask for fewer"
        )


def _generated(name: str) -> DataSet:
    """The registered facts about a generated set; AkornError if there is no such set."""
    if name not in GENERATED:
        raise AkornError(f"{name!r} cannot be generated, expected one of {', '.join(GENERATED)}")
    return SETS[name]


def _block(name: str, split: Split, seed: int, number: int) -> tuple[Image, Mask]:
    """One block of pictures and labels; ValueError if their shapes are not the registered ones."""
    about = SETS[name]
    assert about.draw is not None
    pictures, labels = about.draw(_generator(name, split, seed, number), BLOCK)
    expected = (BLOCK, about.channels, about.size, about.size)
    if pictures.shape != expected or labels.shape != (BLOCK, *expected[2:]):
        raise ValueError(
            f"{name} draws pictures {list(pictures.shape)} and labels {list(labels.shape)}, but is registered with"
            f" {list(expected)} and {[BLOCK, *expected[2:]]}"
        )
    return pictures, labels


def _generator(name: str, split: Split, seed: int, number: int) -> np.random.Generator:
    digest = hashlib.sha256(f"akorn {name} {split} {seed} {number}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
