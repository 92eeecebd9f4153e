"""The commands of this room: segment, eval, data make."""
