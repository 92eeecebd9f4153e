"""CIFAR-10's validation pictures: a tenth of its training pictures, always the same, equally many from each class.

In every class, the pictures whose bytes have the smallest SHA-256 are held out: 500 of its 5,000, so 5,000 of all
50,000. That is as good as a random draw, needs no seed, and does not depend on any library or on the order of the
files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from akorn.robustness.data.cifar import load_cifar10
from akorn.robustness.data.labelled_pictures import Pictures

Split = Literal["all", "train", "valid", "test"]
SHARE = 10
"""One in this many training pictures is held out."""


def load_split(folder: str | Path, split: Split) -> Pictures:
    """CIFAR-10's "test" pictures, "all" its 50,000 training pictures, or one part of these: 45,000 "train", 5,000
    "valid".

    folder: as `load_cifar10` takes it. The pictures stay in the order of the files.
    """
    if split not in get_args(Split):
        raise ValueError(f"split must be one of {', '.join(get_args(Split))}, got {split!r}")
    if split == "test":
        return load_cifar10(folder, "test")
    pictures = load_cifar10(folder, "train")
    if split == "all":
        return pictures
    out = held_out(pictures)
    return pictures.take((out if split == "valid" else ~out).nonzero().flatten())


def held_out(pictures: Pictures) -> Tensor:
    """Which of the training pictures are for validation, bool [B]; at least one from every class of two or more."""
    digests = [hashlib.sha256(picture.tobytes()).digest() for picture in pictures.images.cpu().numpy()]
    labels = pictures.labels.tolist()
    out = torch.zeros(len(pictures), dtype=torch.bool)
    for label in set(labels):
        of_class = sorted((digest, place) for place, digest in enumerate(digests) if labels[place] == label)
        count = max(len(of_class) // SHARE, 1) if len(of_class) > 1 else 0
        out[[place for _, place in of_class[:count]]] = True
    return out
