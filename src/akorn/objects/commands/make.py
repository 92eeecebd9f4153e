"""`akorn data make NAME DIR`: the generated sets of object discovery as npz files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json
from akorn.errors import AkornError
from akorn.objects.data.sets import GENERATED, SETS
from akorn.runtime.files import make_folder

NAMES = GENERATED
"""Data sets that this command makes."""


def _of_each(split: int) -> str:
    """How many pictures a split has in the paper, for each set."""
    counts = {name: SETS[name].counts for name in GENERATED}
    return ", ".join(f"{count[split]:,} of {name}" for name, count in counts.items() if count is not None)


@dataclass(frozen=True)
class Options(CommonOptions):
    """Make pictures with masks: writes train.npz, valid.npz and test.npz with the keys images and labels."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = "shapes"
    """The data set."""
    folder: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")
    ] = None
    """The folder, created if it does not exist."""
    count: Annotated[int | None, tyro.conf.arg(help=f"Number of training pictures; by default {_of_each(0)}.")] = None
    valid: Annotated[int | None, tyro.conf.arg(help=f"Number of validation pictures; by default {_of_each(1)}.")] = None
    test: Annotated[int | None, tyro.conf.arg(help=f"Number of test pictures; by default {_of_each(2)}.")] = None


def run(options: Options) -> int:
    """Generate the pictures and write the three files."""
    check_seed(options.seed)
    from akorn.objects.data.generated import default_count, generate
    from akorn.objects.data.npz import write_npz
    from akorn.objects.data.sets import SPLITS

    folder = options.folder
    if folder is None:
        raise AkornError(f"akorn data make {options.name} DIR: the folder is missing")
    asked = (options.count, options.valid, options.test)
    counts = {
        split: default_count(options.name, split) if count is None else count
        for split, count in zip(SPLITS, asked, strict=True)
    }
    for option, split in zip(("--count", "--valid", "--test"), SPLITS, strict=True):
        if counts[split] < 1:
            raise AkornError(f"{option} must be at least 1, got {counts[split]}")
    files = {split: folder / f"{split}.npz" for split in SPLITS}
    for file in files.values():
        if file.exists():
            raise AkornError(f"{file} already exists; choose another folder or remove it")
    make_folder(folder)
    from akorn.runtime.progress import progress_bar

    total = sum(counts.values())
    done = 0
    with progress_bar(f"{total} pictures of {options.name}", total) as bar:
        for split, file in files.items():
            before = done

            def advance(made: int, _: int, before: int = before) -> None:
                bar(before + made)

            write_npz(file, generate(options.name, split, counts[split], options.seed, progress=advance))
            done += counts[split]
    if options.json:
        print_json({split: str(file) for split, file in files.items()})
    else:
        print("wrote " + ", ".join(f"{file} ({counts[split]} pictures)" for split, file in files.items()))
    return 0
