"""Packs: many pictures in one file, or in parts of a chosen size, to carry them to another machine. Imports no torch.

A part is a safetensors file with

    pictures, pictures.ends    the encoded pictures (WebP, JPEG, …) one after the other, and where each ends
    labels, labels.ends        likewise masks of objects as PNG, if there are any; `classes` likewise
    names                      the pictures' names, one per line, compressed by zlib

Masks are stored as label + 1, so that −1 (ignored) is 0. The metadata says which data set it is, the pictures' side,
and which part of how many this is. A pack in several parts is FILE-00001-of-00003.pack and so on.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from akorn.errors import AkornError
from akorn.runtime.files import check_writable
from akorn.runtime.lock import FILE, only_run

SUFFIX = ".pack"
_FORMAT, _VERSION = "akorn-pack", 1
_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
_MOST_NAMES = 2**28  # bytes of names; a forged file must not fill the memory
KINDS = ("pictures", "labels", "classes")


@dataclass(frozen=True)
class PackFacts:
    """What a pack says about its pictures."""

    name: str
    """The data set's name, or that of plain pictures."""
    size: int
    """The side of the pictures."""
    quality: int
    skipped: int = 0
    """How many pictures of the folder could not be read."""
    part: int = 1
    parts: int = 1
    split: str = "train"


@dataclass(frozen=True)
class Entry:
    """One picture, encoded, and its masks [H, W] if it has any."""

    name: str
    picture: bytes
    labels: bytes | None = None
    classes: bytes | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in (self.picture, self.labels, self.classes) if part is not None)


