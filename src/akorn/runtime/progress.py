"""The progress bar of every long job: on stderr, where that is a terminal, in one of several processes. Torch-free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Bar:
    """One line of progress; call it with what is done, and with the total where that is known only now."""

    def __init__(self, progress: Progress | None, line: TaskID | None) -> None:
        self._progress, self._line = progress, line
        self._done = 0

    def __call__(self, done: int, total: int | None = None, *, text: str | None = None, remark: str = "") -> None:
        """Show that so much is done; `text` replaces what stands before the bar, `remark` what stands behind it."""
        self._done = done
        if self._progress is None or self._line is None:
            return
        # rich takes None for "as before", and 0 of 0 for all
        self._progress.update(self._line, completed=done, total=total or None, description=text, remark=remark)

    def advance(self, count: int, text: str | None = None) -> None:
        """Show that `count` more are done."""
        self(self._done + count, text=text)


@contextmanager
def progress_bar(
    text: str,
    total: int | None = None,
    *,
    done: int = 0,
    wanted: bool = True,
    counted: bool = False,
    console: Console | None = None,
) -> Iterator[Bar]:
    """A bar that is there as long as the block runs, for a total that may become known later.

    Args:
        text: what is being done.
        total: of how much.
        done: how much of it was done before.
        wanted: false for no bar: calling it then does nothing.
        counted: show how many of how many, a remark and the time, and let the bar stay at the end; by default it shows
            percents and the time left, and vanishes.
        console: where to draw; by default stderr.

    """
    if not wanted or os.environ.get("RANK", "0") != "0":  # of the processes that a launcher started one speaks
        yield Bar(None, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

    console = console if console is not None else Console(stderr=True)
    columns: tuple[ProgressColumn, ...] = Progress.get_default_columns()
    if counted:
        remark = TextColumn("{task.fields[remark]}")
        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            remark,
            TimeElapsedColumn(),
        )
    with Progress(*columns, console=console, transient=not counted, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task(text, total=total, completed=done, remark=""))
