"""What tyro says about mistakes, in plain words. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from akorn.cli.option_names import option_names, unrecognised

_SPARE = "Unrecognized options: "  # and, after commas, the words that tyro could not use
# what was expected → how Python complains about a value that is something else
_UNREADABLE = {
    "a whole number": r"invalid literal for int\(\) with base 10:",
    "a number": r"could not convert string to float:",
}
_CHOICE = r"invalid choice (['\"])(?P<got>.*)\1 for argument '(?P<option>.*?)'\. Expected one of (?P<known>\(.*\))"
# how tyro complains about values of options with several types or values
_SEVERAL = (
    r"no type matching (?:\{None\}\|)?(?P<kind>.+?) could be instantiated from \[(?P<words>.*?)\]\.",
    r"Could not parse arguments \[(?P<words>.*?)\] into tuple type (?P<kind>.*)",
    r"Could not find valid parse for arguments: \[(?P<words>.*?)\]",
)


def one_line(box: str, options: Any, also: Sequence[str] = ()) -> str:
    """The first part of tyro's framed message, without the frame, which may be ASCII, and without colours.

    options: the dataclass that was to be read, or an instance of it with the defaults. also: other options that may
    have been meant.
    """
    lines: list[str] = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()[1:]:
        text = line.strip("│╭╮╰╯ ").strip()
        if not re.fullmatch(r"-{3,}|─+|", text):
            lines.append(text)
        elif text and lines:  # a rule, and not the one below the title
            break
    told = " ".join(lines)
    if told.startswith(_SPARE):
        return unrecognised(told.removeprefix(_SPARE).split(", "), [*also, *option_names(options)])
    return _plain(told) or "these options cannot be read"


def _plain(told: str) -> str:
    """Tyro's complaint about a value of the wrong type, in plain words; any other message stays as it is."""
    choice = re.match(_CHOICE, told)
    if choice is not None:
        known = re.findall(r"'(.*?)'", choice["known"])
        if "None" in known:  # then they are in no order
            known = sorted({*known} - {"None"})
        return f"{choice['option']}: expected {_either(known)}, got {choice['got']}"
    missing = re.match(r"Missing value for argument '(.*?)'\. Expected (\d+) values", told)
    if missing is not None:
        return f"{missing[1]} needs {'a value' if missing[2] == '1' else f'{missing[2]} values'}"
    wrong = re.match(r"Error parsing (--\S+): (.*)", told)
    if wrong is None:
        return told
    option, reason = wrong.groups()
    for kind, said in _UNREADABLE.items():
        word = re.search(said + r" (['\"])(.*?)\1(?: |$)", reason)
        if word is not None:
            others = re.findall(r"\{(?!None\})(\w+)\}", reason.partition(" could be ")[0])
            return f"{option}: expected {_either([kind, *others])}, got {word[2]}"
    for pattern in _SEVERAL:
        several = re.match(pattern, reason)
        if several is not None:
            expected = _kind(several.groupdict().get("kind"))
            words = re.findall(r"'(.*?)'", several["words"])
            return f"{option}: expected {expected}, got {_got(words, expected)}"
    return f"{option}: {reason}"


def _either(words: Sequence[str]) -> str:
    """a, b or c"""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _kind(kind: str | None) -> str:
    """A type in words, from tyro's or Python's notation; for a list, tyro does not name the type."""
    if kind is None:
        return "whole numbers"
    choices = dict.fromkeys(re.findall(r"'(.*?)'", kind))
    if choices:  # typing.Literal
        return f"{kind.count('Literal')} of {', '.join(choices)}"
    several = kind.startswith("typing.Tuple") or re.fullmatch(r"\{\w+( \w+)+\}", kind)
    count = len(re.findall("int|float", kind.lower())) if several else 0
    word = "whole numbers" if "int" in kind.lower() else "numbers" if "float" in kind.lower() else kind
    return f"{count} {word}" if count else word


def _got(words: Sequence[str], expected: str) -> str:
    """The words that were given, and how many they are if another number of them was expected."""
    count = re.match(r"\d+", expected)
    told = " ".join(words)
    return told if count is None or len(words) == int(count[0]) else f"{len(words)}: {told}" if words else "none"
