"""The commands of this room: segment, and its parts of eval (`evaluate`) and data make (`make`)."""

COMMANDS = {"segment": ("akorn.objects.commands.segment", "find the objects in pictures")}

USE = "akorn segment IMAGE --model {model}"
"""What `akorn models` says of how to use one of this room's."""

EVALUATES = ("timm:",)
"""How models begin that `akorn eval` scores here beside this room's own: frozen networks."""
