"""`akorn eval MODEL`: the scores of a model, computed by the command of its room."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from akorn.cli import parse as parse_options
from akorn.errors import AkornError
from akorn.models import check_there, room_of_model
from akorn.rooms import ROOMS, parts


def parse(words: Sequence[str]) -> Any:
    """The options for the model's task; `akorn eval MODEL --help` shows them."""
    # The model may come after options, and only the room's options can tell which words are option values.
    homes = ((word, room_of_model(word)) for word in words if not word.startswith("-"))
    known = ((word, home) for word, home in homes if home is not None)
    model, room = next(known, (None, ROOMS[0]))
    if model is None and words and not words[0].startswith("-"):  # must be a model, not the value of an option
        check_there(words[0])
    command = "eval" if model is None else f"eval {model}"  # whose --help shows these options
    scored = parts("commands.evaluate")
    if room not in scored:
        raise AkornError(f"{model}: there are no scores for models of {room}, only for those of {', '.join(scored)}")
    return parse_options(scored[room].Options, words, command)


def run(options: Any) -> int:
    """Evaluate, and print the scores."""
    status: int = import_module(type(options).__module__).run(options)
    return status
