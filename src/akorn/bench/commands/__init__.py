"""The command that measures: bench."""

COMMANDS = {"bench": ("akorn.bench.commands.bench", "measure time and memory of Kuramoto layers on this machine")}
