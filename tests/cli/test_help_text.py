"""Help fits the terminal, and its paragraphs have no stray line breaks."""

import io
import os
import subprocess
import sys

import pytest

from akorn.cli import COMMANDS, main
from akorn.cli.help_text import Folded

HELPS = [[], *([name] for name in COMMANDS), ["data", "make", "clevr"], ["data", "pack"], ["train", "sudoku_quick"]]


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_fits_80_columns(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, told(words, capsys).splitlines())) <= 80


def test_help_at_a_very_narrow_terminal_is_that_of_40_columns() -> None:
    """In a process with little memory, of which tyro would take all with fewer than six columns."""
    resource = pytest.importorskip("resource")
    shown = [
        subprocess.run(
            [sys.executable, "-m", "akorn", "results", "--help"],
            capture_output=True,
            env={**os.environ, "COLUMNS": columns},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)),
            timeout=60,
        ).stdout
        for columns in ("1", "40")
    ]
    assert shown[0] == shown[1] != b""


def test_paragraphs_are_joined(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a wide terminal an option's text is one line, whatever the line breaks of its docstring."""
    monkeypatch.setenv("COLUMNS", "1000")
    shown = told(["solve"], capsys)
    assert "(`akorn eval` uses the 16 of training by default, as the paper does" in shown
    assert "summed over the steps (this needs --steps or --votes)." in shown


def test_folding_keeps_what_fits_and_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    text = "short\n\nusage: akorn " + "[--option] " * 9 + "\n" + "word " * 30 + "x" * 60
    print(text, file=Folded(stream))
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["short", "", "usage: akorn [--option] [--option]"]
    assert lines[3].startswith(" " * 7 + "[--option]")
    assert max(len(line) for line in lines if "x" not in line) <= 40
    assert stream.getvalue().split() == text.split()


@pytest.mark.parametrize(("name", "counts"), [("tetrominoes", (60000, 10000, 320)), ("shapes", (40000, 1000, 1000))])
def test_the_help_of_a_data_set_has_its_own_numbers(
    name: str, counts: tuple[int, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = " ".join(told(["data", "make", name], capsys).replace("│", " ").split())
    for kind, count in zip(("training", "validation", "test"), counts, strict=True):
        assert f"Number of {kind} pictures. (default: {count})" in shown
