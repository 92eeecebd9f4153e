"""What tyro prints for --help, made readable: no stray line breaks, and no line wider than the terminal.

Imports no torch.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

NARROWEST = 40
"""Columns that help has at least: tyro takes all memory if there are fewer than six."""

_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Folded:
    """A stream that folds lines of text wider than the terminal. (tyro folds its boxes, but not what is above them.)"""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what print passes on, with long lines folded between words; continued usage is indented."""
        width = columns()
        return int(self._stream.write("\n".join(_fold(line, width) for line in text.split("\n"))))


def _fold(line: str, width: int) -> str:
    plain = _COLOURS.sub("", line)
    if len(plain) <= width:
        return line
    indent = " " * 7 if plain.startswith("usage:") else ""
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


@contextlib.contextmanager
def joined_docstrings() -> Iterator[None]:
    """While this lasts, tyro gets the docstrings of options as one line each.

    It would keep the line breaks of the source wherever the next line is indented, as it always is in a class.
    """
    import docstring_parser

    read = docstring_parser.parse_from_object

    def joined(*args: Any, **settings: Any) -> Any:
        found = read(*args, **settings)
        for option in found.params:
            option.description = option.description and " ".join(option.description.split())
        return found

    docstring_parser.parse_from_object = joined
    try:
        yield
    finally:
        docstring_parser.parse_from_object = read


def columns() -> int:
    """How wide help is: as wide as the terminal, unless that is very narrow."""
    return max(shutil.get_terminal_size().columns, NARROWEST)


@contextlib.contextmanager
def wide(columns: int) -> Iterator[None]:
    """While this lasts, tyro takes the terminal for one with so many columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(columns)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
