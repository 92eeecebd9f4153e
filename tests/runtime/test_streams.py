"""Streams that are closed, full or abandoned by their reader."""

import errno
import io
import logging
import sys

import pytest

from akorn.runtime import streams


class Broken(io.StringIO):
    """A stream whose content goes nowhere."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def flush(self) -> None:
        raise OSError(self.number, "it is broken")  # EPIPE makes a BrokenPipeError of it


@pytest.mark.parametrize(("number", "status"), [(errno.EPIPE, 0), (errno.ENOSPC, 2)])
def test_what_cannot_be_written_at_the_end(
    number: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(number))
    assert streams.finish(0) == status
    told = capsys.readouterr().err
    assert told == ("akorn: standard output cannot be written (it is broken)\n" if status else "")


def test_a_refusal_is_one_escaped_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert streams.refuse("a\nb: \x1b[31mred") == 2
    assert capsys.readouterr().err == "akorn: a b: \\x1b[31mred\n"


def test_a_closed_input_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    streams.prepare()
    assert sys.stdin.read() == ""
    sys.stdin.close()


def test_warnings_are_escaped_too() -> None:
    streams.prepare()
    assert logging.lastResort is not None
    record = logging.LogRecord("akorn", logging.WARNING, "", 0, "%s: taken for shapes", ("\x1b[31mred",), None)
    assert logging.lastResort.format(record) == "\\x1b[31mred: taken for shapes"
