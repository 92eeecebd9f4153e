"""The commands of this room: classify, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"classify": ("akorn.robustness.commands.classify", "classify pictures, with the confidence of each answer")}

USE = "akorn classify IMAGE --model {model}"
"""The command that `akorn models` shows for a model of this room."""
