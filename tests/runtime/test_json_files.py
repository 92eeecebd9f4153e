"""JSON files of a user: read as they are, or refused in one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.runtime.json_files import DEEPEST, read_json, read_object


def test_what_is_there_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes('{"é": [1, null]}'.encode())
    assert read_json(file) == read_object(file) == {"é": [1, None]}
    file.write_text("[1]")
    assert read_json(file) == [1]


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
def test_nesting_has_a_bound(tmp_path: Path, opening: str, closing: str) -> None:
    """Beyond it whoever walks through the values would run out of stack."""
    file = tmp_path / "a.json"
    levels = DEEPEST // opening.replace("{", "[").count("[")
    file.write_text(opening * levels + "1" + closing * levels)
    read_json(file)
    for times in (levels + 1, 900, 5_000, 100_000):
        file.write_text(opening * times + "1" + closing * times)
        with pytest.raises(AkornError, match=r"a\.json: damaged, .*nested deeper than 100 levels"):
            read_json(file)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not readable as JSON"),
        (b'{"a": 1', "not readable as JSON"),
        (b'{"\xff": 1}', "not readable as JSON"),
        ('{"a": 1}'.encode("utf-16"), "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (b"1" * 10_000, "not readable as JSON"),  # Python refuses such long numbers
        (b"[1]", "it holds a list, expected an object"),
        (b"null", "it holds a NoneType, expected an object"),
    ],
)
def test_what_is_not_an_object_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(AkornError) as raised:
        read_object(file)
    assert str(raised.value).startswith(f"{file}: damaged, {reason}")
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(AkornError, match=rf"{path}: cannot be read \("):
            read_object(path)
