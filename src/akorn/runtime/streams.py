"""Standard streams that may be closed, full, or without some of our signs. Torch-free."""

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
    """Let the output take any sign, printing a question mark where its encoding lacks it; a closed input is empty."""
    for stream in (sys.stdout, sys.stderr):  # None where there is no such stream
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if logging.lastResort is not None:  # warnings of the readers, which name files
        logging.lastResort.setFormatter(_Printable())
    if sys.stdin is None:  # closed by the shell, as `<&-` does
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (for as long as the process lives)


def refuse(message: str) -> int:
    """Say on stderr, in one line, what is wrong; the exit status for it."""
    with suppress(OSError, ValueError):  # stderr may be full or closed: the status still tells
        print(f"akorn: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)
    return 2


def finish(status: int) -> int:
    """Write what is still to be written; the exit status, which is 2 where stdout cannot take it.

    Python would do this at its end, with a traceback of its own and the status 120.
    """
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
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
    """Lead a stream nowhere, so that what is still in its buffer cannot fail when Python ends."""
    with suppress(OSError, ValueError, AttributeError):  # a stream of a test has no number
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
