"""`akorn data make NAME DIR`: data sets that need no download, made by the command of their room.

`akorn data pack DIR FILE`: the pictures of a folder in one file, by the room that has pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from akorn.cli import parse as parse_options
from akorn.errors import AkornError
from akorn.registry import unknown
from akorn.rooms import parts


def parse(words: Sequence[str]) -> Any:
    """The options of the data set; `akorn data make NAME --help` shows them."""
    if words and words[0] == "pack":
        (packer,) = parts("commands.pack").values()
        return parse_options(packer.Options, words[1:], "data pack")
    makers = {name: module for module in parts("commands.make").values() for name in module.NAMES}
    if any(word in ("-h", "--help") for word in words[:2]):
        print("usage: akorn data make NAME DIR [options]\n       akorn data pack DIR FILE [options]\n")
        print("Make a data set without a download, or pack the pictures of a folder.\n\ndata sets:")
        print("\n".join(f"  {name}" for name in makers))
        print("\nakorn data make NAME --help shows the options of a data set,")
        print("akorn data pack --help those of a pack.")
        raise SystemExit(0)
    if not words or words[0] != "make":
        raise AkornError(f"akorn data make NAME DIR: expected make or pack, got {words[0] if words else 'nothing'}")
    if len(words) < 2 or words[1].startswith("-"):
        raise AkornError(f"akorn data make NAME DIR: the name is missing; known names are: {', '.join(makers)}")
    if words[1] not in makers:
        raise AkornError(unknown("data set", words[1], makers))
    maker = makers[words[1]]
    kind = maker.options_of(words[1]) if hasattr(maker, "options_of") else maker.Options
    return parse_options(kind, words[1:], f"data make {words[1]}")


def run(options: Any) -> int:
    """Make the data set."""
    status: int = import_module(type(options).__module__).run(options)
    return status
