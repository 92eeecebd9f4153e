"""Makes untrusted text, such as file names, safe to print. Imports no torch."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    r"""The text with control characters escaped, so that no name can move the cursor or colour the terminal.

    Newlines are escaped too: a name has one line. `"\x1b[31m"` becomes `r"\x1b[31m"`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(letter) if unicodedata.category(letter)[0] == "C" else letter for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
