"""The command that serves the page."""

COMMANDS = {"web": ("akorn.web.commands.web", "open a page to play with: Sudoku, oscillators, pictures")}
