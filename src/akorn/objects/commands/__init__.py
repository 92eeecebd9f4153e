"""The commands of this room: segment, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"segment": ("akorn.objects.commands.segment", "find the objects in pictures")}

USE = "akorn segment IMAGE --model {model}"
"""The command that `akorn models` shows for a model of this room."""

EVALUATES = ("timm:",)
"""Name prefixes of other models that `akorn eval` scores here: frozen networks."""
