"""The commands of this room: solve, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"solve": ("akorn.sudoku.commands.solve", "solve Sudoku puzzles, and watch them being solved")}
