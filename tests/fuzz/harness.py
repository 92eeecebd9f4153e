"""Runs one case in a worker process and says what is wrong with akorn's reaction."""

from __future__ import annotations

import contextlib
import io
import multiprocessing as mp
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STATUSES = (0, 1, 2, 130, 143)
MEMORY = 12 * 2**30  # of addresses, per worker: what needs more is told that there is too little


@dataclass(frozen=True)
class Case:
    """One input: the words of a command, damaged files that lie among the valid ones, and standard input."""

    kind: str
    words: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    lines: int = 1
    """How many lines there may be on stderr beside exit status 2."""
    good: bool = False
    """Whether nothing is wrong with it: the exit status must be 0, or 1 where no answer was found."""


@dataclass(frozen=True)
class Finding:
    """What should not have happened."""

    case: Case
    what: str
    detail: str

    def __str__(self) -> str:
        files = {name: content[:60] for name, content in self.case.files.items()}
        return f"{self.case.kind}: {self.what}\n  akorn {self.case.words!r}\n  files {files!r}\n  {self.detail}"


class Runner:
    """Runs cases one after the other in a separate process, which is replaced if it hangs or dies."""

    def __init__(self, seeds: Path, seconds: float = 60.0) -> None:
        self.seeds, self.seconds = seeds, seconds
        self._process: Any = None

    def run(self, case: Case) -> Finding | None:
        """What is wrong with how a case ended; None for nothing."""
        if self._process is None:
            self._start()
        self._pipe.send(case)
        if not self._pipe.poll(self.seconds):
            self.close()
            return Finding(case, "hang", f"more than {self.seconds:g} s")
        try:
            told = self._pipe.recv()
        except EOFError:
            self.close()
            return Finding(case, "death", "the process died")
        return None if told is None else Finding(case, *told)

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self.seeds), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()  # ready: torch is imported, which is not the first case's doing

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None


def _work(pipe: Any, seeds: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    import akorn.cli  # noqa: F401

    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    pipe.send("ready")
    while True:
        pipe.send(attempt(pipe.recv(), seeds))


def attempt(case: Case, seeds: Path) -> tuple[str, str] | None:
    """Run a case in this process, in a fresh copy of the seeds; (what, detail) of a finding, or None."""
    with tempfile.TemporaryDirectory() as name, _inside(Path(name, "here"), seeds) as folder:
        for path, content in case.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)
        before = {path: path.read_bytes() for path in _files(folder)}
        status, crash, out, err = _call(case)
        if crash is not None:
            return "traceback", crash
        if status not in STATUSES or (case.good and status not in (0, 1)):
            return "status", f"{status}: {err[-300:]}"
        lines = err.splitlines()
        if "Traceback" in err or (status == 2 and not 1 <= len(lines) <= case.lines):
            return "lines", f"{len(lines)} lines beside status {status}: {err[-600:]}"
        if any(ord(letter) < 32 and letter not in "\n\r\t" for letter in out + err):
            return "escape codes", repr((out + err)[-300:])
        after = {path: path.stat().st_size for path in _files(folder)}
        partial = [p for p, size in after.items() if p not in before and (p.name.startswith(".tmp-") or not size)]
        partial = [p for p in partial if p.name != ".lock"]
        if partial:
            return "partial file", ", ".join(map(str, partial))
        if lost := [path for path in before if path not in after]:
            return "lost file", ", ".join(map(str, lost))
    return None


def _files(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


@contextlib.contextmanager
def _inside(folder: Path, seeds: Path) -> Iterator[Path]:
    shutil.copytree(seeds, folder)
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir("/")


def _call(case: Case) -> tuple[int, str | None, str, str]:
    """Exit status, what was raised past `main`, and what was printed."""
    from akorn.cli import main

    streams = sys.stdin, sys.stdout, sys.stderr
    told = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin), encoding="utf-8")
    sys.stdout, sys.stderr = told
    status, crash, start = 0, None, time.monotonic()
    try:
        main(case.words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException as error:
        trace = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(trace))
        crash = f"{type(error).__name__}: {str(error)[:200]} ({places}, {time.monotonic() - start:.1f} s)"
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    texts = []
    for stream in told:
        with contextlib.suppress(ValueError):  # closed by main
            stream.flush()
        texts.append("" if stream.closed else stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return status, crash, texts[0], texts[1]
