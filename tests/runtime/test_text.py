"""Names from strangers, and how they are printed."""

import pytest

from akorn.runtime.text import printable


@pytest.mark.parametrize("text", ["runs/x", "a → b ☃ é", "ñ\u00a0b", "写真.png", ""])
def test_readable_text_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\r", r"a\nb\r"),
        ("\x9b1m", r"\x9b1m"),
        ("gnp.\u202exe", r"gnp.\u202exe"),
        ("\udcff", r"\udcff"),
        ("\x7f", r"\x7f"),
    ],
)
def test_what_would_move_the_cursor_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
