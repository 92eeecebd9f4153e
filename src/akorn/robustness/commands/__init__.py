"""The commands of this room: classify, eval, data make."""
