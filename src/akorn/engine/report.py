"""What a run reports: a progress bar, `scalars.jsonl`, TensorBoard. Only the main process reports."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from types import TracebackType

from rich.console import Console

from akorn.engine.scalars import ScalarLog
from akorn.engine.speed import Speed
from akorn.engine.tensorboard import TensorBoardLog
from akorn.errors import AkornError
from akorn.runtime.progress import progress_bar

_QUIET_SECONDS = 30.0  # between lines if the output is not a terminal
_MOVE_SECONDS = 0.1  # between updates of the bar, so that a fast run does not wait for it


class Report:
    """Opened around the loop: `step` is called after every step, `scalars` at log steps, `note` for a line of text.

    waits: whether the host waits for every step, as on a CPU. quick: a recipe to suggest if this one takes hours.
    """

    def __init__(
        self,
        name: str,
        out: Path,
        step: int,
        total: int,
        *,
        tensorboard: bool,
        main: bool,
        waits: bool = False,
        quick: str | None = None,
    ) -> None:
        self.total, self.main, self.name = total, main, name
        self._stack = ExitStack()
        self._console = Console(stderr=True)
        self._speed = Speed(step, waits=waits)
        self._quick = quick
        self._loss: float | None = None
        self._estimated = False
        self._spoke = self._moved = -float("inf")
        self._tensorboard: TensorBoardLog | None = None
        if not main:
            return
        self._log = self._stack.enter_context(ScalarLog(out, step))
        if tensorboard:
            self._tensorboard = self._stack.enter_context(TensorBoardLog(out, step))
        bar = progress_bar(name, total, done=step, counted=True, console=self._console)
        self._bar = self._stack.enter_context(bar)
        self._bar(step, remark="the first step takes longer")

    def scalars(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Log the values of a step; the host has waited for them."""
        if not self.main:
            return
        self._log.write(step, seconds, values)
        if self._tensorboard:
            self._tensorboard.write(step, values)
        if not self._speed.waits and "loss" in values:
            self._speed.measure(step)

    def note(self, text: str) -> None:
        """Print one line."""
        if self.main:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def leave_out(self, seconds: float) -> None:
        """Exclude time that was not spent on training steps from the speed."""
        self._speed.leave_out(seconds)

    def step(self, step: int, loss: float | None) -> None:
        """Move the bar, without waiting for the device; `loss` is the mean since the last log, if known."""
        if not self.main:
            return
        if self._speed.waits:
            self._speed.measure(step)
        if loss is not None:
            self._loss = loss
        now = monotonic()
        if step == self.total or now - self._moved >= _MOVE_SECONDS:
            self._moved = now
            self._bar(step, remark=self._remark(step))
        late = self._speed.known and now - self._spoke > _QUIET_SECONDS
        if not self._console.is_terminal and (late or step == self.total):
            self._spoke = now
            self.note(f"{self.name}: step {step}/{self.total}  {self._remark(step)}")
        if self._speed.known and not self._estimated:
            self._estimated = True
            if estimate := self._speed.estimate(self.total - step, self._quick):
                self.note(f"{self.name}: {estimate}")

    def _remark(self, step: int) -> str:
        loss = "" if self._loss is None else f"loss {self._loss:.4g}  "
        return loss + self._speed.remark(self.total - step)

    def __enter__(self) -> "Report":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stack.close()
        except AkornError:  # a full disk has already been reported
            if error is None:
                raise
