"""Average linkage of many pictures on several cores, by helper processes: threads would wait for Python's lock.

A round of merges is dozens of short NumPy calls, so two threads are hardly quicker than one. A helper reads points from
its standard input and writes trees to its standard output. It imports NumPy but not torch, starts when there is enough
to do, stays for the next pictures, and ends when this process does, which closes its input. Where helpers cannot
start or one is lost, threads of this process do the work.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from akorn.objects import linkage
from akorn.objects.linkage_distances import Floats, Ints, Room

Rows = tuple[Ints, Floats, float]

_ENOUGH = 0.4  # seconds of work, of all calls so far, from which on it pays to start helpers
_START = "import sys; sys.path[:] = sys.argv[1:]; from akorn.objects.linkage_helpers import serve; serve()"
_SETTINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # memory of one picture is kept for the next: page faults cost a tenth
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
}


def link_all(pictures: Sequence[Floats], several: int) -> list[Rows]:
    """`linkage.link` of every picture [P, F], on `several` cores; pictures have the same number of points."""
    seconds = len(pictures) * (1e-3 + 1e-8 * len(pictures[0]) ** 2)  # about
    if several > 1 and not _helpers.worth_it(seconds):
        several = 1
    borrowed = _helpers.borrow(several) if several > 1 else []
    rows: dict[int, Rows] = {}
    numbers = iter(range(len(pictures)))  # whoever is ready takes the next

    def work(helper: Helper | None) -> None:
        room: Room | None = None
        for number in numbers:
            if helper is not None:
                try:
                    rows[number] = helper.link(pictures[number])
                    continue
                except OSError:
                    helper.close()
                    helper = None
            room = Room(len(pictures[0]), np.float32) if room is None else room
            rows[number] = linkage.link(pictures[number], room)

    if several == 1:
        work(None)
    else:
        with ThreadPoolExecutor(several) as pool:
            try:
                list(pool.map(work, [*borrowed, *[None] * (several - len(borrowed))]))
            finally:
                list(numbers)  # where this was interrupted, the others need not go on
        _helpers.give_back(borrowed)
    return [rows[number] for number in range(len(pictures))]


class Helper:
    """A process that links one picture after another; OSError where it is lost."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, pipesize=2**20, env=os.environ | _SETTINGS,
        )  # fmt: skip
        self.lost = False

    def link(self, points: Floats) -> Rows:
        """As `linkage.link`."""
        if self.lost:
            raise OSError("the helper process was closed")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(np.array(points.shape, np.int64).tobytes())
        self._process.stdin.write(np.ascontiguousarray(points).data)
        self._process.stdin.flush()
        count = len(points)
        answer = self._process.stdout.read(16 * count + 8)
        if len(answer) < 16 * count + 8:
            raise OSError("the helper process ended")
        floats = np.frombuffer(answer, np.float64, offset=8 * count)
        return np.frombuffer(answer, np.int64, count), floats[:-1], float(floats[-1])

    def close(self) -> None:
        """End the process."""
        self.lost = True
        self._process.kill()  # it holds nothing that would need an orderly end
        self._process.communicate()


class _Helpers:
    """The helpers of this process that have nothing to do."""

    def __init__(self) -> None:
        self._idle: list[Helper] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._work = 0.0

    def worth_it(self, seconds: float) -> bool:
        """Whether there has been work for helpers, with the seconds to come."""
        self._work += seconds
        return self._work > _ENOUGH

    def borrow(self, several: int) -> list[Helper]:
        """So many, or fewer where they cannot start."""
        with self._lock:
            if self._process != os.getpid():  # a fork: these are another process's
                self._idle, self._process = [], os.getpid()
            borrowed = [self._idle.pop() for _ in range(min(several, len(self._idle)))]
        # A program that Python is a part of, or packed into, may not be an interpreter.
        if getattr(sys, "frozen", False) or "py" not in Path(sys.executable or "").name.lower():
            return borrowed
        try:
            while len(borrowed) < several:
                borrowed.append(Helper())
        except OSError:
            pass  # too many processes, or none allowed: threads do the rest
        return borrowed

    def give_back(self, helpers: list[Helper]) -> None:
        with self._lock:
            self._idle += [helper for helper in helpers if not helper.lost]

    def close(self) -> None:
        """End all; those of another process, which forked this one, are left alone."""
        with self._lock:
            helpers, self._idle = self._idle, []
        if self._process == os.getpid():
            for helper in helpers:
                helper.close()


_helpers = _Helpers()
atexit.register(_helpers.close)


def serve() -> None:
    """Be a helper: link pictures from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    room: Room | None = None
    while len(head := source.read(16)) == 16:
        count, width = np.frombuffer(head, np.int64).tolist()
        data = source.read(8 * count * width)
        if len(data) < 8 * count * width:
            return
        if room is None or room.count != count:
            room = Room(count, np.float32)
        into, height, error = linkage.link(np.frombuffer(data).reshape(count, width), room)
        sink.write(into.tobytes() + height.tobytes() + np.float64(error).tobytes())
        sink.flush()
