"""A corrupted test set in the layout of CIFAR-10-C: one file per corruption, the severities one after the other."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from akorn._version import __version__
from akorn.errors import AkornError
from akorn.robustness.corruptions import corrupt
from akorn.robustness.corruptions.constants import README, check_name, check_severity
from akorn.robustness.corruptions.frost_pictures import frost_by
from akorn.runtime.files import make_folder

NOTES = (
    "Made by akorn from the definitions and constants of CIFAR-10-C (Hendrycks & Dietterich, 2019), with random "
    "numbers of its own: the pictures are not those of the published set, and figures from them should say so.",
    "glass_blur: follows the published set, in which the second half of each exchange of pixels had no effect.",
)


def make_cifar10c(
    folder: str | Path,
    images: NDArray[np.uint8],
    labels: NDArray[np.integer[Any]],
    names: Sequence[str],
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    *,
    about: dict[str, Any] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> list[Path]:
    """Corrupt pictures, uint8 [B, 3, 32, 32] with labels [B], and write NAME.npy, labels.npy and README.json.

    A file has [B·severities, 32, 32, 3] bytes, as published. Nothing is overwritten, and either all files appear or
    none. about: further entries for README.json. `progress(name, pictures)` is called as pictures are done.
    """
    folder = Path(folder)
    for name in names:
        check_name(name)
    for severity in severities:
        check_severity(severity)
    for what, values in (("corruptions", list(names)), ("severities", list(severities))):
        if not values or len(set(values)) != len(values):
            raise AkornError(f"expected one or more different {what}, got {', '.join(map(str, values)) or 'none'}")
    targets = [folder / f"{name}.npy" for name in names] + [folder / "labels.npy", folder / README]
    for target in targets:
        if target.exists():
            raise AkornError(f"{target} already exists; choose another folder or remove it")
    new = not folder.exists()
    make_folder(folder)
    aside = Path(tempfile.mkdtemp(prefix=".tmp-", dir=folder))
    try:
        for name in names:
            _write_one(aside / f"{name}.npy", images, name, severities, seed, progress)
        np.save(aside / "labels.npy", np.tile(labels.astype(np.uint8), len(severities)))
        content = {
            "maker": "akorn",
            "version": __version__,
            "pictures": len(images),
            "corruptions": list(names),
            "severities": list(severities),
            "seed": seed,
            **({"frost": frost_by()} if "frost" in names else {}),
            **(about or {}),
            "notes": NOTES,
        }
        (aside / README).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for target in targets:
            os.replace(aside / target.name, target)
    except OSError as error:
        raise AkornError(f"{folder}: cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if new:
            with suppress(OSError):  # raised if the files are there, which means that all went well
                folder.rmdir()
    return targets


def _write_one(
    path: Path,
    images: NDArray[np.uint8],
    name: str,
    severities: Sequence[int],
    seed: int,
    progress: Callable[[str, int], None] | None,
) -> None:
    """One file, [B·severities, 32, 32, 3]; written piece by piece, since at full size it has 150 MB."""

    def report(done: int) -> None:
        if progress is not None:
            progress(name, done)

    count = len(images)
    shape = (count * len(severities), 32, 32, 3)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    for place, severity in enumerate(severities):
        pictures = corrupt(images, name, severity, seed, progress=report)
        array[place * count : (place + 1) * count] = pictures.transpose(0, 2, 3, 1)
    array.flush()
