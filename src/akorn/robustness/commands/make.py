"""`akorn data make cifar10-c DIR`: the corrupted test set, which we make from CIFAR-10 ourselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json
from akorn.errors import AkornError
from akorn.robustness.corruptions.constants import ALL, COMMON, EXTRA, check_name

NAMES = ("cifar10-c",)

_CORRUPTIONS = (
    f"Any of {', '.join(COMMON)}, which are the 15 of the benchmark, or common for all of these; "
    f"{', '.join(EXTRA)}, or extra for these; or all."
)


@dataclass(frozen=True)
class Options(CommonOptions):
    """Make CIFAR-10-C from CIFAR-10: `akorn data make cifar10-c DIR --data CIFAR_FOLDER`.

    Writes one .npy file per corruption in the published layout, labels.npy, and README.json, which says how they were
    made. The corruptions follow the published definitions and constants with our own random numbers. Frost needs
    photographs: those of the package imagecorruptions if it is installed (pip install --no-deps imagecorruptions).
    Otherwise a procedural texture of ice crystals replaces them. README.json says which was used. Figures from this set
    are ours, not those of the published set.
    """

    name: Annotated[Literal["cifar10-c"], tyro.conf.Positional] = "cifar10-c"
    folder: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")
    ] = None
    """The folder, created if it does not exist."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="CIFAR_FOLDER")] = None
    """CIFAR-10: the folder cifar-10-batches-py, or cifar-10-python.tar.gz."""
    corruptions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...", help=_CORRUPTIONS)] = ("common",)
    severities: str = "1-5"
    """A severity from 1 to 5, several (1,3,5), or a range (1-5)."""
    split: Literal["test", "valid"] = "test"
    """Corrupt the test pictures, or the 5,000 validation pictures, which are for choosing models (akorn eval --split
    valid)."""
    limit: int | None = None
    """Corrupt only this many pictures, the first ones."""


def run(options: Options) -> int:
    """Corrupt, and write all files."""
    check_seed(options.seed)
    if options.folder is None:
        raise AkornError("akorn data make cifar10-c DIR: the folder is missing")
    if options.data is None:
        raise AkornError("akorn data make cifar10-c needs --data, the folder of CIFAR-10 (cifar-10-batches-py)")
    if options.limit is not None and options.limit < 1:
        raise AkornError(f"--limit must be at least 1, got {options.limit}")
    names, severities = parse_corruptions(options.corruptions), parse_severities(options.severities)

    from akorn.robustness.corruptions.store import make_cifar10c
    from akorn.robustness.data.held_out import load_split
    from akorn.runtime.progress import progress_bar

    pictures = load_split(options.data, options.split).take(slice(options.limit))
    about = {
        "source": f"CIFAR-10, {options.split}",
        "split": options.split,
        "source_fingerprint": pictures.fingerprint(),
    }
    with progress_bar("", len(pictures) * len(names) * len(severities)) as bar:
        files = make_cifar10c(
            options.folder,
            pictures.images.numpy(),
            pictures.labels.numpy(),
            names,
            severities,
            options.seed,
            about=about,
            progress=lambda name, done: bar.advance(done, name),
        )
    if options.json:
        print_json({file.stem: str(file) for file in files})
    else:
        print(
            f"wrote {len(names)} corruptions of {len(pictures)} pictures at severities "
            f"{', '.join(map(str, severities))} to {options.folder}; figures from them are ours, not CIFAR-10-C's"
        )
    return 0


def parse_corruptions(words: tuple[str, ...]) -> list[str]:
    """Names in the usual order, from names and the words common, extra and all."""
    groups = {"common": COMMON, "extra": EXTRA, "all": ALL}
    wanted: set[str] = set()
    for word in (part for text in words for part in text.split(",")):
        if word not in groups:
            check_name(word)
        wanted.update(groups.get(word, (word,)))
    return [name for name in ALL if name in wanted]


def parse_severities(text: str) -> list[int]:
    """Numbers from 1 to 5: `5`, `1,3,5` or `1-5`."""
    found: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        high = high if dash else low
        # One digit each: other strings that int() takes, such as "٣" or "1_0", are not severities.
        if low not in tuple("12345") or high not in tuple("12345") or low > high:
            raise AkornError(f"--severities must be from 1 to 5, such as 5, 1,3,5 or 1-5, got {text!r}")
        found.update(range(int(low), int(high) + 1))
    return sorted(found)
