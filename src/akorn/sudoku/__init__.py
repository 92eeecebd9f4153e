"""Sudoku: boards, models, training, evaluation, and the solver. Names are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from akorn.sudoku.board import Conflict, conflicts, format_board, is_valid_solution, parse_board
    from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, SudokuConfig
    from akorn.sudoku.data import SudokuData
    from akorn.sudoku.examples import EXAMPLES
    from akorn.sudoku.model import EnergyTransformerSudoku, ItrSASudoku, SudokuModel, build
    from akorn.sudoku.recipes import RECIPES, SudokuRecipe
    from akorn.sudoku.solver import Answer, Frame, Solver
    from akorn.sudoku.symmetry import Symmetries
    from akorn.sudoku.task import SudokuTask

_LAZY = {
    "Answer": "solver",
    "Conflict": "board",
    "EXAMPLES": "examples",
    "EnergyTransformerConfig": "config",
    "EnergyTransformerSudoku": "model",
    "Frame": "solver",
    "ItrSAConfig": "config",
    "ItrSASudoku": "model",
    "RECIPES": "recipes",
    "Solver": "solver",
    "SudokuConfig": "config",
    "SudokuData": "data",
    "SudokuModel": "model",
    "SudokuRecipe": "recipes",
    "SudokuTask": "task",
    "Symmetries": "symmetry",
    "build": "model",
    "conflicts": "board",
    "format_board": "board",
    "is_valid_solution": "board",
    "parse_board": "board",
}

__all__ = [
    "EXAMPLES",
    "RECIPES",
    "Answer",
    "Conflict",
    "EnergyTransformerConfig",
    "EnergyTransformerSudoku",
    "Frame",
    "ItrSAConfig",
    "ItrSASudoku",
    "Solver",
    "SudokuConfig",
    "SudokuData",
    "SudokuModel",
    "SudokuRecipe",
    "SudokuTask",
    "Symmetries",
    "build",
    "conflicts",
    "format_board",
    "is_valid_solution",
    "parse_board",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.sudoku.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.sudoku' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
