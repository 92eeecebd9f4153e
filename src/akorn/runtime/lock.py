"""One run at a time in a folder: the system's lock on a file, which it gives back however the process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from akorn.errors import AkornError

if sys.platform != "win32":
    import fcntl

FILE = ".lock"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; AkornError if another process, which it names, is training there.

    On Windows, and on disks that know no locks, nothing is held.
    """
    if sys.platform == "win32":
        yield
        return
    with (folder / FILE).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read().strip() or "unknown"
            raise AkornError(f"{folder}: another run (process {who}) writes into it; wait for it, or stop it") from None
        except OSError:  # such as some network disks
            yield
            return
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
