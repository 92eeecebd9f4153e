"""Atomic writes, and checks before long work that a file can be written. Imports no torch."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from akorn.errors import AkornError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` if the block succeeds, otherwise it is removed.

    It is in the same folder and has the same suffix. AkornError before the block if `path` cannot be written, and
    after it if something went wrong with the file.
    """
    check_writable(path)
    target = _followed(Path(path))
    # A name that no other process or thread uses. Not from `tempfile`, whose files only their owner can read.
    temporary = target.with_name(f".tmp-{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise AkornError(f"{path}: cannot be written ({_reason(error)})") from error
    finally:
        with suppress(OSError):  # after a success there is nothing left to remove
            temporary.unlink()


def check_writable(path: str | Path) -> None:
    """AkornError unless a file can be written at `path`; for use before long work."""
    target = _followed(Path(path))
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not target.parent.exists():
            raise AkornError(f"{path}: the folder {target.parent} does not exist") from None
        if not target.parent.is_dir():
            raise AkornError(f"{path}: {target.parent} is not a folder") from None
    except OSError as error:  # a name that is too long, a folder without permission
        raise AkornError(f"{path}: cannot be written ({_reason(error)})") from error
    else:
        if stat.S_ISDIR(mode):
            raise AkornError(f"{path}: this is a folder, expected a file to write")
        if not stat.S_ISREG(mode):  # a device or a pipe, which replacing would destroy
            raise AkornError(f"{path}: this is not an ordinary file, so it cannot be replaced")
    _try_writing(target.parent, path)


def make_folder(folder: str | Path) -> None:
    """Create a folder and its parents if they are missing; AkornError unless files can be written in it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AkornError(f"{folder}: the folder cannot be created ({_reason(error)})") from error
    _try_writing(Path(folder), folder)


def _try_writing(folder: Path, path: str | Path) -> None:
    """Try to write next to `path`: checking permissions is not enough, since the disk may be read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise AkornError(f"{path}: the folder {folder} cannot be written ({_reason(error)})") from error


def _followed(path: Path) -> Path:
    """The target of a link: the target is replaced and the link stays."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
