"""Pictures in npz files: `images` [N, 1 or 3, H, W], bytes or floats in 0–1, and `labels` [N, H, W].

Labels are −1 to ignore, 0 for the background, 1.. for objects. `classes` [N, H, W], `clusters`, `name` and `made` (how
akorn rendered the pictures, as JSON) are optional. Arrays are read in pieces, so that large float arrays are never in
memory whole, and nothing is unpickled.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.objects.data.fitting import fitted
from akorn.objects.data.picture_files import find_pictures
from akorn.objects.data.picture_sets import Image, Mask, Pictures, as_labels, count_clusters
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import ALIASES, SETS
from akorn.runtime.files import replacing
from akorn.runtime.lock import FILE, only_run

_STRETCH = 2**24  # about how many bytes are read at a time
_KINDS = {"U": "text", "iu": "whole number"}  # NumPy's letters for types
_PARTS = ".tmp-npz-"  # how names of folders begin in which arrays grow
_ROUND = 1e-4  # tolerance for floats beyond 0–1, for resampling in float32


@READERS.add("npz files")
def open_npz(path: Path, asked: Asked) -> Pictures | None:
    """The content of a file, or of the split's file in a folder; None if there is none."""
    file = _file_in(path, asked) if path.is_dir() else path
    if file is None or file.suffix.lower() != ".npz":
        return None
    found = read_npz(file, asked.limit, asked.labels)
    return found if asked.size is None else fitted(found, asked.size, asked.fit)


def _file_in(folder: Path, asked: Asked) -> Path | None:
    """The file of the split; None if a folder has no npz files, or pictures beside unrelated npz files."""
    archives = sorted(folder.glob("*.npz"))
    if not archives:
        return None
    for ending in ALIASES[asked.split]:
        named = [path for path in archives if _is_named(path, ending)]
        if len(named) == 1:
            return named[0]
        if named:
            said = ", ".join(path.name for path in named)
            raise AkornError(f"{folder} has several files for {asked.split}: {said}")
    said = ", ".join(path.name for path in archives)
    pictures = bool(find_pictures(folder, 1))
    every = [part for parts in ALIASES.values() for part in parts]
    if pictures and not any(_is_named(path, part) for path in archives for part in every):
        logging.getLogger(__name__).warning("%s: the pictures are read, %s is ignored", folder, said)
        return None
    beside = ", or a folder with nothing but the pictures" if pictures else ""
    raise AkornError(
        f"{folder} has no split {asked.split!r}: expected {asked.split}.npz, found {said}; name the file to"
        f" read{beside}"
    )


def _is_named(path: Path, part: str) -> bool:
    """Whether a file has the name of a split."""
    return path.stem == part or path.stem.endswith((f"_{part}", f"-{part}"))


