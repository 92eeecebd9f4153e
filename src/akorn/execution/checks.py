"""Whole numbers, as settings and arguments must be."""

from __future__ import annotations

from operator import index


def whole_number(name: str, value: object) -> int:
    """A size as a plain int; ValueError unless it is a whole number of at least 1."""
    try:
        # Accepts NumPy's whole numbers and no fractions; a plain int is returned as it is, so the compiler may keep it
        # symbolic.
        count = value if type(value) is int else index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    return count
