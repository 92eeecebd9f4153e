"""CIFAR-10-C from its `.npy` files: one file per corruption, the test set at severity 1, then at 2, and so on to 5.

A folder that `akorn data make cifar10-c` wrote has a README.json beside them: it may hold fewer pictures, severities or
corruptions, and figures from it are ours, not those of the published set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from akorn.errors import AkornError
from akorn.robustness.config import CLASSES
from akorn.robustness.corruptions.constants import ALL, COMMON, README, check_name, check_severity
from akorn.robustness.corruptions.frost_pictures import PROCEDURAL
from akorn.robustness.data.labelled_pictures import Pictures
from akorn.runtime.json_files import read_object


@dataclass(frozen=True)
class CorruptedSet:
    """What a folder in CIFAR-10-C's layout holds at one severity."""

    folder: Path
    severity: int
    names: tuple[str, ...]
    """The corruptions that are there, of the 15 and the 4 extra ones, in the usual order; at least one."""
    missing: tuple[str, ...]
    """Those of the 15 that are not there."""
    pictures: int
    """How many pictures each corruption has."""
    ours: bool
    """Whether `akorn data make cifar10-c` wrote them: figures on them are ours, not CIFAR-10-C's."""
    frost: str | None = None
    """What its frost was made of, if we made it."""
    split: str = "test"
    """Which pictures of CIFAR-10 they were made from: "test" or "valid"."""

    @property
    def common(self) -> tuple[str, ...]:
        """Those of the 15 that are there: a mean over them is CIFAR-10-C's only if the set is complete."""
        return tuple(name for name in self.names if name in COMMON)

    @property
    def complete(self) -> bool:
        """Whether all 15 that CIFAR-10-C's mean is taken over are there."""
        return not self.missing

    def load(self, corruption: str) -> Pictures:
        """The pictures of one corruption, with their labels."""
        return load_cifar10c(self.folder, corruption, self.severity)


def find_cifar10c(folder: str | Path, severity: int) -> CorruptedSet:
    """Which corruptions a folder holds at a severity (1 to 5); no picture is read.

    AkornError unless there is at least one, and all that are there can be loaded.
    """
    folder = Path(folder)
    check_severity(severity)
    _check_folder(folder)
    names = tuple(stored_corruptions(folder))
    if not names:
        raise AkornError(f"{folder} has no corruption, expected NAME.npy of at least one of {', '.join(ALL)}")
    counts = [len(_open(folder, name, severity)[1]) for name in names]  # all the same, since they share their labels
    missing = tuple(name for name in COMMON if name not in names)
    ours = made_by_us(folder)
    frost = _frost(folder) if ours and "frost" in names else None
    return CorruptedSet(folder, severity, names, missing, counts[0], ours, frost, _split(folder))


def load_cifar10c(folder: str | Path, corruption: str, severity: int) -> Pictures:
    """The pictures of one corruption at one severity (1 to 5), with their labels.

    Only that part of the file is read. AkornError if a file is missing, cut short, or of another shape.
    """
    images, answers = _open(Path(folder), corruption, severity)
    pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2))  # [B, 3, 32, 32]
    return Pictures(torch.from_numpy(pixels), torch.from_numpy(answers), CLASSES)


def _open(folder: Path, corruption: str, severity: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pictures [B, 32, 32, 3], still in their file, and labels [B] of one corruption at one severity."""
    check_name(corruption)
    check_severity(severity)
    _check_folder(folder)
    images, labels = _load(folder / f"{corruption}.npy"), _load(folder / "labels.npy")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (32, 32, 3):
        raise AkornError(
            f"{folder / f'{corruption}.npy'} is {images.dtype} {list(images.shape)}, "
            "expected bytes (uint8) [pictures, 32, 32, 3]"
        )
    severities = stored_severities(folder)
    if severity not in severities:
        raise AkornError(f"{folder} has severities {', '.join(map(str, severities))}, not {severity}")
    if len(images) == 0 or len(images) % len(severities):
        raise AkornError(
            f"{folder / f'{corruption}.npy'} has {len(images)} pictures, "
            f"expected equally many at each of {len(severities)} severities"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(images):
        raise AkornError(
            f"{folder / 'labels.npy'} is {labels.dtype} {list(labels.shape)}, expected {len(images)} whole numbers"
        )
    count = len(images) // len(severities)
    start = severities.index(severity) * count
    answers = np.array(labels[start : start + count]).astype(np.int64)
    if answers.min() < 0 or answers.max() > 9:
        wrong = answers[(answers < 0) | (answers > 9)][0]
        raise AkornError(f"{folder / 'labels.npy'}: a label is {wrong}, expected 0 to 9")
    return images[start : start + count], answers


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        wrong = "is not a folder" if folder.exists() else "does not exist"
        raise AkornError(f"{folder} {wrong}: expected the folder of CIFAR-10-C, with fog.npy and labels.npy")


def stored_corruptions(folder: str | Path) -> list[str]:
    """The corruptions whose files are there, in the usual order."""
    return [name for name in ALL if (Path(folder) / f"{name}.npy").is_file()]


def stored_severities(folder: str | Path) -> list[int]:
    """The severities in every file: 1 to 5, or what our README.json says."""
    about = _about(Path(folder))
    if about is None:
        return [1, 2, 3, 4, 5]
    severities = about.get("severities")
    good = isinstance(severities, list) and len(severities) > 0 and len(set(map(str, severities))) == len(severities)
    if not good or not all(type(value) is int and 1 <= value <= 5 for value in severities or ()):
        raise AkornError(f"{Path(folder) / README}: severities must be different numbers from 1 to 5, got {severities}")
    assert isinstance(severities, list)
    return severities


def made_by_us(folder: str | Path) -> bool:
    """Whether the pictures are of `akorn data make cifar10-c`: figures on them are ours, not CIFAR-10-C's."""
    about = _about(Path(folder))
    return about is not None and about.get("maker") == "akorn"


def _frost(folder: Path) -> str:
    """What frost was made of in one of our sets; the first ones do not say, and used no photographs."""
    return str((_about(folder) or {}).get("frost", PROCEDURAL))


def _split(folder: Path) -> str:
    """Which pictures were corrupted: the test pictures, unless our README.json says otherwise."""
    about = _about(folder)
    return "valid" if about is not None and about.get("split") == "valid" else "test"


def _about(folder: Path) -> dict[str, Any] | None:
    path = folder / README
    if not path.is_file():
        return None
    return read_object(path)


def _load(path: Path) -> np.ndarray[Any, Any]:
    """The array of a file; only the parts that are used are read."""
    if not path.is_file():
        there = ", ".join(stored_corruptions(path.parent)) or "none"
        beside = "" if path.name == "labels.npy" else f"; corruptions in this folder: {there}"
        raise AkornError(f"{path} does not exist{beside}")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # cut short, not an array, or an array of objects
        raise AkornError(f"{path} cannot be read as an array, it is cut short or not an array ({error})") from None
    if not isinstance(array, np.ndarray):  # an .npz under another name
        raise AkornError(f"{path} holds several arrays, expected one")
    return array
