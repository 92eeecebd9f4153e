"""SIGTERM ends a command as Ctrl-C does, so that workers end with it and temporary files go. Imports no torch."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STATUS = 128 + signal.SIGTERM
"""The usual exit status after SIGTERM, 143."""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: what tidies up after Ctrl-C also does after this."""


@contextmanager
def terminable() -> Iterator[list[Terminated]]:
    """While this lasts, the first SIGTERM raises Terminated; it is also in the list that this yields.

    A second one ends the process at once. Python calls handlers in the main thread only: elsewhere nothing changes, nor
    if the signal was ignored before. A forked child dies of the signal as usual.
    """
    seen: list[Terminated] = []
    process = os.getpid()

    def raise_it(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:
            signal.raise_signal(number)
        seen.append(Terminated())
        raise seen[0]

    ours = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if ours else signal.SIG_IGN
    if before != signal.SIG_DFL:
        yield seen
        return
    signal.signal(signal.SIGTERM, raise_it)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGTERM, before)
