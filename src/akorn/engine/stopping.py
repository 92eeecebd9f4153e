"""Ctrl-C and SIGTERM during training: the current step is finished, a checkpoint is written, and the run ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from akorn.runtime import processes

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAVE = 1  # among the processes' requests: below any signal's number
_ECHO_SECONDS = 1.0  # within which a repeated signal counts as the same one: launchers pass it on, `timeout` sends two


class Interrupted(KeyboardInterrupt):
    """The run was asked to stop and has written a checkpoint. This is a KeyboardInterrupt."""

    def __init__(self, number: int, step: int, checkpoint: Path) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}; checkpoint: {checkpoint}")
        self.signal, self.step, self.checkpoint = number, step, checkpoint

    @property
    def status(self) -> int:
        """The usual exit status: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.signal


class Stopping:
    """A context that notes the first signal, and knows when a checkpoint is due by the clock.

    A second signal, at least a second later, does what it did before, which for Ctrl-C is to leave at once. Python
    calls handlers in the main thread only: a run in another thread is left alone, and so is a signal that was ignored
    before.

    minutes: time between checkpoints; 0 for none by the clock.
    """

    def __init__(self, minutes: float) -> None:
        self.signal = 0
        self._seconds = 60.0 * minutes
        self._saved = self._noted = time.monotonic()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self, logged: bool) -> tuple[bool, int]:
        """Whether to write a checkpoint now, and the signal to stop at, or 0: the same in all processes.

        logged: whether the step was logged. With NCCL the processes communicate only then: otherwise
        the hosts would wait for the GPUs at every step.
        """
        if not logged and processes.exchange_waits():
            return False, 0
        late = self._seconds > 0 and time.monotonic() - self._saved >= self._seconds
        wish = processes.largest(self.signal or (_SAVE if late else 0))
        return wish > 0, wish if wish > _SAVE else 0

    def saved(self) -> None:
        """Restart the clock."""
        self._saved = time.monotonic()

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.signal:
            self.signal, self._noted = number, now
            if processes.is_main():
                with suppress(OSError):  # not print, which the signal may have interrupted
                    os.write(2, b"\nstopping after this step, with a checkpoint; a second Ctrl-C stops immediately\n")
        elif now - self._noted >= _ECHO_SECONDS:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
