"""The commands of this room: segment, and its parts of eval (`evaluate`), data make (`make`) and data pack (`pack`)."""

COMMANDS = {"segment": ("akorn.objects.commands.segment", "find the objects in pictures")}

USE = "akorn segment IMAGE --model {model}"
"""The command that `akorn models` shows for a model of this room."""

EVALUATES = ("timm:", "floor:", "untrained:")
"""Name prefixes of other models that `akorn eval` scores here: frozen networks, and what any model must beat."""
