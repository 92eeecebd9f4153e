"""Random numbers that belong to a picture: they are the same in any batch and on every machine.

Each picture has a key, a hash of its bytes, the seed and the purpose of the draws. Draw i of a picture is the
SplitMix64 mix of key + i·γ (Steele et al., 2014), so all draws of a batch are a few operations on one array of
integers. Values computed with sin, cos and log, whose last bit depends on the machine, are rounded.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

_GAMMA = 0x9E3779B97F4A7C15  # the odd integer nearest to 2⁶⁴ over the golden ratio
_GRID = 2.0**30  # normal numbers are multiples of 1 / _GRID


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: each bit of the result depends on all bits of z. Works in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def picture_keys(images: NDArray[np.uint8], salt: str) -> NDArray[np.uint64]:
    """A key for each picture [B, …], uint64 [B]: a multilinear hash of its bytes, mixed with a hash of `salt`."""
    flat = images.reshape(len(images), -1)
    weights = _mix(np.arange(1, flat.shape[1] + 1, dtype=np.uint64) * np.uint64(_GAMMA)) | np.uint64(1)
    hashed = np.zeros(len(images), dtype=np.uint64)
    for start in range(0, flat.shape[1], 512):  # keeps the widened copy small
        part = slice(start, start + 512)
        hashed += flat[:, part].astype(np.uint64) @ weights[part]
    hashed += np.frombuffer(hashlib.blake2b(salt.encode(), digest_size=8).digest(), dtype="<u8")
    return _mix(hashed)


class Draws:
    """The random numbers of a batch, given the pictures' keys [B]; every call continues where the last one stopped."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys, self.used = keys, 0

    def bits(self, *shape: int) -> NDArray[np.uint64]:
        """Random 64 bits, [B, *shape]."""
        count = math.prod(shape)
        steps = np.arange(self.used + 1, self.used + count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        self.used += count
        return _mix(self.keys[:, None] + steps).reshape(-1, *shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """Numbers between low and high, [B, *shape]."""
        return (self.bits(*shape) >> np.uint64(11)).astype(np.float64) * (2.0**-53 * (high - low)) + low

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Standard normal numbers, [B, *shape]: √(−2 ln u)·cos 2πv and the same with sin (Box & Muller)."""
        count = math.prod(shape)
        bits = self.bits((count + 1) // 2)
        u = ((bits >> np.uint64(32)) + np.uint64(1)) * 2.0**-32  # never 0
        angle = (bits & np.uint64(0xFFFFFFFF)) * (2.0**-32 * 2 * math.pi)
        radius = np.sqrt(-2 * np.log(u)) * _GRID
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        np.rint(both, out=both)
        both *= 1 / _GRID
        return both[:, :count].reshape(-1, *shape)

    def integers(self, bound: int, *shape: int) -> NDArray[np.int64]:
        """Whole numbers from 0 to bound − 1, [B, *shape]."""
        return (((self.bits(*shape) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
