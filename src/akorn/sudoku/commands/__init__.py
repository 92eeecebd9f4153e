"""The commands of this room: solve, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"solve": ("akorn.sudoku.commands.solve", "solve Sudoku puzzles, and watch them being solved")}

USE = "akorn solve PUZZLE --model {model}"
"""The command that `akorn models` shows for a model of this room."""
