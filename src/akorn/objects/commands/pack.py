"""`akorn data pack DIR FILE`: the pictures of a folder, recompressed, in one file or in parts of a chosen size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from akorn.cli.common import CommonOptions, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import check_writable

if TYPE_CHECKING:
    from akorn.objects.data.picture_sets import PictureSet
    from akorn.runtime.packs import Entry

_MOST_SIDE = 2**12
_TOGETHER = 64  # pictures per thread being processed at a time
_NAMED = 20  # unreadable pictures that are named; the others are counted


@dataclass(frozen=True)
class Options(CommonOptions):
    """Pack the pictures of a folder into one file, recompressed: to train from, or to carry to another machine.

    Of Pascal VOC without masks, all photographs are packed except the 1,449 of val, which are for testing.
    """

    folder: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")
    ] = None
    """A folder of pictures, or any data set that akorn reads."""
    file: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE", help_behavior_hint="(required)")
    ] = None
    """The pack, which ends in .pack; in several parts it becomes FILE-00001-of-00003.pack and so on."""
    size: int = 128
    """The side of the packed pictures."""
    fit: Literal["crop", "stretch", "refuse"] = "crop"
    """How pictures get this size: crop keeps the largest square in the middle, stretch the whole picture; refuse stops
    instead."""
    quality: int = 90
    """Quality of the compression (WebP), from 1 to 100; 100 loses nothing."""
    part_mb: float | None = None
    """Size of a part in MB (10⁶ bytes); by default all pictures are in one file."""
    split: Literal["train", "valid", "test"] = "train"
    """Which part of the data, if it has several."""
    masks: bool = False
    """Pack the masks of objects and classes too, for scoring."""
    limit: int | None = None
    """Pack at most this many pictures, the first ones."""
    bad: Literal["skip", "refuse"] = "skip"
    """Pictures that cannot be read, or whose masks are missing: skip them, with their names and number, or stop."""


def run(options: Options) -> int:
    """Read, recompress and write the pictures."""
    folder, file = _check(options)
    from akorn.objects.data.layouts import load
    from akorn.runtime.packs import PackFacts, write_pack
    from akorn.runtime.progress import progress_bar

    data = load(folder, options.split, options.size, options.limit, fit=options.fit, labels=options.masks)
    bad: list[str] = []

    def failed(error: AkornError) -> None:
        if options.bad == "refuse":
            raise error
        bad.append(" ".join(str(error).split()))
        if len(bad) <= _NAMED:
            say(f"skipped: {bad[-1]}")

    facts = PackFacts(data.name, options.size, options.quality, split=options.split)
    with progress_bar(f"{len(data)} pictures", len(data)) as report:
        entries = _entries(data, options, failed, report)
        limit = None if options.part_mb is None else int(options.part_mb * 1e6)
        files = write_pack(file, entries, facts, limit)
    packed = len(data) - len(bad)
    if len(bad) > _NAMED:
        say(f"skipped: {len(bad) - _NAMED} more")
    if options.json:
        sizes = {str(path): path.stat().st_size for path in files}
        print_json({"pictures": packed, "skipped": len(bad), "files": sizes})
    else:
        total = sum(path.stat().st_size for path in files) / 1e6
        skipped = f", {len(bad):,} skipped" if bad else ""
        print(f"wrote {', '.join(map(str, files))}: {packed:,} pictures, {total:.1f} MB{skipped}")
    return 0


def _check(options: Options) -> tuple[Path, Path]:
    """The folder and the file; AkornError for impossible options, before any work."""
    from akorn.runtime.packs import SUFFIX, part_name

    folder, file = options.folder, options.file
    if folder is None or file is None:
        raise AkornError("akorn data pack DIR FILE: the folder or the file is missing")
    if file.suffix != SUFFIX:
        raise AkornError(f"{file}: the name of a pack must end in {SUFFIX}")
    for name, value, fine, expected in (
        ("size", options.size, 1 <= options.size <= _MOST_SIDE, f"from 1 to {_MOST_SIDE}"),
        ("quality", options.quality, 1 <= options.quality <= 100, "from 1 to 100"),
        ("part-mb", options.part_mb, options.part_mb is None or options.part_mb >= 0.01, "at least 0.01"),
        ("limit", options.limit, options.limit is None or options.limit >= 1, "at least 1"),
    ):
        if not fine:
            raise AkornError(f"--{name} must be {expected}, got {value}")
    check_writable(file)
    others = list(file.parent.glob(f"{file.stem}-[0-9]*-of-[0-9]*{SUFFIX}"))
    for path in (file, part_name(file, 1, 2), *others):
        if path.exists():
            raise AkornError(f"{path} already exists; choose another name or remove it")
    return folder, file


def _entries(
    data: PictureSet, options: Options, failed: Callable[[AkornError], None], report: Callable[[int, int], None]
) -> Iterator[Entry]:
    """The pictures in order, read and compressed by threads; what cannot be read goes to `failed`."""
    from akorn.runtime.packs import Entry, encode_mask, encode_picture

    names = _names(data)

    def make(index: int) -> Entry | AkornError:
        try:
            if not options.masks:
                return Entry(names(index), encode_picture(data.image(index), options.quality))
            picture = data[index]
            if picture.labels is None:
                return AkornError(f"{names(index)}: it has no mask")
            classes = None if picture.classes is None else encode_mask(picture.classes)
            return Entry(
                names(index), encode_picture(picture.image, options.quality), encode_mask(picture.labels), classes
            )
        except AkornError as error:
            return error

    workers = min(os.cpu_count() or 1, 16)
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(data), _TOGETHER * workers):
            block = range(start, min(start + _TOGETHER * workers, len(data)))
            for index, made in zip(block, pool.map(make, block), strict=True):
                if isinstance(made, AkornError):
                    failed(made)
                else:
                    yield made
                report(index + 1, len(data))


def _names(data: PictureSet) -> Callable[[int], str]:
    """The name of each picture: its path in the folder, or its number."""
    paths, root = getattr(data, "paths", None), getattr(data, "root", None)
    if paths is None or root is None:
        return lambda index: f"{index:08d}"
    return lambda index: (
        paths[index].relative_to(root) if paths[index].is_relative_to(root) else paths[index]
    ).as_posix()
