"""Files that appear whole or not at all, and the question before long work: can this be written? Torch-free."""

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
    """A temporary path to write to; it takes the place of `path` if the block ends well, else it is removed.

    It lies in the same folder and has the same ending. AkornError before the block if `path` cannot be written, and
    after it if something went wrong with the file.
    """
    check_writable(path)
    target = _followed(Path(path))
    # A name that no other process or thread has. Not `tempfile`'s: its files are readable by their owner only.
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
    """AkornError unless a file can be written at `path`; for use before any long work is done for it."""
    target = _followed(Path(path))
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not target.parent.exists():
            raise AkornError(f"{path}: the folder {target.parent} does not exist") from None
        if not target.parent.is_dir():
            raise AkornError(f"{path}: {target.parent} is not a folder") from None
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise AkornError(f"{path}: cannot be written ({_reason(error)})") from error
    else:
        if stat.S_ISDIR(mode):
            raise AkornError(f"{path}: is a folder, expected a file to write")
        if not stat.S_ISREG(mode):  # a device or a pipe, which replacing would destroy
            raise AkornError(f"{path}: is no ordinary file, so it cannot be replaced")
    _try_writing(target.parent, path)


def make_folder(folder: str | Path) -> None:
    """Make a folder, with those above it, where it is missing; AkornError unless files can be written in it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AkornError(f"{folder}: the folder cannot be made ({_reason(error)})") from error
    _try_writing(Path(folder), folder)


def _try_writing(folder: Path, path: str | Path) -> None:
    """Try, for the sake of `path`: asking for the rights is not enough, the disk may be read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise AkornError(f"{path}: the folder {folder} cannot be written ({_reason(error)})") from error


def _followed(path: Path) -> Path:
    """Where a link leads: its target is replaced, and the link stays."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
