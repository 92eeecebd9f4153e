"""How fast a run is, how long it will take, and advice if that is hours."""

from __future__ import annotations

import math
from time import monotonic

_FIRST_STEPS, _FIRST_SECONDS = 5, 20.0  # an estimate is shown after either
_LONG = 600.0  # seconds; longer estimates get their own line
_HOURS = 3600.0  # seconds; longer runs on a CPU get advice


class Speed:
    """Seconds per step: the mean of the first measurements, and later a moving average.

    Args:
        step: how many are done.
        waits: whether the host waits for every step, as on a CPU. Then each one is measured except the first, which
            prepares and compiles. Otherwise only steps at which the host has waited for the device are measured.

    """

    def __init__(self, step: int, *, waits: bool) -> None:
        self.seconds = math.nan
        self.waits = waits
        self._count = -1 if waits else 0
        self._opened = monotonic()
        self._last = (step, self._opened)

    def measure(self, step: int) -> None:
        """Note that `step` has been reached and that the device has finished it."""
        now = monotonic()
        (before, then), self._last = self._last, (step, now)
        self._count += 1
        if self._count > 0 and step > before:
            seconds = max(now - then, 1e-9) / (step - before)
            weight = max(1 / self._count, 0.05 if self.waits else 0.3)
            self.seconds = seconds if math.isnan(self.seconds) else (1 - weight) * self.seconds + weight * seconds

    def leave_out(self, seconds: float) -> None:
        """Exclude time that was not spent on training steps from the speed."""
        step, then = self._last
        self._last = (step, then + seconds)

    @property
    def known(self) -> bool:
        """Whether enough steps were measured for an estimate."""
        enough = self._count >= _FIRST_STEPS or monotonic() - self._opened > _FIRST_SECONDS or not self.waits
        return enough and not math.isnan(self.seconds)

    def remark(self, left: int) -> str:
        """Steps per second and the time left, for the bar."""
        return f"{1 / self.seconds:.3g} steps/s  {_clock(left * self.seconds)} left" if self.known else "… steps/s"

    def estimate(self, left: int, quick: str | None) -> str | None:
        """One line on how long it will take, if that is long; `quick` is a recipe that takes minutes."""
        seconds = left * self.seconds
        if seconds < _LONG:
            return None
        text = f"about {_words(seconds)} for {left} steps of {self.seconds:.2g} s"
        if not self.waits or seconds < _HOURS:
            return text
        instead = f" or try `akorn train {quick}`, which learns within minutes," if quick else ""
        return f"{text} on this CPU: use a GPU,{instead} or let it run; Ctrl-C stops it with a checkpoint"


def _words(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
