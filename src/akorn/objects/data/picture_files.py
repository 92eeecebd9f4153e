"""Pictures in files, read and resized on access: the base class of the sets in folders."""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image as PIL
from PIL import UnidentifiedImageError

from akorn.errors import AkornError
from akorn.objects.data.fitting import Box, Fit, fit_image, fit_mask, source_box, told
from akorn.objects.data.picture_sets import Image, Indices, Mask, Picture, Pictures, PictureSet, as_labels, stack
from akorn.objects.data.sets import SETS
from akorn.runtime import pictures

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
_THREADS = min(os.cpu_count() or 1, 16)
_ANY = "imagenet"  # the name for plain pictures
_LOOKED_AT = 20_000  # files whose first bytes are checked before any work; takes some seconds


def open_picture(path: Path) -> PIL.Image:
    """A picture in RGB, in memory; AkornError if the file is not a picture or is damaged."""
    return pictures.flatten(pictures.open_picture(path)).convert("RGB")


def open_mask(path: Path) -> Mask:
    """The numbers in a picture with a palette or in grey, int16 [H, W]; colours are numbered, with black as 0."""
    try:
        with PIL.open(path) as image:
            if image.mode in ("1", "L", "P", "I", "I;16"):
                return as_labels(np.asarray(image), str(path))
            pixels = np.asarray(image.convert("RGB")).astype(np.int32)
    except UnidentifiedImageError:
        raise AkornError(f"{path} is not a readable mask: expected a PNG") from None
    except AkornError:
        raise
    except (OSError, SyntaxError, ValueError, PIL.DecompressionBombError) as error:
        raise AkornError(f"{path} cannot be read as a mask ({_reason(error)})") from None
    codes = pixels @ np.array([1 << 16, 1 << 8, 1])
    colours = np.union1d(codes, [0])  # sorted: black comes first
    return np.searchsorted(colours, codes).astype(np.int16)