def read_npz(path: str | Path, limit: int | None = None, labels: bool = True) -> Pictures:
    """The pictures of a file, the first `limit` of them if it is given; without masks if `labels` is false."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, archive, limit, labels)
    except FileNotFoundError:
        raise AkornError(f"{path} does not exist: expected an npz file with images and labels") from None
    except AkornError:
        raise
    except OSError as error:
        raise AkornError(f"{path} cannot be read ({error.strerror or error})") from None
    except MemoryError:
        raise AkornError(f"{path}: its arrays do not fit into memory; ask for fewer pictures") from None
    except Exception as error:  # zipfile and the codecs (zlib, lzma, bz2) raise different errors
        raise AkornError(f"{path} is not a valid npz file, it may be truncated or encrypted ({error})") from None


def write_npz(path: str | Path, pictures: Pictures) -> None:
    """Write pictures as bytes, compressed; the file appears whole or not at all."""
    arrays: dict[str, Any] = {"images": pictures.images}
    for key, masks in (("labels", pictures.labels), ("classes", pictures.classes)):
        if masks is not None:
            arrays[key] = masks.astype(np.int8) if masks.max() < 2**7 else masks
    with replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays, clusters=pictures.clusters, name=pictures.name)


class NpzParts:
    """An npz file that is written in pieces: arrays grow on disk, and memory does not. Use it in a `with` block.

    The file appears whole at the end of the block, or not at all.

    Args:
        path: the file.
        count: how many pictures there will be.
        clusters: the number of clusters that is written into the file.
        name: the data set's name that is written into the file.
        made: how the pictures were rendered, which is written into the file too.

    """

    def __init__(self, path: Path, count: int, clusters: int, name: str, made: Mapping[str, Any] | None = None) -> None:
        self.path, self.count = path, count
        self._facts = {"clusters": np.array(clusters), "name": np.array(name)}
        if made is not None:
            self._facts["made"] = np.array(json.dumps(made))
        remove_leftovers(path.parent)
        self._folder = tempfile.TemporaryDirectory(prefix=_PARTS, dir=path.parent)
        self._lock = ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        self._beside: list[Path] = []

    def beside(self, path: Path) -> Path:
        """Where to write another file for the same folder, which appears at `path` when the archive does."""
        self._beside.append(path)
        return Path(self._folder.name, path.name)

    def __enter__(self) -> NpzParts:
        self._lock.enter_context(only_run(Path(self._folder.name)))
        return self

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append to each array."""
        try:
            for key, values in arrays.items():
                if key not in self._files:
                    file = self._files[key] = open(Path(self._folder.name, f"{key}.npy"), "wb")  # noqa: SIM115
                    header = {
                        "descr": np.lib.format.dtype_to_descr(values.dtype),
                        "fortran_order": False,
                        "shape": (self.count, *values.shape[1:]),
                    }
                    np.lib.format.write_array_header_1_0(file, header)
                self._files[key].write(np.ascontiguousarray(values).data)
        except OSError as error:
            raise AkornError(f"{self.path}: cannot be written ({error.strerror or error})") from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for file in self._files.values():
            file.close()
        try:
            if kind is None:
                self._pack()
        finally:
            self._folder.cleanup()
            self._lock.close()

    def _pack(self) -> None:
        folder = Path(self._folder.name)
        for key, fact in self._facts.items():
            np.save(folder / f"{key}.npy", fact)
        with replacing(self.path) as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
            for key in (*self._files, *self._facts):
                kind = zipfile.ZIP_DEFLATED if key == "labels" else zipfile.ZIP_STORED  # noise does not shrink
                archive.write(folder / f"{key}.npy", f"{key}.npy", kind, 1)
                (folder / f"{key}.npy").unlink()
        for path in self._beside:
            os.replace(folder / path.name, path)


def remove_leftovers(folder: Path) -> None:
    """Remove arrays of runs that were killed. Those of a run that is still writing are locked, and stay."""
    for old in folder.glob(f"{_PARTS}*"):
        with suppress(AkornError, OSError):
            if (old / FILE).read_text().strip():  # empty where the disk has no locks: nobody knows who writes there
                with only_run(old):
                    shutil.rmtree(old)


def _read(path: Path, archive: zipfile.ZipFile, limit: int | None, with_labels: bool) -> Pictures:
    keys = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    if "images" not in keys:
        raise AkornError(f"{path} has the keys {', '.join(keys) or 'none'}, expected images and labels")
    images, count = _images(path, archive, limit)
    masks = {
        key: _masks(path, archive, key, images, count) if with_labels and key in keys else None
        for key in ("labels", "classes")
    }
    name = str(_scalar(path, archive, "name", "U")) if "name" in keys else guess_name(path)
    if "clusters" in keys:
        clusters = int(_scalar(path, archive, "clusters", "iu"))
    elif name in SETS:
        clusters = SETS[name].clusters
        if "name" not in keys and with_labels:
            logging.getLogger(__name__).warning(
                "%s: read as %s because of its name: %d clusters, unless --clusters or a key `clusters` says otherwise",
                path, name, clusters,
            )  # fmt: skip
    else:
        clusters = count_clusters(masks["labels"], SETS["imagenet"].clusters)
    made = _made(path, archive) if "made" in keys else {}
    return Pictures(images, masks["labels"], masks["classes"], clusters, name, made)


