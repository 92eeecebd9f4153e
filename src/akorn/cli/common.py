"""What several commands share: their common options, and how they speak."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from akorn.devices import pick_device
from akorn.errors import AkornError
from akorn.files import check_writable as check_folder

__all__ = ["CommonOptions", "check_folder", "pick_device", "print_json", "say"]


@dataclass(frozen=True)
class CommonOptions:
    """Options that every command has."""

    seed: int = 0
    """The same seed gives the same numbers on the same machine."""
    device: str = "auto"
    """cpu, cuda, mps, or auto for the best there is."""
    json: bool = False
    """Print the result as JSON on stdout."""


def check_seed(seed: int) -> None:
    """AkornError unless every generator takes the seed: a whole number from 0 to 2⁶³ − 1."""
    if not 0 <= seed < 2**63:
        raise AkornError(f"--seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")


def print_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    print(json.dumps(value))


def say(message: str) -> None:
    """A line for the person in front of the terminal; results go to stdout, this to stderr."""
    print(message, file=sys.stderr)
