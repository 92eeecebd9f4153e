"""Models for the page: ONNX files that `akorn export` makes from the weights that ship, when they are first requested.

They are kept in the cache folder, so that this happens once. The export runs in a separate process: torch is never
imported in the server, and an error is one line, which the page shows.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

from akorn._version import __version__
from akorn.models import WEIGHTS
from akorn.runtime import cache
from akorn.settings import WEIGHTS_FILE

SUDOKU = "sudoku-base"
"""The weights that the page solves boards with."""


class Export(NamedTuple):
    """How a model is exported for the page."""

    weights: str
    words: tuple[str, ...] = ()


MODELS = {
    "sudoku": Export(SUDOKU, ("--steps", "4")),  # few steps per call, so that digits are seen to settle
    **{name: Export(name) for name in ("cifar10-conv", "shapes", "tetrominoes", "dsprites")},
}
"""What the page can ask for."""


class ExportedModel:
    """One model as an ONNX file: missing, being made, ready or failed."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, (self.weights, self.words) = name, MODELS[name]
        told = (WEIGHTS / self.weights / WEIGHTS_FILE).read_bytes() + " ".join(self.words).encode()
        digest = hashlib.sha256(told).hexdigest()[:12]
        self.path = folder / f"{self.weights}-akorn{__version__}-{digest}.onnx"
        self._lock, self._began, self._message = Lock(), 0.0, ""
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def state(self) -> dict[str, Any]:
        """The state that the page is told; if there is no file and no export is running, one is started.

        A failure is reported once: the next request tries again.
        """
        with self._lock:
            if self._process is not None:
                return {"state": "making", "seconds": round(time.monotonic() - self._began, 1)}
            if self.path.is_file():
                return {"state": "ready", "weights": self.weights, "bytes": self.path.stat().st_size}
            if self._message:
                message, self._message = self._message, ""
                return {"state": "failed", "message": message}
            if self._closed:
                return {"state": "failed", "message": "the server is ending"}
            return self._begin()

    def close(self) -> None:
        """Stop an export that is running."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                with suppress(OSError):
                    self._process.kill()

    def _begin(self) -> dict[str, Any]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            return {"state": "failed", "message": f"{self.path}: {error.strerror or error}"}
        self._began = time.monotonic()
        Thread(target=self._wait, args=(self._process,), daemon=True).start()
        return {"state": "making", "seconds": 0.0}

    def _command(self) -> Sequence[str]:
        words = ("export", self.weights, "--format", "onnx", *self.words, "--out", str(self.path), "--overwrite")
        return [sys.executable, "-m", "akorn", *words]

    def _wait(self, process: subprocess.Popen[str]) -> None:
        _, told = process.communicate()
        with self._lock:
            self._process = None
            if process.returncode or not self.path.is_file():
                lines = [line for line in told.splitlines() if line.strip()]
                self._message = lines[-1].removeprefix("akorn: ") if lines else "akorn export ended without a message"


class ExportedModels:
    """All models of the page, in the cache folder or, if nothing may be kept, in a temporary folder."""

    def __init__(self) -> None:
        kept = cache.folder()
        self._temporary = tempfile.TemporaryDirectory(prefix="akorn-web-", ignore_cleanup_errors=True)
        folder = kept / "web" if kept is not None else Path(self._temporary.name)
        self.models = {name: ExportedModel(name, folder) for name in MODELS}

    def close(self) -> None:
        """Stop exports that are running, and remove what is not kept."""
        for model in self.models.values():
            model.close()
        self._temporary.cleanup()
