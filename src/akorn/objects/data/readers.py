"""Which layouts of files and folders can be read: each is registered once, in the module that reads it. Torch-free.

    @READERS.add("VOC")
    def open_voc(path: Path, asked: Asked) -> Found | None: …      # None if the path holds something else

`load` tries one reader after another, in the order in which the package imports their modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from akorn.objects.data.sets import Split
from akorn.registry import Registry

if TYPE_CHECKING:
    from akorn.objects.data.fitting import Fit
    from akorn.objects.data.picture_files import FileSet
    from akorn.objects.data.picture_sets import Pictures

    Found = Pictures | FileSet


@dataclass(frozen=True)
class Asked:
    """What is requested from a file or folder."""

    split: Split = "train"
    size: int | None = None
    """The side that pictures are resized to, by `fit`."""
    limit: int | None = None
    """At most this many pictures, the first ones."""
    fit: Fit = "crop"
    labels: bool = True
    """Whether arrays of masks are needed; masks in files are read only on access."""


class Readers(Registry[Callable[[Path, Asked], "Found | None"]]):
    """Readers by what they read, in words that error messages can list."""

    def __init__(self) -> None:
        super().__init__("layout")

    def add(
        self, what: str
    ) -> Callable[[Callable[[Path, Asked], Found | None]], Callable[[Path, Asked], Found | None]]:
        """Register a function that opens a path, or returns None if it does not know the layout."""

        def enter(read: Callable[[Path, Asked], Found | None]) -> Callable[[Path, Asked], Found | None]:
            self.register(what, read)
            return read

        return enter


READERS = Readers()
