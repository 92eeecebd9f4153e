"""`akorn train`, stopped: its exit status, and a last line with the command that continues."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from akorn.engine import checkpoint, scalars

WORDS = [
    *("train", "sudoku_akorn", "--model.channels", "16", "--model.heads", "2", "--model.steps", "1"),
    *("--data.count", "8", "--data.givens", "50", "60", "--train.batch-size", "4", "--train.steps", "100000"),
    *("--train.log-every", "1", "--train.no-tensorboard", "--train.compile", "no", "--device", "cpu"),
    *("--out", "my run"),
]


def stop(command: list[str], folder: Path, number: int) -> subprocess.CompletedProcess[str]:
    """Start a command, let its curves grow, and send it a signal."""
    curves = folder / "my run" / scalars.FILE
    size = curves.stat().st_size if curves.exists() else 0
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # what a shell in the background ignores, its children ignore too
    child = subprocess.Popen(
        command, cwd=folder, **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not curves.exists() or curves.stat().st_size <= size):
            time.sleep(0.05)
        time.sleep(0.2)
        child.send_signal(number)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    return subprocess.CompletedProcess(command, child.returncode, out, err)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_the_last_line_is_the_command_to_go_on_with(tmp_path: Path) -> None:
    steps = [0]
    command = [sys.executable, "-m", "akorn", *WORDS]
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        done = stop(command, tmp_path, number)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        last = done.stderr.splitlines()[-1]
        steps.append(checkpoint.load_newest(tmp_path / "my run").step)
        assert steps[-1] > steps[-2]
        assert f"sudoku_akorn: stopped after step {steps[-1]}, nothing is lost" in last
        told = shlex.split(last.partition("continue with: ")[2])
        assert told == ["python", "-m", "akorn", *WORDS, "--resume"]
        command = [sys.executable, *told[1:]]
    assert f"resuming from my run/checkpoints/step-{steps[1]:08d}" in done.stderr.replace("\n", "")
