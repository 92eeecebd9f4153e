"""`akorn data make NAME DIR`: the generated sets of object discovery as npz files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json
from akorn.errors import AkornError
from akorn.objects.commands.make_scenes import described, make_scenes
from akorn.objects.data.sets import GENERATED, SETS, Split
from akorn.runtime.files import make_folder

NAMES = GENERATED
"""Data sets that this command makes."""


_PAPER = "(default: the paper's)"


@dataclass(frozen=True)
class Options(CommonOptions):
    """Make pictures with masks: writes train.npz, valid.npz and test.npz with the keys images and labels.

    Scenes (clevr, clevrtex and its variants) are rendered. Their files also have depth, normals (times 127) and, in
    train-scenes.jsonl and so on, one line of JSON for each scene. With --count, --valid or --test only these parts of
    scenes are written.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = "shapes"
    """The data set."""
    folder: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")
    ] = None
    """The folder, created if it does not exist."""
    count: Annotated[int | None, tyro.conf.arg(help_behavior_hint=_PAPER)] = None
    """Number of training pictures."""
    valid: Annotated[int | None, tyro.conf.arg(help_behavior_hint=_PAPER)] = None
    """Number of validation pictures."""
    test: Annotated[int | None, tyro.conf.arg(help_behavior_hint=_PAPER)] = None
    """Number of test pictures."""
    size: int | None = None
    """For scenes: the side of pictures, after the benchmark's crop; by default 128."""
    objects: tuple[int, int] | None = None
    """For scenes: the smallest and the largest number of objects; by default 3 6, for clevrtex 3 10."""
    samples: int | None = None
    """For scenes: rays per pixel, by default 16. More give less noise and take longer."""
    geometry: bool = True
    """For scenes: whether to write depth and normals."""


def options_of(name: str) -> type[Options]:
    """The options of one set, with its own numbers of pictures in their help."""
    counts = dict(zip(("count", "valid", "test"), SETS[name].counts or (), strict=False))
    told = [
        (option, Annotated[int | None, tyro.conf.arg(help_behavior_hint=f"(default: {count})")], None)
        for option, count in counts.items()
    ]
    # The same name and module: tyro looks there for the docstrings of options.
    same = {"__module__": __name__, "__doc__": Options.__doc__}
    return dataclasses.make_dataclass("Options", told, bases=(Options,), frozen=True, namespace=same)


def run(options: Options) -> int:
    """Generate the pictures and write the three files."""
    check_seed(options.seed)
    from akorn.objects.data.generated import default_count
    from akorn.objects.data.sets import SPLITS

    folder = options.folder
    if folder is None:
        raise AkornError(f"akorn data make {options.name} DIR: the folder is missing")
    scenes = SETS[options.name].render is not None
    _check_scenes(options, scenes)
    asked = (options.count, options.valid, options.test)
    counts = {
        split: default_count(options.name, split) if count is None else count
        for split, count in zip(SPLITS, asked, strict=True)
    }
    for option, split in zip(("--count", "--valid", "--test"), SPLITS, strict=True):
        if counts[split] < 1:
            raise AkornError(f"{option} must be at least 1, got {counts[split]}")
    if scenes and any(count is not None for count in asked):
        counts = {split: counts[split] for split, count in zip(SPLITS, asked, strict=True) if count is not None}
    files = {split: folder / f"{split}.npz" for split in counts}
    for path in (path for file in files.values() for path in (file, described(file))):
        if path.exists():
            raise AkornError(f"{path} already exists; choose another folder or remove it")
    make_folder(folder)
    if scenes:
        make_scenes(options, counts, files)
    else:
        _generate(options, counts, files)
    if options.json:
        print_json({split: str(file) for split, file in files.items()})
    else:
        print("wrote " + ", ".join(f"{file} ({counts[split]} pictures)" for split, file in files.items()))
    return 0


def _check_scenes(options: Options, scenes: bool) -> None:
    """AkornError for options that scenes cannot have, or that only they have."""
    if not scenes:
        given = [f"--{name}" for name in ("size", "objects", "samples") if getattr(options, name) is not None]
        if not options.geometry:
            given.append("--no-geometry")
        if given:
            raise AkornError(f"{given[0]} is for scenes that are rendered, not for {options.name}")
        return
    from akorn.scenes.families import family_of
    from akorn.scenes.layout import MOST_RAYS, MOST_SIDE

    for name, most in (("size", MOST_SIDE), ("samples", MOST_RAYS)):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= most:
            raise AkornError(f"--{name} must be from 1 to {most:,}, got {value:,}")

    family_of(options.name, options.objects)
    from akorn.objects.data.scenes import renderer_device

    renderer_device(options.device)  # a mistake is reported before a folder is made


def _generate(options: Options, counts: Mapping[Split, int], files: Mapping[Split, Path]) -> None:
    """Draw the pictures of other sets, part by part."""
    from akorn.objects.data.generated import generate
    from akorn.objects.data.npz import write_npz
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
