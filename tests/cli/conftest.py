"""The command line as a person meets it: another process, its exit status and what it prints."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from akorn.cli import main

Akorn = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def akorn(tmp_path: Path) -> Akorn:
    """Run `python -m akorn …` in an empty folder."""

    def run(*words: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "akorn", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, text=True, timeout=240)

    return run


@pytest.fixture
def akorn_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Akorn:
    """The same in this process, which is quicker: torch is imported once."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        capfd.readouterr()
        status: object = 0
        try:
            main(list(map(str, words)))
        except SystemExit as end:
            status = end.code
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(words, int(status or 0), out, err)

    return run


def assert_refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit status 2 and one line on stderr that contains the parts; nothing on stdout."""
    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr
    assert result.stdout == ""
