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
    home = room_of_model(model) or "sudoku"  # an unknown model is refused where it is loaded
    room = "objects" if model.startswith("timm:") else home  # a frozen network is scored as those models are
    return parse_options(import_module(f"akorn.cli.eval_{room}").Options, words, "eval")


def run(options: Any) -> int:
    """Evaluate, and print the scores."""
    status: int = import_module(type(options).__module__).run(options)
    return status
