"""One run at a time in a folder: a system lock on a file, released however the process ends."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from akorn.errors import AkornError

if sys.platform != "win32":
    import fcntl

FILE = ".lock"
_NUMBER = re.compile(rb"\d{0,20}\s*")  # a run writes its process id into the file


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; AkornError, with the process id, if another process is training there.

    A link in place of the lock is not followed, and a file that no run has written is left unchanged: otherwise whoever
    put it there could have any file overwritten. On Windows, and on disks without locks, no lock is held.
    """
    if sys.platform == "win32":
        yield
        return
    handle = _open(folder / FILE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(handle, 64, 0).decode(errors="replace").strip() or "unknown"
            raise AkornError(
                f"{folder}: another run (process {who}) is writing into it; wait for it, or stop it"
            ) from None
        except OSError:  # such as some network disks
            yield
            return
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """Open or create the lock file; AkornError unless it is a plain file with one name that a run has written."""
    try:
        # non-blocking: a pipe would wait for its other end
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # how systems report a link
            raise AkornError(f"{path}: this is a link, which a run does not follow; remove it") from None
        raise
    about = os.fstat(handle)
    plain = stat.S_ISREG(about.st_mode) and about.st_nlink == 1
    if not plain or not _NUMBER.fullmatch(os.pread(handle, 64, 0)):
        os.close(handle)
        raise AkornError(
            f"{path}: this is not the lock of a run, so it is not changed: remove it, or choose another folder"
        )
    return handle
