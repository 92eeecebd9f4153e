"""SIGTERM: a command tidies up and ends its workers, as after Ctrl-C, and the handler of before comes back."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from akorn.cli import main
from akorn.runtime.signals import Terminated, terminable


def test_the_first_sigterm_raises_and_the_handler_goes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with terminable() as seen, pytest.raises(Terminated):
        signal.raise_signal(signal.SIGTERM)
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_was_chosen_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for handler in (signal.SIG_IGN, lambda number, frame: None):
        before = signal.signal(signal.SIGTERM, handler)
        try:
            with terminable() as seen:
                signal.raise_signal(signal.SIGTERM)
            assert not seen
        finally:
            signal.signal(signal.SIGTERM, before)
    inside = []
    thread = threading.Thread(target=lambda: [inside.append(1) for _ in [0] if terminable().__enter__() == []])
    thread.start()
    thread.join()
    assert inside == [1]  # no error where Python allows no handler


def test_a_command_ends_with_143(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.cli._run", lambda name, words: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as end:
        main(["models"])
    assert end.value.code == 143


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_dies_of_it() -> None:
    with terminable():
        child = os.fork()
        if not child:
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def test_workers_end_with_the_command(tmp_path: Path) -> None:
    """They hold its output: if one of them stayed, whoever reads it would wait forever."""
    words = [sys.executable, "-m", "akorn", "data", "make", "sudoku", "boards", "--difficulty", "hard"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, **pipes) as process:
        while not (tmp_path / "boards").exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(2)  # by now the workers are at work
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert b"Traceback" not in errors
    assert list((tmp_path / "boards").iterdir()) == []
