"""The command that shows oscillators: simulate."""

COMMANDS = {"simulate": ("akorn.simulate.commands.simulate", "watch oscillators synchronise, without any learning")}
