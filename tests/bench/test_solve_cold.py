"""benchmarks/solve_cold.py: which boards it takes, and what a run says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from akorn.errors import AkornError
from akorn.sudoku import EXAMPLES
from akorn.sudoku.board_files import load_csv, write_csv
from akorn.sudoku.data import load

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "solve_cold.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if not SCRIPT.is_file():
        pytest.skip("the repository's folder benchmarks/ is not here")
    spec = importlib.util.spec_from_file_location("solve_cold", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["solve_cold"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_boards_are_spread_over_the_file(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "boards.csv"
    puzzles, solutions = load(None, count=9, givens=(40, 50), seed=3)
    write_csv(path, puzzles, solutions)
    lines = [line.split(",")[0] for line in path.read_text().splitlines()]
    assert script.spread(path, 3) == [lines[0], lines[4], lines[8]]
    assert script.spread(path, 1) == lines[:1]
    assert script.spread(path, 100) == lines
    assert len(load_csv(path)[0]) == 9


@pytest.mark.slow
def test_a_run_says_what_the_command_said(script: ModuleType) -> None:
    run = script.solve(EXAMPLES["easy"])
    assert run.solved
    assert (run.status, run.puzzle) == (0, EXAMPLES["easy"])
    assert run.confidence > 0.99
    assert run.megabytes > 50
    with pytest.raises(AkornError, match="ended with 2"):
        script.solve("1" * 81)
