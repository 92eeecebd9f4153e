"""The commands of this room: solve, eval, data make."""
