"""A disk that is full from the k-th operation on: opening, writing, flushing, renaming or making a folder fails."""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


class FullDisk(AbstractContextManager["FullDisk"]):
    """Counts the operations that a disk may refuse, in all threads, and refuses those from number `first` on.

    The write at which the disk is full leaves half of its bytes. Reading and removing always work, and so do the
    process's streams. first: from 1; 0 to refuse none.
    """

    def __init__(self, first: int = 0) -> None:
        self.first, self.count = first, 0
        self.renamed: list[Path] = []
        """Where renaming has led."""
        self._lock = threading.Lock()
        self._before: list[tuple[Any, str, Any]] = []

    def full(self) -> bool:
        """Count one operation, and say whether there is no room for it."""
        with self._lock:
            self.count += 1
            return 0 < self.first <= self.count

    def check(self) -> None:
        """Count one operation; OSError if there is no room for it."""
        if self.full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __enter__(self) -> FullDisk:
        for name in ("mkdir", "fsync"):
            self._replace(os, name, self._checked(getattr(os, name)))
        for name in ("rename", "replace"):
            self._replace(os, name, self._renaming(getattr(os, name)))
        self._replace(os, "open", self._os_open(os.open))
        opening = self._open(io.open)
        for module in (io, builtins):
            self._replace(module, "open", opening)
        return self

    def __exit__(self, *error: object) -> None:
        for module, name, function in self._before:
            setattr(module, name, function)

    def _replace(self, module: Any, name: str, function: Any) -> None:
        self._before.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def _checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*words: Any, **options: Any) -> Any:
            self.check()
            return function(*words, **options)

        return checked

    def _renaming(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def rename(source: Any, target: Any, **options: Any) -> None:
            self.check()
            function(source, target, **options)
            self.renamed.append(Path(target))

        return rename

    def _os_open(self, function: Callable[..., int]) -> Callable[..., int]:
        def open_(path: Any, flags: int, *words: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                self.check()
            return function(path, flags, *words, **options)

        return open_

    def _open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Raw(io.FileIO):
            def write(self, content: Any) -> int:
                if disk.full():
                    view = memoryview(content)
                    super().write(view[: len(view) // 2])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(content)

        def open_(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
                  newline: Any = None, closefd: bool = True, opener: Any = None) -> Any:  # fmt: skip
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return function(file, mode, buffering, encoding, errors, newline, closefd, opener)
            self.check()
            raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

        return open_
