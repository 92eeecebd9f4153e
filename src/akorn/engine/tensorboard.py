"""Curves for TensorBoard, whose writer has its own thread; its errors are reported here, in one line."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from akorn.errors import AkornError

FOLDER = "tensorboard"  # in a run's folder


class TensorBoardLog:
    """Appends scalars; those that a killed run wrote after the checkpoint at `step` are hidden."""

    def __init__(self, out: Path, step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._folder = out / FOLDER
        # The thread would print a traceback of the error that is raised here.
        self._hook, threading.excepthook = threading.excepthook, self._thread_failed
        make: Any = SummaryWriter
        try:
            self._writer = make(str(self._folder), purge_step=step + 1)
        except OSError as error:
            threading.excepthook = self._hook
            raise self._failed(error) from error

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Append scalars; they reach the disk within two minutes."""
        try:
            for name, value in scalars.items():
                self._writer.add_scalar(name, value, step)
        except OSError as error:
            raise self._failed(error) from error

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        except OSError as failure:
            raise self._failed(failure) from failure
        finally:
            threading.excepthook = self._hook

    def _thread_failed(self, told: Any) -> None:
        if not issubclass(told.exc_type, OSError):
            self._hook(told)

    def _failed(self, error: OSError) -> AkornError:
        reason = error.strerror or str(error)
        return AkornError(f"{self._folder}: the curves cannot be written ({reason}); the checkpoints are untouched")
