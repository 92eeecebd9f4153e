"""TFRecord files and the `tf.train.Example` messages in them, without TensorFlow.

A record is its length (8 bytes), the length's checksum (4), the data, the data's checksum (4), all little-endian; a
file may be compressed by gzip. A message is a protocol buffer: a map from names to lists of bytes, floats or
integers.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError

_LONGEST = 2**30  # records of pictures are shorter; a damaged length is usually longer
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3


def records(files: Sequence[Path]) -> Iterator[bytes]:
    """The data of all records of all files in order, each verified by its checksum."""
    for path in files:
        try:
            yield from _records(path)
        except (EOFError, zlib.error) as error:
            raise AkornError(f"{path} is truncated or damaged ({error})") from None
        except OSError as error:
            raise AkornError(f"{path} cannot be read ({error.strerror or error})") from None


def _records(path: Path) -> Iterator[bytes]:
    with ExitStack() as stack:
        file = cast(IO[bytes], stack.enter_context(path.open("rb")))
        if file.read(2) == b"\x1f\x8b":
            file = cast(IO[bytes], stack.enter_context(gzip.open(path, "rb")))
        file.seek(0)
        number = 0
        while header := file.read(12):
            length = int.from_bytes(header[:8], "little")
            if len(header) < 12:
                raise AkornError(f"{path} is truncated: record {number} has no length")
            if length > _LONGEST:
                raise AkornError(f"{path}: record {number} claims {length} bytes; this is not a TFRecord file")
            rest = file.read(length + 4)
            if len(rest) < length + 4:
                raise AkornError(f"{path} is truncated: record {number} ends too soon")
            message = rest[:-4]
            if checksum(header[:8]) != header[8:] or checksum(message) != rest[-4:]:
                raise AkornError(f"{path}: record {number} is damaged, its checksum differs")
            yield message
            number += 1


def checksum(message: bytes) -> bytes:
    """CRC-32C (Castagnoli) as TFRecord files store it: rotated right by 15 bits, plus a constant, in four bytes."""
    import google_crc32c  # imported here, since every use of this room's data imports this module

    value = google_crc32c.value(message)
    return (((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


class Example:
    """A `tf.train.Example`: features by name, decoded on request."""

    def __init__(self, message: bytes, where: str) -> None:
        self.where = where
        try:
            self._features = _features(memoryview(message))
        except (IndexError, UnicodeDecodeError):
            raise AkornError(f"{where} is not a tf.train.Example") from None

    @property
    def names(self) -> Sequence[str]:
        """The names of the features."""
        return list(self._features)

    def integers_or_floats(self, name: str) -> NDArray[Any]:
        """A feature of numbers, or of strings of one byte each, which represent small numbers."""
        lists = self._lists(name)
        try:
            return _values(lists)
        except (IndexError, ValueError):
            raise AkornError(f"{self.where}: {name!r} cannot be read") from None

    def bytes(self, name: str) -> NDArray[np.uint8]:
        """A feature of strings, with all their bytes concatenated."""
        values = self.integers_or_floats(name)
        if values.dtype != np.uint8:
            raise AkornError(f"{self.where}: {name!r} holds {values.dtype} numbers, expected bytes")
        return values

    def _lists(self, name: str) -> memoryview:
        if name not in self._features:
            raise AkornError(f"{self.where} has the features {', '.join(self._features) or 'none'}, expected {name!r}")
        return self._features[name]


def _features(message: memoryview) -> Mapping[str, memoryview]:
    """Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }."""
    found: dict[str, memoryview] = {}
    for _, features in _fields(message):
        for _, entry in _fields(features):
            parts = dict(_fields(entry))
            found[bytes(parts.get(1, b"")).decode()] = parts.get(2, memoryview(b""))
    return found


def _values(feature: memoryview) -> NDArray[Any]:
    """Feature { BytesList = 1 | FloatList = 2 | Int64List = 3 }, each { repeated value = 1 }."""
    for kind, values in _fields(feature):
        if kind == _BYTES:
            return _joined(values)
        parts = [part for _, part in _fields(values)]
        if kind == _FLOATS:
            return np.frombuffer(b"".join(parts), "<f4")
        if kind == _INTEGERS:
            integers = [value for part in parts for value in _varints(part)]
            return np.array(integers, dtype=np.uint64).view(np.int64)
    return np.empty(0, dtype=np.float32)


def _joined(values: memoryview) -> NDArray[np.uint8]:
    """All strings of a list one after the other. The benchmark stores a string of one byte for each pixel."""
    raw = np.frombuffer(values, np.uint8)
    if len(raw) % 3 == 0:
        triples = raw.reshape(-1, 3)  # the field's key, the length 1, the byte
        if (triples[:, 0] == 0x0A).all() and (triples[:, 1] == 1).all():
            return triples[:, 2]
    return np.frombuffer(b"".join(part for _, part in _fields(values)), np.uint8)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message with their numbers; a single number comes as the bytes that hold it."""
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        wire = key & 7
        start = place
        if wire == 2:
            length, start = _varint(message, place)
            place = start + length
        elif wire == 0:
            _, place = _varint(message, place)
        elif wire in (1, 5):
            place += 8 if wire == 1 else 4
        else:
            raise IndexError(f"wire type {wire}")
        if place > end:
            raise IndexError("a field ends after its message")
        yield key >> 3, message[start:place]


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Seven bits per byte, the lowest first, until a byte below 128; also returns the position after it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), place
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than 64 bits")


def _varints(message: memoryview) -> Iterator[int]:
    place = 0
    while place < len(message):
        value, place = _varint(message, place)
        yield value