class FileSet:
    """Pictures in files, and their masks if a subclass reads them: a PictureSet.

    size: the side that all are resized to. fit: how those with other proportions are resized.
    """

    zoom = 1.0  # which part of the largest square in the middle is kept
    turn = True  # rotate as the camera was held; false for sets whose masks match the stored pixels
    bad: Literal["refuse", "skip"] = "refuse"  # what happens to damaged files that `image` meets

    def __init__(
        self, root: Path, paths: Sequence[Path], name: str, size: int | None = None, fit: Fit = "crop"
    ) -> None:
        self.root, self.paths, self.name = root, list(paths), name
        if not self.paths:
            raise AkornError(f"{root}: contains no pictures")
        self.size = SETS[name].size if size is None else size
        self.fit: Fit = fit
        self.clusters = SETS[name].clusters
        self.skipped: set[int] = set()
        source_box(self.size, self.size, self.size, fit, str(root))  # reports an impossible size before any work

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Picture:
        path = self.paths[index]
        image, real = self._read(index)
        labels, classes = self.masks(index)
        return Picture(image, self._fit_mask(labels, path, real), self._fit_mask(classes, path, real))

    def image(self, index: int) -> Image:
        """A picture alone, [3, size, size]. If damaged ones are skipped, the next readable one takes its place."""
        if self.bad == "refuse":
            return self._read(index)[0]
        for later in range(len(self)):
            place = (index + later) % len(self)
            if place in self.skipped:
                continue
            try:
                return self._read(place)[0]
            except AkornError as error:
                self.skipped.add(place)
                line = "%s; skipped, %d in all: the next picture takes its place"
                logging.getLogger(__name__).warning(line, error, len(self.skipped))
        raise AkornError(f"{self.root}: none of its {len(self):,} pictures can be read")

    def _read(self, index: int) -> tuple[Image, tuple[int, int]]:
        """A picture, and its size in the file."""
        least = 2 * round(self.size / self.zoom)  # twice the size loses nothing
        image, real = pictures.open_reduced(self.paths[index], least, turn=self.turn)
        self._box(*real, str(self.paths[index]))  # reports a refused size in the file
        image = pictures.flatten(image).convert("RGB")
        pixels = np.asarray(fit_image(image, self.size, self._box(image.height, image.width)))
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)), real

    def _box(self, height: int, width: int, where: str | None = None) -> Box:
        """The part that is kept; AkornError if the file, named by `where`, must be refused."""
        fit: Fit = "stretch" if self.fit == "refuse" and where is None else self.fit
        return source_box(height, width, self.size, fit, where or "", self.zoom)

    def _fit_mask(self, mask: Mask | None, path: Path, real: tuple[int, int]) -> Mask | None:
        if mask is None:
            return None
        if mask.shape != real:
            raise AkornError(f"{path} is {real[1]}×{real[0]}, but its mask is {mask.shape[1]}×{mask.shape[0]}")
        return fit_mask(mask, self.size, self._box(*real))

    def masks(self, index: int) -> tuple[Mask | None, Mask | None]:
        """Labels and classes of a picture, in the size of its file; a plain folder has none."""
        return None, None

    def load(self, indices: Indices) -> Pictures:
        """These pictures, read by several threads."""
        chosen = [int(index) for index in indices]
        with ThreadPoolExecutor(_THREADS) as pool:
            return stack(list(pool.map(self.__getitem__, chosen)), self.clusters, self.name)

    def look(self) -> None:
        """Check the first bytes of the files: AkornError for one that is not a picture or must be refused.

        One line says as which data set the folder is read, how many pictures will be resized, and from which sizes.
        A truncated file is noticed only when it is read; of very many files only a part, evenly spread, is checked.
        """
        every = -(-len(self.paths) // _LOOKED_AT)
        some = self.paths[::every]
        sizes: Counter[tuple[int, int]] = Counter()
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, (path, size) in enumerate(zip(some, pool.map(self._looked_size, some), strict=True)):
                if isinstance(size, AkornError):
                    if self.bad == "refuse":
                        raise size
                    self.skipped.add(number * every)
                    logging.getLogger(__name__).warning("%s; skipped, %d in all", size, len(self.skipped))
                    continue
                self._box(*size, str(path))
                sizes[size] += 1
        lines = [] if self.name == _ANY else [f"read as {self.name}, {self.clusters} clusters by default"]
        resizing = told(sizes, self.size, self.fit, self.zoom)
        if resizing is not None:
            seen = "" if len(some) == len(self.paths) else f" (checked {len(some):,} of {len(self.paths):,})"
            lines.append(resizing + seen)
        if lines:
            logging.getLogger(__name__).warning("%s: %s", self.root, "; ".join(lines))

    def _looked_size(self, path: Path) -> tuple[int, int] | AkornError:
        try:
            return self._size_of(path)
        except AkornError as error:
            return error

    def _size_of(self, path: Path) -> tuple[int, int]:
        return pictures.picture_size(path, turn=self.turn)

    def fingerprint(self) -> str:
        """SHA-256 of the files' names and sizes, and of the target size: reading all files would take hours."""
        digest = hashlib.sha256(f"{self.name} {self.size} {self.fit}".encode())
        for path in self.paths:
            name = path.relative_to(self.root) if path.is_relative_to(self.root) else path
            line = f"\n{name.as_posix()} {path.stat().st_size}"
            digest.update(line.encode(errors="surrogateescape"))  # file names are bytes, not always UTF-8
        return digest.hexdigest()


def looked_at(data: PictureSet) -> PictureSet:
    """Return the set; if it is in files, they are checked, and one line says what will be resized."""
    if isinstance(data, FileSet):
        data.look()
    return data


def find_pictures(
    folder: Path,
    limit: int | None = None,
    but: Collection[str] = (),
    held_out: Callable[[Path], Collection[str]] = lambda folder: (),
) -> list[Path]:
    """All pictures in a folder and in those below it, in the order of their names.

    Hidden ones are skipped, and so are its direct subfolders named in `but`. held_out: names, without endings, of the
    pictures directly in a folder that are skipped.
    """
    found: list[Path] = []
    visited = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(here)) in visited:  # a link to a parent folder
            folders.clear()
            continue
        visited.add(real)
        left_out = but if Path(here) == folder else ()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in left_out)
        paths = (Path(here, name) for name in sorted(names) if not name.startswith("."))
        skipped = held_out(Path(here))
        found.extend(path for path in paths if path.suffix.lower() in ENDINGS and path.stem not in skipped)
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def _reason(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
