"""Standard streams that may be closed, full, or unable to encode some characters. Imports no torch."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import Any

from akorn.runtime.text import printable


class _Printable(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))


def prepare() -> None:
    """Let the output accept any character, with ? for those its encoding lacks; a closed input counts as empty."""
    for stream in (sys.stdout, sys.stderr):  # None if there is no such stream
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if logging.lastResort is not None:  # warnings from readers, which contain file names
        logging.lastResort.setFormatter(_Printable())
    if sys.stdin is None:  # closed by the shell, as `<&-` does
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (for as long as the process lives)


def refuse(message: str) -> int:
    """Print one line on stderr that says what is wrong; returns the exit status."""
    with suppress(OSError, ValueError):  # stderr may be full or closed; the exit status still reports it
        print(f"akorn: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)
    return 2


def finish(status: int) -> int:
    """Flush the output; returns the exit status, which is 2 if stdout cannot be written.

    Python would do this at exit, with a traceback and status 120.
    """
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed the pipe
        silence(sys.stdout)
    except OSError as error:
        silence(sys.stdout)
        status = refuse(f"standard output cannot be written ({error.strerror or error})")
    try:
        if sys.stderr is not None and not sys.stderr.closed:
            sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
    return status


def silence(stream: Any) -> None:
    """Redirect a stream to nowhere, so that flushing its buffer cannot fail when Python exits."""
    with suppress(OSError, ValueError, AttributeError):  # a stream in a test has no file descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
