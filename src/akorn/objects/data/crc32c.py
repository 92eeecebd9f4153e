"""CRC-32C (Castagnoli), the checksum of TFRecord files, many messages of one length at a time.

Python's own crc32 has another polynomial, and a loop over bytes in Python would take hours for a data set. A CRC is
linear over GF(2), so a message can be cut into lanes that go through the table side by side, in arrays, and lanes
are joined afterwards: crc(a ++ b) = shift(crc(a), |b|) xor crc(b), where shift appends |b| zero bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # bits reversed
_LANE = 64  # bytes in a lane


def _through(table: Words, values: Words) -> Words:
    """Values after one more zero byte."""
    return table[values & 0xFF] ^ (values >> np.uint32(8))


def _byte_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_BYTES = _byte_table()
_PAIRS = _through(_BYTES, _through(_BYTES, np.arange(2**16, dtype=np.uint32)))  # two bytes at once


@cache
def _shift_tables(zeros: int) -> Words:
    """What a value becomes after that many zero bytes, for each of its four bytes: [4, 256]."""
    basis = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(zeros):
        basis = _through(_BYTES, basis)
    return _tables(basis)


@cache
def _doubled(zeros: int, times: int) -> Words:
    """The tables of `zeros` · 2^times zero bytes, by applying those of half as many twice."""
    if times == 0:
        return _shift_tables(zeros)
    basis = np.uint32(1) << np.arange(32, dtype=np.uint32)
    half = _doubled(zeros, times - 1)
    return _tables(_shift(half, _shift(half, basis)))


def _tables(basis: Words) -> Words:
    byte = np.arange(256, dtype=np.uint32)
    tables = np.zeros((4, 256), dtype=np.uint32)
    for place in range(4):
        for bit in range(8):
            tables[place] ^= np.where(byte >> np.uint32(bit) & 1, basis[8 * place + bit], np.uint32(0))
    return tables


def _shift(tables: Words, values: Words) -> Words:
    first, second, third, fourth = (values >> np.uint32(8 * place) & np.uint32(0xFF) for place in range(4))
    return tables[0][first] ^ tables[1][second] ^ tables[2][third] ^ tables[3][fourth]


def crc32c(messages: NDArray[np.uint8]) -> Words:
    """The checksum of each row of bytes [messages, length]."""
    count, length = messages.shape
    lanes = length // _LANE
    cut = lanes * _LANE
    state = np.full(count, 0xFFFFFFFF, dtype=np.uint32)
    if lanes:
        # The start value belongs to the first lane; lanes in front of it that hold zeros would change nothing.
        words = np.ascontiguousarray(messages[:, :cut]).view("<u2").reshape(count, lanes, _LANE // 2)
        values = np.zeros((count, lanes), dtype=np.uint32)
        values[:, 0] = state
        for word in np.ascontiguousarray(words.transpose(2, 0, 1)):  # [count, lanes] each
            values = _PAIRS[(values ^ word) & np.uint32(0xFFFF)] ^ (values >> np.uint32(16))
        times = 0
        while values.shape[1] > 1:
            if values.shape[1] % 2:
                values = np.concatenate([np.zeros((count, 1), dtype=np.uint32), values], 1)
            values = _shift(_doubled(_LANE, times), values[:, 0::2]) ^ values[:, 1::2]
            times += 1
        state = values[:, 0]
    for byte in messages[:, cut:].T:
        state = _BYTES[(state ^ byte) & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    return ~state


def masked(checksums: Words) -> Words:
    """As TFRecord files store them: turned right by 15 bits, plus a constant."""
    return ((checksums >> np.uint32(15)) | (checksums << np.uint32(17))) + np.uint32(0xA282EAD8)
