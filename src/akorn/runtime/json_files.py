"""Reads users' JSON files, or refuses them in one line. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from akorn.errors import AkornError

DEEPEST = 100
"""Levels of nesting that a file may have: far more than ours have, and far fewer than Python can handle."""
_TOO_DEEP = f"damaged, not readable as JSON (nested deeper than {DEEPEST} levels)"


def read_json(path: Path) -> Any:
    """The value in a file; AkornError if it cannot be read or is not JSON."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AkornError(f"{path}: cannot be read ({error.strerror or error})") from error
    return parse_json(content, path)


def read_object(path: Path) -> dict[str, Any]:
    """The object in a file; AkornError if the file holds anything else."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise AkornError(f"{path}: damaged, it holds a {type(content).__name__}, expected an object")
    return content


def parse_json(content: bytes, path: Path) -> Any:
    """The value in the content of a file, in UTF-8; AkornError, with the file's name, if it is not JSON."""
    try:
        value = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise AkornError(f"{path}: {_TOO_DEEP}") from None
    except ValueError as error:  # not text, not JSON, or absurdly large numbers
        raise AkornError(f"{path}: damaged, not readable as JSON ({error})") from error
    if _is_deep(value):
        raise AkornError(f"{path}: {_TOO_DEEP}")
    return value


def _is_deep(value: Any) -> bool:
    """Whether a value has more than `DEEPEST` levels; checked level by level, so that any depth can be measured."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        values = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for inside in values for each in inside if isinstance(each, dict | list)]
        if not level:
            return False
    return True
