"""A short, seeded part of the fuzzer, and the streams that only another process has."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .run import fuzz

SHORT = 160  # every command and its help, what once broke it, and some at random
AKORN = f"{shlex.quote(sys.executable)} -m akorn"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_breaks() -> None:
    kinds, found = fuzz(SHORT, seed=0, seconds=60)
    assert kinds.total() == SHORT
    assert not found, "\n".join(map(str, found))


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (f"{AKORN} --help | true; exit ${{PIPESTATUS[0]}}", 0, ""),
        (f"{AKORN} models | true; exit ${{PIPESTATUS[0]}}", 0, ""),
        (f"{AKORN} recipes --help | true; exit ${{PIPESTATUS[0]}}", 0, ""),
        (f"{AKORN} solve - <&-", 2, "standard input"),
        (f"{AKORN} --help >/dev/full", 2, "No space left"),
        (f"{AKORN} models --json >/dev/full", 2, "No space left"),
        (f"{AKORN} models >&-", 0, ""),
        (f"{AKORN} nothing 2>/dev/full", 2, ""),
        (f"{AKORN} nothing 2>&-", 2, ""),
    ],
)
def test_streams(line: str, status: int, said: str, tmp_path: Path) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ended = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == status, ended.stderr
    assert ended.stderr.count("\n") == bool(said), ended.stderr
    assert said in ended.stderr
