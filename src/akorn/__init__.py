"""akorn: artificial Kuramoto oscillatory neurons.

The names below are imported when they are first used, so that `import akorn` and `akorn --help` need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from akorn._moved import install as _install_moved
from akorn._version import __version__

if TYPE_CHECKING:
    from akorn import (
        augment,
        baselines,
        engine,
        execution,
        kernels,
        nn,
        objects,
        oscillators,
        robustness,
        simulate,
        sudoku,
        theory,
    )
    from akorn.models import create_model, list_models

_MODULES = (
    "augment",
    "baselines",
    "engine",
    "execution",
    "kernels",
    "nn",
    "objects",
    "oscillators",
    "robustness",
    "simulate",
    "sudoku",
    "theory",
)
_NAMES = {"create_model": "models", "list_models": "models"}

__all__ = [
    "__version__",
    "augment",
    "baselines",
    "create_model",
    "engine",
    "execution",
    "kernels",
    "list_models",
    "nn",
    "objects",
    "oscillators",
    "robustness",
    "simulate",
    "sudoku",
    "theory",
]

_install_moved()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"akorn.{name}")
    if name in _NAMES:
        return getattr(import_module(f"akorn.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'akorn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
