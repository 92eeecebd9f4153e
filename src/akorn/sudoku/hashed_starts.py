"""Random numbers of a start that depend only on the seed, the puzzle and the number of the start.

With an ordinary generator, the numbers of a sample depend on its place in the batch. Here every number is a hash of a
counter (one splitmix64 stream per sample), so a start is the same in every chunk, process and file, and on every
device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from akorn import kernels

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # as signed 64-bit integers, whose products wrap around
_FACTOR_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_FACTOR_2 = 0x94D049BB133111EB - (1 << 64)
_24_BITS = (1 << 24) - 1


def board_keys(puzzles: Tensor) -> Tensor:
    """[B, 81] digits → int64 [B], a hash of each puzzle."""
    key = torch.zeros(len(puzzles), dtype=torch.int64, device=puzzles.device)
    for square in puzzles.long().unbind(1):
        key = _mix(key + _GOLDEN + square)
    return key


def start_noise(keys: Tensor, starts: Tensor, seed: int, shape: Sequence[int]) -> Tensor:
    """Standard normal numbers, float32 [S, *shape], for samples with these keys [S] and numbers of starts [S]."""
    count = math.prod(shape)
    stream = _streams(keys, starts, seed)
    numbers = _fused if keys.is_cuda and kernels.usable(keys) and _same_bits(keys.device) else _plain
    return numbers(stream, count).reshape(len(keys), *shape)


def start_numbers(keys: Tensor, starts: Tensor, seed: int, count: int) -> Tensor:
    """Random whole numbers, int64 [S, count], for the same samples; they are independent of `start_noise`."""
    stream = _mix(_streams(keys, starts, seed))
    return _mix(stream[:, None] + _GOLDEN * torch.arange(1, count + 1, device=stream.device))


def _streams(keys: Tensor, starts: Tensor, seed: int) -> Tensor:
    """[S]: where the numbers of each sample begin."""
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"a seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")
    return _mix(_mix(keys + _signed(seed * _GOLDEN)) + _GOLDEN * (starts + 1))


def _plain(stream: Tensor, count: int) -> Tensor:
    """Normal numbers of each stream [S]: [S, count]."""
    counter = torch.arange(1, (count + 1) // 2 + 1, device=stream.device)
    bits = _mix(stream[:, None] + _GOLDEN * counter)  # [S, count/2]
    # Box and Muller: two uniform numbers of 24 bits each become two normal ones.
    uniform = ((bits >> 40 & _24_BITS) + 1).float() * 2.0**-24  # in (0, 1]
    angle = (bits >> 16 & _24_BITS).float() * (2 * math.pi * 2.0**-24)
    length = (-2 * uniform.log()).sqrt()
    normal = torch.cat((length * angle.cos(), length * angle.sin()), 1)  # [S, count or one more]
    return normal[:, :count]


def _fused(stream: Tensor, count: int) -> Tensor:
    from akorn.kernels.normal_numbers import normal_numbers

    return normal_numbers(stream, count)


@cache
def _same_bits(device: torch.device) -> bool:
    """Whether the kernel gives exactly the plain form's numbers on this device; if not, seeds would change meaning."""
    stream = _mix(torch.arange(64, device=device))
    return torch.equal(_fused(stream, 4097), _plain(stream, 4097))


def _mix(x: Tensor) -> Tensor:
    """splitmix64's finaliser: every input bit changes about half of the output bits."""
    x = (x ^ _shifted(x, 30)) * _FACTOR_1
    x = (x ^ _shifted(x, 27)) * _FACTOR_2
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A shift to the right that fills with zeros; torch's own repeats the sign."""
    return x >> bits & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value
