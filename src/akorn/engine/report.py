"""What a run tells while it runs: a progress bar, `scalars.jsonl`, TensorBoard. Only the main process talks."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from akorn.engine.scalars import ScalarLog
from akorn.runtime.progress import progress_bar

_QUIET_SECONDS = 30.0  # between lines where the output is no terminal


class Report:
    """Opened around the loop; `scalars` is called at log steps, `note` for anything worth a line."""

    def __init__(self, name: str, out: Path, step: int, total: int, *, tensorboard: bool, main: bool) -> None:
        self.step, self.total, self.main, self.name = step, total, main, name
        self._stack = ExitStack()
        self._console = Console(stderr=True)
        self._last: tuple[int, float] = (step, time.monotonic())
        self._spoke = -float("inf")
        self._rate = 0.0
        self._tensorboard: Any = None
        if not main:
            return
        self._log = self._stack.enter_context(ScalarLog(out, step))
        if tensorboard:
            from torch.utils.tensorboard.writer import SummaryWriter

            # purge_step hides what an earlier, killed run wrote after the checkpoint
            make: Any = SummaryWriter
            self._tensorboard = make(str(out / "tensorboard"), purge_step=step + 1)
            self._stack.callback(self._tensorboard.close)
        bar = progress_bar(name, total, done=step, counted=True, console=self._console)
        self._bar = self._stack.enter_context(bar)

    def scalars(self, step: int, seconds: float, values: Mapping[str, float], *, progress: bool = True) -> None:
        """Log values of a step; with `progress` also move the bar."""
        if not self.main:
            return
        self._log.write(step, seconds, values)
        if self._tensorboard:
            for name, value in values.items():
                self._tensorboard.add_scalar(name, value, step)
        if progress:
            self._move(step, values.get("loss", float("nan")))

    def note(self, text: str) -> None:
        """Print one line."""
        if self.main:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def leave_out(self, seconds: float) -> None:
        """Leave time that did not go into training steps out of the speed."""
        step, then = self._last
        self._last = (step, then + seconds)

    def _move(self, step: int, loss: float) -> None:
        now = time.monotonic()
        before, then = self._last
        self._last = (step, now)
        if step > before and now > then:
            rate = (step - before) / (now - then)
            self._rate = rate if not self._rate else 0.7 * self._rate + 0.3 * rate
        left = (self.total - step) / self._rate if self._rate else float("nan")
        text = f"loss {loss:.4g}  {self._rate:.3g} steps/s  {_clock(left)} left"
        self._bar(step, remark=text)
        if not self._console.is_terminal and (now - self._spoke > _QUIET_SECONDS or step == self.total):
            self._spoke = now
            self.note(f"{self.name}: step {step}/{self.total}  {text}")

    def __enter__(self) -> "Report":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _clock(seconds: float) -> str:
    if seconds != seconds:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