def _made(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """How akorn rendered the pictures; nothing if the key is something else."""
    try:
        said = json.loads(str(_scalar(path, archive, "made", "U")))
    except (AkornError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def tells_clusters(path: Path) -> bool:
    """Whether a file specifies the number of clusters; otherwise objects are counted in the masks."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "clusters.npy" in archive.namelist()
    except Exception:  # reading the file will report what is wrong
        return False


def guess_name(path: Path) -> str:
    """The data set whose name is a word in the file's name, if there is just one; otherwise the file's name."""
    words = f"-{'-'.join(re.findall('[a-z0-9]+', path.stem.lower()))}-"
    named = [name for name in SETS if f"-{name}-" in words]
    longest = [name for name in named if not any(name in other for other in named if other != name)]
    return longest[0] if len(longest) == 1 else path.stem


def _images(path: Path, archive: zipfile.ZipFile, limit: int | None) -> tuple[Image, int]:
    """The wanted pictures, and how many there are in total."""
    with archive.open("images.npy") as member:
        shape, dtype, by_columns = _header(path, member, "images")
        if len(shape) == 4 and shape[0] == 0:
            raise AkornError(f"{path}: contains no picture, images are {list(shape)}")
        if len(shape) != 4 or shape[1] not in (1, 3) or min(shape) < 1:
            raise AkornError(f"{path}: images are {list(shape)}, expected [N, 1 or 3, H, W]")
        if dtype != np.uint8 and dtype.kind != "f":
            raise AkornError(f"{path}: images are {dtype}, expected bytes (uint8) or floats in 0–1")
        _check_size(path, archive, "images", shape, dtype)
        wanted = shape[0] if limit is None else min(limit, shape[0])
        images = np.empty((wanted, *shape[1:]), dtype=np.uint8)
        for start, part in _parts(path, member, shape, dtype, by_columns, wanted):
            images[start : start + len(part)] = part if dtype == np.uint8 else _bytes(part, path)
    return images, shape[0]


def _bytes(part: NDArray[Any], path: Path) -> Image:
    low, high = part.min(), part.max()
    if not (low >= -_ROUND and high <= 1 + _ROUND):  # this form also catches NaN
        raise AkornError(f"{path}: images are floats from {low:g} to {high:g}, expected 0–1 (or bytes)")
    return np.rint(part.astype(np.float32, copy=False) * 255).clip(0, 255).astype(np.uint8)


def _masks(path: Path, archive: zipfile.ZipFile, key: str, images: Image, count: int) -> Mask:
    """The masks of the wanted pictures, of `count` in total."""
    with archive.open(f"{key}.npy") as member:
        shape, dtype, by_columns = _header(path, member, key)
        if shape != (count, *images.shape[2:]):
            raise AkornError(
                f"{path}: {key} are {list(shape)}, expected masks of the pictures' number and size, "
                f"{[count, *images.shape[2:]]}"
            )
        _check_size(path, archive, key, shape, dtype)
        masks = np.empty((len(images), *shape[1:]), dtype=np.int16)
        for start, part in _parts(path, member, shape, dtype, by_columns, len(images)):
            masks[start : start + len(part)] = as_labels(part, f"{path}, {key}")
    return masks


def _scalar(path: Path, archive: zipfile.ZipFile, key: str, kinds: str) -> Any:
    with archive.open(f"{key}.npy") as member:
        shape, dtype, by_columns = _header(path, member, key)
        if math.prod(shape) != 1 or dtype.kind not in kinds:
            raise AkornError(f"{path}: {key} is {dtype} {list(shape)}, expected one {_KINDS[kinds]}")
        return next(_parts(path, member, (1,), dtype, by_columns, 1))[1][0]


def _header(path: Path, member: IO[bytes], key: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, type, and whether the first axis runs fastest; from the header of the npy format."""
    try:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(member)
    except ValueError as error:
        raise AkornError(f"{path}: {key} is not an array ({error})") from None
    if dtype.hasobject:
        raise AkornError(f"{path}: {key} holds Python objects, expected numbers")
    return shape, dtype, by_columns


def _check_size(path: Path, archive: zipfile.ZipFile, key: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """AkornError if an array claims to be larger than its data in the archive, before memory is allocated."""
    said, there = math.prod(shape) * dtype.itemsize, archive.getinfo(f"{key}.npy").file_size
    if said > there:
        raise AkornError(
            f"{path} is truncated: {key} are {list(shape)}, {said:,} bytes, but the file has only {there:,} of them"
        )


def _parts(
    path: Path, member: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], by_columns: bool, wanted: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """The first `wanted` rows of an array in pieces, each with the number of its first row."""
    row = math.prod(shape[1:]) * dtype.itemsize
    if by_columns:  # its rows are scattered over the file
        whole = _exactly(path, member, row * shape[0])
        yield 0, np.frombuffer(whole, dtype).reshape(shape, order="F")[:wanted]
        return
    step = max(_STRETCH // max(row, 1), 1)
    for start in range(0, wanted, step):
        rows = min(step, wanted - start)
        yield start, np.frombuffer(_exactly(path, member, row * rows), dtype).reshape(rows, *shape[1:])
    if wanted == shape[0]:
        member.read(1)  # at the end the archive compares its checksum


def _exactly(path: Path, member: IO[bytes], size: int) -> bytes:
    data = member.read(size)
    if len(data) < size:
        raise AkornError(f"{path} is truncated: {size - len(data)} bytes of an array are missing")
    return data
