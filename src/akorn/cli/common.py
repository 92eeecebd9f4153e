"""What several commands share: common options, and how they print."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from akorn.errors import AkornError
from akorn.runtime.devices import pick_device
from akorn.runtime.files import check_writable, make_folder
from akorn.runtime.text import printable

__all__ = ["LEDGER", "CommonOptions", "check_ledger", "check_seed", "pick_device", "print_json", "printable", "say"]

LEDGER = Path("results")
"""Where runs and evaluations leave their records unless told otherwise, and where `akorn results` reads them."""


@dataclass(frozen=True)
class CommonOptions:
    """Options that every command has."""

    seed: int = 0
    """The same seed gives the same numbers on the same machine."""
    device: str = "auto"
    """cpu, cuda, mps, or auto for the best device available."""
    json: bool = False
    """Print the result as JSON on stdout."""


def check_seed(seed: int) -> None:
    """AkornError unless every generator accepts the seed: a whole number from 0 to 2⁶³ − 1."""
    if not 0 <= seed < 2**63:
        raise AkornError(f"--seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")


def check_ledger(folder: Path | None) -> Path | None:
    """The folder for a record, checked before the work starts; None for no record.

    A folder that the user named is created, and it is an AkornError if it cannot be written. The default folder is
    created with the first record; if that is impossible, one line says so, and the work continues without a record.
    """
    if folder != LEDGER:
        if folder is not None:
            make_folder(folder)
        return folder
    try:
        check_writable(folder / "record" if folder.exists() else folder)
    except AkornError as error:
        say(f"no record will be written: {error}")
        return None
    return folder


def print_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    print(json.dumps(value))


def say(message: str) -> None:
    """Print a line for the person at the terminal on stderr; results go to stdout."""
    print(printable(message), file=sys.stderr)
