"""JSON files that a user brings, read or refused in one line. Torch-free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from akorn.errors import AkornError


def read_json(path: Path) -> Any:
    """The value that a file holds; AkornError where it cannot be read or is not JSON."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AkornError(f"{path}: cannot be read ({error.strerror or error})") from error
    return parse_json(content, path)


def read_object(path: Path) -> dict[str, Any]:
    """The object that a file holds; AkornError where it holds anything else."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise AkornError(f"{path}: damaged, it holds a {type(content).__name__}, expected an object")
    return content


def parse_json(content: bytes, path: Path) -> Any:
    """The value in the content of a file, in UTF-8; AkornError, with the file's name, where it is not JSON."""
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not text, not JSON, or numbers or nesting beyond all bounds
        raise AkornError(f"{path}: damaged, not readable as JSON ({error})") from error
