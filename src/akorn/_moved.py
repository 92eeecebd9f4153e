"""Old names of modules, and of names in packages, still import until version 0.3, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "akorn.devices": "akorn.runtime.devices",
    "akorn.files": "akorn.runtime.files",
    "akorn.pictures": "akorn.runtime.pictures",
    "akorn.engine.ema": "akorn.engine.average",
    "akorn.engine.devices": "akorn.engine.accelerator",
    "akorn.engine.graph": "akorn.execution.graph",
    "akorn.engine.ledger": "akorn.ledger.records",
    "akorn.engine.lock": "akorn.runtime.lock",
    "akorn.engine.tables": "akorn.ledger.tables",
    "akorn.engine.processes": "akorn.runtime.processes",
    "akorn.engine.randomness": "akorn.runtime.randomness",
    "akorn.nn.compiled": "akorn.execution.compiled",
    "akorn.nn.recompute": "akorn.execution.recompute",
    "akorn.nn.sphere": "akorn.execution.ops",
    "akorn.cli.bench": "akorn.bench.commands.bench",
    "akorn.robustness.noise": "akorn.robustness.random_noise",
    "akorn.robustness.corruptions.noise": "akorn.robustness.corruptions.pixel_noise",
    "akorn.robustness.data.pictures": "akorn.robustness.data.labelled_pictures",
    "akorn.cli.classify": "akorn.robustness.commands.classify",
    "akorn.cli.eval_objects": "akorn.objects.commands.evaluate",
    "akorn.cli.eval_robustness": "akorn.robustness.commands.evaluate",
    "akorn.cli.eval_sudoku": "akorn.sudoku.commands.evaluate",
    "akorn.cli.make_objects": "akorn.objects.commands.make",
    "akorn.cli.make_robustness": "akorn.robustness.commands.make",
    "akorn.cli.make_sudoku": "akorn.sudoku.commands.make",
    "akorn.augment.noise": "akorn.augment.gaussian",
    "akorn.augment.pictures": "akorn.augment.image_batch",
    "akorn.objects.pictures": "akorn.objects.colouring",
    "akorn.objects.reading": "akorn.objects.model_input",
    "akorn.objects.data.files": "akorn.objects.data.picture_files",
    "akorn.objects.data.pictures": "akorn.objects.data.picture_sets",
    "akorn.cli.segment": "akorn.objects.commands.segment",
    "akorn.cli.simulate": "akorn.simulate.commands.simulate",
    "akorn.cli.solve": "akorn.sudoku.commands.solve",
    "akorn.simulate.files": "akorn.simulate.saving",
    "akorn.simulate.pictures": "akorn.simulate.frames",
    "akorn.simulate.settings": "akorn.simulate.presets",
    "akorn.sudoku.draw": "akorn.sudoku.board_pictures",
    "akorn.sudoku.noise": "akorn.sudoku.hashed_starts",
    "akorn.sudoku.read": "akorn.sudoku.board_files",
    "akorn.sudoku.show": "akorn.sudoku.terminal",
}
"""Old name of a module → its new one."""

_LEDGER = ("Cell", "Record", "Row", "Table", "read_records", "render", "write_record")
NAMES = {
    "akorn.engine": dict.fromkeys(_LEDGER, "akorn.ledger"),
    "akorn.kernels": {"solve_steps": "akorn.nn"},
    "akorn.sudoku.model": {
        **dict.fromkeys(("EnergyTransformerSudoku", "ItrSASudoku"), "akorn.sudoku.baselines"),
        "build": "akorn.sudoku.net",
    },
}
"""Package or module → its names that have moved elsewhere."""


class _Moved(MetaPathFinder, Loader):
    """Finds a module by its old name and returns the very module that has the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        self._kept = module.__spec__, module.__loader__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has stored the old name's spec in the module: restore its own.
        module.__spec__, module.__loader__ = self._kept


def install() -> None:
    """Make the old names importable."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())


def with_old_names(package: str, find: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a package or module that also finds the names that have moved; `find` resolves others."""

    def __getattr__(name: str) -> Any:
        new = NAMES[package].get(name)
        if new is None and find is not None:
            return find(name)
        if new is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(f"{package}.{name} is now {new}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(new), name)

    return __getattr__
