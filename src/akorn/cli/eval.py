"""`akorn eval MODEL`: the scores of a model, by the command of the room where it is at home."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from akorn.cli import parse as parse_options
from akorn.rooms import room_of_model

DEFAULT = "sudoku"


def parse(words: Sequence[str]) -> Any:
    """The options that the model's task has; `akorn eval MODEL --help` shows them."""
    model = words[0] if words and not words[0].startswith("-") else DEFAULT
    if model.startswith("timm:"):  # a frozen network, scored as the object-discovery models are
        room = "objects"
    else:
        room = room_of_model(model) or "sudoku"  # an unknown model is refused where it is loaded
    return parse_options(import_module(f"akorn.cli.eval_{room}").Options, words, "eval")


def run(options: Any) -> int:
    """Evaluate, and print the scores."""
    status: int = import_module(type(options).__module__).run(options)
    return status
