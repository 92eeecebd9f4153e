"""Bounds for the numbers in options: with larger ones no run would ever end. Imports no torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from akorn.errors import AkornError

MOST = 10**9
"""The largest whole number that an option accepts, except for seeds: more steps or votes would take years."""


def check_numbers(options: Any) -> None:
    """AkornError for a number that is not finite, or a whole number beyond `MOST`, in options or their settings."""
    for name, value in _numbers(options, ""):
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, float) and not math.isfinite(value):
            raise AkornError(f"{option} must be a finite number, got {value}")
        if isinstance(value, int) and abs(value) > MOST and not name.endswith("seed"):  # seeds have their own bound
            raise AkornError(f"{option} must be at most {MOST:,}, got {_short(value)}")


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**30 else f"a number of {int(math.log10(abs(value))) + 1} digits"


def _numbers(holder: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Every number in a dataclass, with its dotted name."""
    if not dataclasses.is_dataclass(holder):
        return
    for field in dataclasses.fields(holder):
        value = getattr(holder, field.name)
        if dataclasses.is_dataclass(value):
            yield from _numbers(value, f"{before}{field.name}.")
            continue
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                yield f"{before}{field.name}", number
