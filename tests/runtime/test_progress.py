"""The one progress bar: what it shows on a terminal, and that it is silent elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from akorn.runtime.progress import progress_bar


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_text_share_and_remark_are_shown() -> None:
    console = terminal()
    with progress_bar("counting", 8, done=2, counted=True, console=console) as bar:
        bar(4, remark="half way")
        bar.advance(2)
    assert "counting" in shown(console)
    assert "6/8" in shown(console)  # 4 and 2 more


def test_a_total_that_becomes_known_and_a_text_that_changes() -> None:
    console = terminal()
    with progress_bar("first", console=console) as bar:
        bar(1, 4, text="second")
    assert "second" in shown(console)
    assert " 25%" in shown(console)


def test_no_terminal_no_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with progress_bar("quiet", 2, console=console) as bar:
        bar(1)
        bar.advance(1)
    assert shown(console).strip() == ""


@pytest.mark.parametrize(("rank", "wanted"), [("1", True), ("0", False)])
def test_of_several_processes_one_speaks_and_only_when_wanted(
    monkeypatch: pytest.MonkeyPatch, rank: str, wanted: bool
) -> None:
    monkeypatch.setenv("RANK", rank)
    console = terminal()
    with progress_bar("quiet", 2, wanted=wanted, console=console) as bar:
        bar(1)
        bar.advance(1)
    assert shown(console) == ""