def encode_picture(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """Bytes [1 or 3, H, W] as WebP; a quality of 100 loses nothing."""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    file = io.BytesIO()
    image.convert("RGB").save(file, "WEBP", quality=quality, method=4, lossless=quality >= 100)
    return file.getvalue()


def encode_mask(mask: NDArray[np.int16]) -> bytes:
    """Labels from −1 up [H, W] as PNG."""
    moved = mask.astype(np.int32) + 1
    file = io.BytesIO()
    Image.fromarray(moved.astype(np.uint8 if moved.max(initial=0) < 256 else np.uint16)).save(file, "PNG")
    return file.getvalue()


def decode_mask(content: bytes, where: str) -> NDArray[np.int16]:
    """What `encode_mask` wrote."""
    return (np.asarray(decode_picture(content, where)).astype(np.int32) - 1).astype(np.int16)


def decode_picture(content: bytes, where: str) -> Image.Image:
    """A picture, in memory; AkornError if it is damaged."""
    try:
        with Image.open(io.BytesIO(content), formats=("WEBP", "PNG")) as file:
            file.load()
            return file.copy()
    except Exception as error:  # damaged bytes fail in Pillow and its codecs in many ways
        raise AkornError(f"{where}: cannot be read as a picture ({error})") from None


def write_pack(path: Path, entries: Iterable[Entry], facts: PackFacts, part_bytes: int | None = None) -> list[Path]:
    """Write the entries into one file, or into parts of at most about so many bytes; returns the files.

    They appear when all are complete. Nothing is left behind if something goes wrong on the way. AkornError if one of
    them exists already, or if another process is writing this pack.
    """
    with _hidden_folder(path) as folder:
        waiting: list[Path] = []
        held: list[Entry] = []
        room = 0
        for entry in entries:
            if part_bytes is not None and held and room + len(entry) > part_bytes:
                waiting.append(_write_part(path, folder / f"{len(waiting)}{SUFFIX}", held))
                held, room = [], 0
            held.append(entry)
            room += len(entry)
        if not held:
            raise AkornError(f"{path}: there is no picture to pack")
        waiting.append(_write_part(path, folder / f"{len(waiting)}{SUFFIX}", held))
        for part, file in enumerate(waiting, 1):
            _finish(path, file, facts, part, len(waiting))
        names = [part_name(path, part, len(waiting)) for part in range(1, len(waiting) + 1)]
        _move(waiting, names)
        return names


def part_name(path: Path, part: int, parts: int) -> Path:
    """The file of a part; a single part has the pack's own name."""
    return path if parts == 1 else path.with_name(f"{path.stem}-{part:05d}-of-{parts:05d}{path.suffix}")


def parts_of(path: Path) -> list[Path]:
    """The files of a pack: all parts that belong to one of them. AkornError names a part that is missing."""
    numbered = _NUMBERED.fullmatch(path.stem)
    if numbered is None:
        return [path]
    stem, parts = numbered[1], int(numbered[3])
    files = [path.with_name(f"{stem}-{part:05d}-of-{parts:05d}{path.suffix}") for part in range(1, parts + 1)]
    for file in files:
        if not file.exists():
            raise AkornError(f"{file} does not exist: {path.name} is a part of a pack of {parts} files")
    return files


class Pack:
    """One file of a pack, in memory: names, encoded pictures and masks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, framework="np") as file:
                facts = file.metadata() or {}
                if facts.get("format") != _FORMAT:
                    raise AkornError(f"{path}: not a pack of pictures")
                self.facts = _facts(path, facts)
                arrays: Mapping[str, Any] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise AkornError(f"{path}: not a pack of pictures, or damaged ({error})") from None
        if "names" not in arrays:
            raise AkornError(f"{path}: damaged, it has no names")
        self.names = _names(path, arrays["names"])
        self.kinds = {kind: _Blobs(path, kind, arrays, len(self.names)) for kind in KINDS if kind in arrays}
        if "pictures" not in self.kinds:
            raise AkornError(f"{path}: damaged, it has no pictures")

    def __len__(self) -> int:
        return len(self.names)

    def picture(self, index: int) -> Image.Image:
        """A picture, decoded."""
        return decode_picture(self.kinds["pictures"][index], self._where(index))

    def mask(self, kind: str, index: int) -> NDArray[np.int16] | None:
        """The mask of a picture, of the kind "labels" or "classes"; None if the pack has none."""
        return decode_mask(self.kinds[kind][index], self._where(index)) if kind in self.kinds else None

    def digest(self) -> str:
        """SHA-256 of everything in the file that matters."""
        found = hashlib.sha256("\n".join(self.names).encode(errors="surrogateescape"))
        for kind, blobs in self.kinds.items():
            found.update(kind.encode())
            found.update(blobs.content.data)
        return found.hexdigest()

    def _where(self, index: int) -> str:
        return f"{self.path}, {self.names[index]}"


class _Blobs:
    """Pieces of bytes, one after the other."""

    def __init__(self, path: Path, kind: str, arrays: Mapping[str, Any], count: int) -> None:
        self.content, ends = arrays[kind], arrays.get(f"{kind}.ends")
        fine = (
            ends is not None
            and (self.content.dtype, self.content.ndim) == (np.uint8, 1)
            and (ends.dtype, ends.shape) == (np.int64, (count,))
            and bool((np.diff(ends, prepend=0) >= 0).all())
            and count > 0
            and int(ends[-1]) == len(self.content)
        )
        if not fine:
            raise AkornError(f"{path}: damaged, its {kind} do not fit its {count} names")
        assert ends is not None
        self.ends: NDArray[np.int64] = ends

    def __getitem__(self, index: int) -> bytes:
        start = int(self.ends[index - 1]) if index else 0
        return bytes(self.content[start : int(self.ends[index])].data)


@contextmanager
def _hidden_folder(path: Path) -> Iterator[Path]:
    """A folder beside the pack in which its parts grow; AkornError if another process has one for the same pack.

    Its name is new, so that packs never mix, even on disks without locks. What killed commands left is removed.
    """
    check_writable(path)
    prefix = f".tmp-{path.name}-"
    for other in path.parent.glob(f"{escape(prefix)}*"):
        with suppress(OSError):
            if not (other / FILE).read_text().strip():
                continue  # the disk has no locks, so nobody knows whether someone still writes there
            try:
                with only_run(other):
                    shutil.rmtree(other)
            except AkornError as error:
                raise AkornError(f"{path} cannot be written now: {error}") from None
    try:
        own = tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise _not_written(path, error) from error
    with own as name, only_run(Path(name)):
        yield Path(name)


def _write_part(path: Path, file: Path, entries: list[Entry]) -> Path:
    """The arrays of a part; returns the file."""
    arrays: dict[str, NDArray[Any]] = {}
    lists: dict[str, list[bytes | None]] = {
        "pictures": [entry.picture for entry in entries],
        "labels": [entry.labels for entry in entries],
        "classes": [entry.classes for entry in entries],
    }
    for kind, blobs in lists.items():
        known = [blob for blob in blobs if blob is not None]
        if len(known) != len(blobs):
            continue
        arrays[kind] = np.frombuffer(b"".join(known), np.uint8)
        arrays[f"{kind}.ends"] = np.cumsum([len(blob) for blob in known], dtype=np.int64)
    text = "\n".join(entry.name.replace("\n", " ") for entry in entries).encode(errors="surrogateescape")
    arrays["names"] = np.frombuffer(zlib.compress(text, 9), np.uint8)
    _save(path, file, arrays, {"format": _FORMAT})
    return file


def _finish(path: Path, file: Path, facts: PackFacts, part: int, parts: int) -> None:
    """Give a part its metadata, now that the number of parts is known."""
    with safe_open(file, framework="np") as opened:
        arrays = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    said = json.dumps(asdict(facts) | {"part": part, "parts": parts})
    _save(path, file, arrays, {"format": _FORMAT, "version": str(_VERSION), "facts": said})


def _save(path: Path, file: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    try:
        file.write_bytes(save(arrays, metadata))
    except OSError as error:
        raise _not_written(path, error) from error


def _move(files: list[Path], names: list[Path]) -> None:
    """Give complete files their names: all of them, or none."""
    with ExitStack() as undo:
        for file, name in zip(files, names, strict=True):
            if name.exists():
                raise AkornError(f"{name} already exists; choose another name or remove it")
            try:
                file.rename(name)
            except OSError as error:
                raise _not_written(name, error) from error
            undo.callback(name.unlink, missing_ok=True)
        undo.pop_all()


def _not_written(path: Path, error: OSError) -> AkornError:
    return AkornError(f"{path}: cannot be written ({error.strerror or error})")


def _facts(path: Path, metadata: Mapping[str, str]) -> PackFacts:
    if metadata.get("version") != str(_VERSION):
        raise AkornError(f"{path}: a pack of version {metadata.get('version')!r}, this akorn reads {_VERSION}")
    try:
        facts = PackFacts(**json.loads(metadata["facts"]))
    except (KeyError, TypeError, ValueError) as error:
        raise AkornError(f"{path}: damaged, its description cannot be read ({error})") from None
    if not isinstance(facts.size, int) or not 1 <= facts.size <= 2**14 or not isinstance(facts.name, str):
        raise AkornError(f"{path}: damaged, it claims pictures of {facts.size!r} pixels")
    return facts


def _names(path: Path, array: NDArray[np.uint8]) -> list[str]:
    try:
        text = zlib.decompressobj().decompress(array.tobytes(), _MOST_NAMES)
    except zlib.error as error:
        raise AkornError(f"{path}: damaged, its names cannot be read ({error})") from None
    return text.decode(errors="surrogateescape").split("\n")
