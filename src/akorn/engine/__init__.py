"""One training loop for all tasks: devices, averages, checkpoints and resuming, progress, the results ledger.

What needs torch or matplotlib is imported when it is first used, so that `akorn --help` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from akorn.engine.config import EmaConfig, OptimiserConfig, ScheduleConfig, TrainConfig
from akorn.engine.ledger import Record, read_records, write_record
from akorn.engine.tables import Cell, Row, Table, render

if TYPE_CHECKING:
    from akorn.engine.checkpoint import load_weights
    from akorn.engine.curves import plot_curves
    from akorn.engine.loop import TrainResult, train
    from akorn.engine.task import Batch, Data, Task

_LAZY = {
    "Batch": "task",
    "Data": "task",
    "Task": "task",
    "TrainResult": "loop",
    "load_weights": "checkpoint",
    "plot_curves": "curves",
    "train": "loop",
}

__all__ = [
    "Batch",
    "Cell",
    "Data",
    "EmaConfig",
    "OptimiserConfig",
    "Record",
    "Row",
    "ScheduleConfig",
    "Table",
    "Task",
    "TrainConfig",
    "TrainResult",
    "load_weights",
    "plot_curves",
    "read_records",
    "render",
    "train",
    "write_record",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.engine.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.engine' has no attribute {name!r}")
