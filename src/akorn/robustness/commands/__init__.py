"""The commands of this room: classify, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"classify": ("akorn.robustness.commands.classify", "say what is on pictures, and how sure that is")}

USE = "akorn classify IMAGE --model {model}"
"""What `akorn models` says of how to use one of this room's."""
