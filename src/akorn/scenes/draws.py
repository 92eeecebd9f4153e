"""Random numbers that belong to a scene: the same for the same seed and number, whatever else is drawn."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def key_of(*parts: int | str) -> int:
    """A 64-bit key that depends on all parts."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


def uniform(key: int, numbers: NDArray[np.uint64], stream: NDArray[np.uint64] | int) -> NDArray[np.float64]:
    """A number in [0, 1) for each scene number and stream (they broadcast): SplitMix64 of key, number and stream."""
    with np.errstate(over="ignore"):
        x = _mixed(numbers * _STEP + np.uint64(key))
        x = _mixed(x + np.asarray(stream, np.uint64) * _STEP)
    return np.asarray((x >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
