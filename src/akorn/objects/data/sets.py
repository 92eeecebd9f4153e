"""Which data sets there are: each is registered once, in the module that draws or reads it. Torch-free.

    @SETS.add("shapes", clusters=5, size=40, channels=1, counts=(40_000, 1_000, 1_000))
    def block(rng, count): …                          # a generated set: how a block of pictures is drawn

    SETS.register("voc", DataSet(clusters=4, size=256))     # a set that is read from disk

    SETS.register("clevr", DataSet(…, render=rendered("clevr")))    # one that is rendered, scene by scene

The package imports these modules (`akorn.objects.data`), so the registry is always complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from akorn.errors import AkornError
from akorn.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    from akorn.objects.data.picture_sets import Image, Mask

    Draw = Callable[[np.random.Generator, int], tuple[Image, Mask]]
    Render = Callable[["Wanted"], tuple[Image, Mask | None]]

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

# Names of the splits in folders and files, in the order in which they are tried.
ALIASES: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation"),
    "test": ("test",),
}


@dataclass(frozen=True)
class Wanted:
    """Which pictures of a rendered set are wanted."""

    split: Split
    seed: int
    start: int
    count: int
    labels: bool
    progress: Callable[[int, int], None] | None = None
    device: str = "auto"
    """Where they are rendered."""
    samples: int | None = None
    """Rays per pixel; None for the usual number."""


@dataclass(frozen=True)
class DataSet:
    """What the paper's tables of settings (appendix) say about a data set."""

    clusters: int
    """"#clusters set for eval"."""
    size: int
    """"image size": the side of a picture."""
    channels: int = 3
    counts: tuple[int, int, int] | None = None
    """Numbers of pictures for training, validation and testing."""
    draw: Draw | None = None
    """For a generated set: a random generator and a number → that many pictures [N, C, H, W] and labels."""
    render: Render | None = None
    """For a set whose pictures are rendered one by one: which ones → pictures [N, C, H, W] and labels, if wanted."""


class Sets(Registry[DataSet]):
    """Data sets by name."""

    def __init__(self) -> None:
        super().__init__("data set")

    def add(
        self, name: str, *, clusters: int, size: int, counts: tuple[int, int, int], channels: int = 3
    ) -> Callable[[Draw], Draw]:
        """Register a generated set by the function that draws a block of its pictures."""

        def enter(draw: Draw) -> Draw:
            self.register(name, DataSet(clusters, size, channels, counts, draw))
            return draw

        return enter


class _Generated(Collection[str]):
    """The names of the generated sets that are registered now."""

    def __init__(self, sets: Sets) -> None:
        self._sets = sets

    def __iter__(self) -> Iterator[str]:
        return (name for name, about in self._sets.items() if about.draw is not None or about.render is not None)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


SETS = Sets()
GENERATED = _Generated(SETS)


def check_split(split: str) -> Split:
    """The split; AkornError if it is unknown."""
    for known in SPLITS:
        if split == known:
            return known
    raise AkornError(f"split is {split!r}, expected {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")


def check_limit(limit: int | None) -> None:
    """AkornError unless this is a valid limit on the number of pictures."""
    if limit is not None and limit < 1:
        raise AkornError(f"the number of pictures must be at least 1, got {limit}")
