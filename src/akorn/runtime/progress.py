"""The progress bar: on stderr if that is a terminal, in the main process only. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Bar:
    """One line of progress; call it with what is done, and with the total once that is known."""

    def __init__(self, progress: Progress | None, line: TaskID | None) -> None:
        self._progress, self._line = progress, line
        self._done = 0

    def __call__(self, done: int, total: int | None = None, *, text: str | None = None, remark: str = "") -> None:
        """Show how much is done; `text` replaces the text before the bar, `remark` the text after it."""
        self._done = done
        if self._progress is None or self._line is None:
            return
        # for rich, None means "as before", and 0 of 0 means complete
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
    """A bar for the duration of the block; the total may become known later.

    Args:
        text: what is being done.
        total: of how much.
        done: how much was already done before.
        wanted: false for no bar; calls then do nothing.
        counted: show the counts, a remark and the time, and leave the bar on the screen at the end; by default it shows
            the percentage and the time left, and disappears.
        console: where to draw; by default stderr.

    """
    if not wanted or os.environ.get("RANK", "0") != "0":  # only the main process shows a bar
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
