"""What several commands share: their common options, and how they speak."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akorn.errors import AkornError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CommonOptions:
    """Options that every command has."""

    seed: int = 0
    """The same seed gives the same numbers on the same machine."""
    device: str = "auto"
    """cpu, cuda, mps, or auto for the best there is."""
    json: bool = False
    """Print the result as JSON on stdout."""


def pick_device(name: str) -> torch.device:
    """The torch device of a name; "auto" is CUDA, then MPS, then the CPU."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise AkornError(f"unknown device {name!r}: expected auto, cpu, cuda or mps") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise AkornError(f"device {name!r} is not available: this torch sees no CUDA GPU")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise AkornError(f"device {name!r} is not available on this machine")
    return device


def print_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    print(json.dumps(value))


def say(message: str) -> None:
    """A line for the person in front of the terminal; results go to stdout, this to stderr."""
    print(message, file=sys.stderr)


def check_folder(path: Path) -> None:
    """AkornError unless a file can be written at `path`, before any long work is done for it."""
    import os

    folder = path.parent
    if not folder.is_dir():
        raise AkornError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise AkornError(f"cannot write {path}: the folder {folder} is not writable")
    if path.is_dir():
        raise AkornError(f"cannot write {path}: it is a folder")
