"""CIFAR-10 from its usual folder, `cifar-10-batches-py`, or from the archive in which it is published."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.robustness.config import CLASSES
from akorn.robustness.data.labelled_pictures import Pictures
from akorn.robustness.data.safe_pickle import read_pickle

FOLDER = "cifar-10-batches-py"
ARCHIVE = "cifar-10-python.tar.gz"

_FILES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
_META = "batches.meta"
_MOST_BYTES = 256 * 2**20  # of one file; a batch of CIFAR-10 has 31 million bytes


def load_cifar10(folder: str | Path, split: Literal["train", "test"]) -> Pictures:
    """The training or the test pictures, [B, 3, 32, 32], as bytes.

    folder: `cifar-10-batches-py`, the folder that holds it, the archive `cifar-10-python.tar.gz`, or the folder that
    holds that. The archive is read in memory. AkornError if a file is missing, cut short, or holds something else.
    """
    if split not in _FILES:
        raise ValueError(f"split must be train or test, got {split!r}")
    place = _find(Path(folder))
    names = (*_FILES[split], _META)
    files = _read_archive(place, names) if place.is_file() else _read_folder(place, names)
    batches = []
    for name in _FILES[split]:
        if name not in files:
            raise AkornError(f"{place} has no {name}: the {split} split of CIFAR-10 is {', '.join(_FILES[split])}")
        batches.append(_batch(files.pop(name), f"{place / name}"))
    return Pictures(
        images=torch.from_numpy(np.concatenate([images for images, _ in batches])),
        labels=torch.from_numpy(np.concatenate([labels for _, labels in batches])),
        classes=_classes(files[_META], f"{place / _META}") if _META in files else CLASSES,
    )


def _find(path: Path) -> Path:
    """The folder with the batches, or the archive."""
    if path.is_file():
        return path
    if not path.is_dir():
        wrong = "is neither a folder nor a file" if path.exists() else "does not exist"
        raise AkornError(f"{path} {wrong}: expected the folder {FOLDER} or {ARCHIVE}")
    for place in (path, path / FOLDER, path / ARCHIVE, path.parent / ARCHIVE if path.name == FOLDER else path):
        if place.is_file() or any((place / name).exists() for names in _FILES.values() for name in names):
            return place
    raise AkornError(f"{path} holds no CIFAR-10: expected data_batch_1 to data_batch_5 and test_batch, or {ARCHIVE}")


def _read_folder(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The files of those names that are there."""
    files = {}
    for name in names:
        path = folder / name
        if not path.exists():
            continue
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise AkornError(f"{path} has {path.stat().st_size:,} bytes, far more than a batch of CIFAR-10")
            files[name] = path.read_bytes()
        except OSError as error:
            raise AkornError(f"{path} cannot be read ({error.strerror or error})") from None
    return files


def _read_archive(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The members of those names, whatever folder they are in; nothing is written to disk."""
    wanted, files = set(names), {}
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.size > _MOST_BYTES:
                    raise AkornError(f"{path}: {member.name} has {member.size:,} bytes, far more than CIFAR-10's files")
                name = Path(member.name).name
                stream = archive.extractfile(member) if member.isreg() and name in wanted else None
                if stream is not None:
                    files[name] = stream.read()
                if files.keys() == wanted:
                    break
    except AkornError:
        raise
    except Exception as error:  # damaged archives fail in tarfile, zlib, lzma or bz2, each in its own way
        raise AkornError(
            f"{path} cannot be read as an archive of CIFAR-10, it is cut short or not an archive ({error})"
        ) from None
    return files


def _batch(data: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [B, 3, 32, 32] and labels [B] of one file."""
    content = _dictionary(data, name)
    for key in ("data", "labels"):
        if key not in content:
            found = ", ".join(sorted(map(str, content)))[:200] or "nothing"
            raise AkornError(f"{name} has no {key!r}, it holds {found}: expected a batch of CIFAR-10")
    images = content["data"]
    if not isinstance(images, np.ndarray):
        raise AkornError(f"{name}: its data is a {type(images).__name__}, expected an array of bytes [pictures, 3072]")
    if images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != 3072 or len(images) == 0:
        raise AkornError(
            f"{name}: its data is {images.dtype} {list(images.shape)}, expected bytes (uint8) [pictures, 3072], "
            "pictures of 32 × 32 in three colours"
        )
    labels = _labels(content["labels"], name)
    if len(labels) != len(images):
        raise AkornError(f"{name} has {len(images)} pictures and {len(labels)} labels")
    return images.reshape(-1, 3, 32, 32), labels


def _labels(values: Any, name: str) -> NDArray[np.int64]:
    """Whole numbers from 0 to 9, [B]."""
    if isinstance(values, list) and not all(type(value) is int for value in values):
        raise AkornError(f"{name}: its labels are not all whole numbers")
    if not isinstance(values, list | np.ndarray):
        raise AkornError(f"{name}: its labels are a {type(values).__name__}, expected a list of whole numbers")
    for value in (max(values, default=0), min(values, default=0)) if isinstance(values, list) else ():
        if not 0 <= value <= 9:  # before NumPy sees it: it may fit none of its types
            raise AkornError(f"{name}: a label is {value}, expected 0 to 9")
    labels = np.asarray(values)
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        raise AkornError(
            f"{name}: its labels are {labels.dtype} {list(labels.shape)}, expected whole numbers [pictures]"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
        wrong = labels[(labels < 0) | (labels > 9)][0]
        raise AkornError(f"{name}: a label is {wrong}, expected 0 to 9")
    return labels.astype(np.int64)


def _classes(data: bytes, name: str) -> tuple[str, ...]:
    """The names of the ten classes."""
    names = _dictionary(data, name).get("label_names")
    if not isinstance(names, list) or len(names) != 10 or not all(isinstance(word, str | bytes) for word in names):
        raise AkornError(f"{name}: its label_names are not ten words")
    return tuple(word.decode("utf-8", "replace") if isinstance(word, bytes) else word for word in names)


def _dictionary(data: bytes, name: str) -> dict[str, Any]:
    """The pickled dictionary, with its keys as text, whichever Python version wrote it."""
    content = read_pickle(data, name)
    if not isinstance(content, dict):
        raise AkornError(f"{name} holds a {type(content).__name__}, expected a dictionary as in CIFAR-10's files")
    return {key.decode("latin-1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
