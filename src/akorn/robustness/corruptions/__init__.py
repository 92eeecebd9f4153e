"""Our own implementation of CIFAR-10-C's corruptions: 15 common ones and 4 extra, at five severities.

from akorn.robustness.corruptions import corrupt

worse = corrupt(images, "fog", severity=3, seed=0)      # uint8 [B, 3, 32, 32] → the same

They follow the definitions and the constants of Hendrycks & Dietterich (2019), with our own random numbers. Frost uses
the published photographs if the package `imagecorruptions` is installed, and otherwise a procedural texture. The result
for a picture depends on the picture, the corruption, the severity and the seed, but not on its place or its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.robustness.corruptions.constants import (
    ALL,
    COMMON,
    CONSTANTS,
    CORRUPTIONS,
    EXTRA,
    SEVERITIES,
    check_name,
    check_severity,
)
from akorn.robustness.corruptions.draws import Draws, picture_keys

__all__ = [
    "ALL",
    "COMMON",
    "CONSTANTS",
    "CORRUPTIONS",
    "EXTRA",
    "SEVERITIES",
    "check_name",
    "check_severity",
    "corrupt",
]

_CHUNK = 64  # pictures at a time: few enough for the processor's cache


def corrupt(
    images: ArrayLike,
    name: str,
    severity: int,
    seed: int = 0,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.uint8]:
    """Pictures, uint8 [B, 3, 32, 32], with a corruption of severity 1 to 5; an array of the same kind.

    workers: number of threads, by default one per core; the result does not depend on it. `progress(count)` is called
    after every few pictures. AkornError for an unknown name or severity, ValueError for other arrays.
    """
    check_name(name)
    check_severity(severity)
    pictures = np.asarray(images)
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[1:] != (3, 32, 32):
        raise ValueError(
            f"images must be uint8 [B, 3, 32, 32]: the constants are those of 32 × 32 in three colours; "
            f"got {pictures.dtype} {list(pictures.shape)}"
        )
    corruption = CORRUPTIONS[name]
    function, constants = corruption.load(), corruption.constants[severity - 1]
    salt = f"akorn {name} {severity} {seed}"
    result = np.empty_like(pictures)

    def work(start: int) -> int:
        part = np.ascontiguousarray(pictures[start : start + _CHUNK])
        result[start : start + len(part)] = function(part, constants, Draws(picture_keys(part, salt)))
        return len(part)

    starts = range(0, len(pictures), _CHUNK)
    workers = workers or cpu_count() or 1
    if workers == 1 or len(starts) < 2:
        for start in starts:
            done = work(start)
            if progress is not None:
                progress(done)
        return result
    with ThreadPoolExecutor(workers) as pool:  # NumPy and Pillow release Python's lock
        for done in pool.map(work, starts):
            if progress is not None:
                progress(done)
    return result
