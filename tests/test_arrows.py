"""Dependencies point one way: what a package may import of akorn, in functions and for type checkers too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import akorn

ROOT = Path(akorn.__file__).parent
TASKS = {"sudoku", "objects", "robustness"}

# Package → what it must not import, and never itself.
FORBIDDEN = {
    "oscillators": {"nn", "execution", "kernels", "engine", *TASKS},
    "kernels": {"nn", "execution", "engine", *TASKS},
    "execution": {"nn", "engine", *TASKS},
    "nn": {"kernels", "engine", *TASKS},
    "baselines": {"kernels", "engine", *TASKS},
    "theory": {"kernels", "execution", "engine", *TASKS},
    "lyapunov": {"kernels", "execution", "engine", *TASKS},
    "engine": TASKS,
    "export": {"kernels", "engine", *TASKS},
    "runtime": {"nn", "execution", "kernels", "engine", *TASKS},
    "ledger": {"nn", "execution", "kernels", "engine", *TASKS},
    "scenes": {"nn", "execution", "kernels", "engine", *TASKS},
    **{task: TASKS - {task} for task in sorted(TASKS)},
}

# Package → all that it may import of akorn.
ALLOWED = {
    "nn": {"nn", "execution", "oscillators"},
    "execution": {"execution", "kernels", "oscillators", "errors", "runtime"},
    "kernels": {"kernels", "oscillators", "errors", "runtime", "_moved", "_version"},
}


def imported(source: str, package: str) -> Iterator[tuple[str, int]]:
    """The parts of akorn that a module imports anywhere in it, with the line; package: the one it is in, dotted."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "akorn" and rest:
                yield rest.split(".")[0], node.lineno


def files(package: str) -> list[Path]:
    found = [path for pattern in ("*.py", "*.pyi") for path in (ROOT / package).rglob(pattern)]
    return found or [ROOT / f"{package}.py"]


def dotted(path: Path) -> str:
    return ".".join(["akorn", *path.relative_to(ROOT).parent.parts])


def arrows(package: str) -> Iterator[tuple[str, str]]:
    """(what is imported, where) of all modules of a package."""
    for path in files(package):
        for name, line in imported(path.read_text(encoding="utf-8"), dotted(path)):
            yield name, f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("package", FORBIDDEN)
def test_no_arrow_turns(package: str) -> None:
    assert {name: where for name, where in arrows(package) if name in FORBIDDEN[package]} == {}


@pytest.mark.parametrize("package", ALLOWED)
def test_the_core_needs_nothing_else(package: str) -> None:
    assert {name: where for name, where in arrows(package) if name not in ALLOWED[package]} == {}


def test_a_turned_arrow_would_be_seen() -> None:
    source = """
from typing import TYPE_CHECKING
import akorn.nn.kuramoto as k
if TYPE_CHECKING:
    from akorn import engine
    from akorn.sudoku.model import SudokuModel
def late():
    from . import beside
    from ..runtime import files
    import torch
"""
    found = {name for name, _ in imported(source, "akorn.kernels")}
    assert found == {"nn", "engine", "sudoku", "kernels", "runtime"}


def test_every_package_is_there() -> None:
    for package in {*FORBIDDEN, *ALLOWED}:
        assert all(path.exists() for path in files(package)), package
