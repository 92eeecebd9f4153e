"""Whole files or none: write beside the target under a temporary name, then put it in place in one step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from akorn.errors import AkornError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` if the block ends well, else it is removed."""
    target = Path(path)
    if not target.parent.is_dir():
        raise AkornError(f"cannot write {target}: the folder {target.parent} does not exist")
    if target.is_dir():
        raise AkornError(f"cannot write {target}: it is a folder")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise AkornError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # after a success there is nothing left to remove
            temporary.unlink()
