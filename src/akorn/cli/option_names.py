"""The options of a command, and what is said about words that are none of them. Imports no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_type_hints

from akorn.registry import similar


def option_names(options: Any, before: str = "") -> Iterator[str]:
    """The options of a dataclass, as tyro names them, without the dashes: steps, train.batch-size, no-json.

    options: the class, or an instance. Where a value is a dataclass, its options follow, with dotted names.
    """
    import tyro  # not for `akorn --help`, which is quicker without it

    hints = get_type_hints(options if isinstance(options, type) else type(options), include_extras=True)
    for field in dataclasses.fields(options):
        markers = getattr(hints[field.name], "__metadata__", ())
        if tyro.conf.Positional in markers or tyro.conf.Suppress in markers:
            continue
        word = field.name.replace("_", "-")
        value = getattr(options, field.name, field.default)
        if dataclasses.is_dataclass(value):
            yield from option_names(value, f"{before}{word}.")
            continue
        yield before + word
        if isinstance(value, bool):
            yield f"{before}no-{word}"


def unrecognised(words: Sequence[str], known: Iterable[str]) -> str:
    """One line for words that tyro could not use: the unknown options among them, each with known ones like it.

    words: in their order; what follows an unknown option may be its value, and is not named.
    """
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if not options:
        return f"unknown option {words[0]}" if words[0].startswith("-") else f"unexpected argument {words[0]!r}"
    known = list(known)
    hints = [_hint(option, known) for option in options]
    if len(options) == 1:
        return f"unknown option {options[0]}" + (f": {hints[0]}" if hints[0] else "")
    told = [f"{option} ({hint})" if hint else option for option, hint in zip(options, hints, strict=True)]
    return f"unknown options {', '.join(told)}"


def _hint(option: str, known: Sequence[str]) -> str:
    near = _near(option[2:].replace("_", "-"), known)
    return f"did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""


def _near(name: str, known: Sequence[str]) -> list[str]:
    """The options whose last part is that of an unknown one (epochs, train.epochs), or short for it, or similar."""
    wanted = _last(name)
    known = [option for option in known if _last(option).startswith("no-") == wanted.startswith("no-")]
    parts = dict.fromkeys(map(_last, known))
    meant = [wanted] if wanted in parts else [part for part in parts if _initials(part) == wanted]
    found = [option for part in meant or similar(wanted, parts) for option in known if _last(option) == part]
    return similar(name, found) or found or similar(name, known)


def _last(option: str) -> str:
    return option.rpartition(".")[2]


def _initials(option: str) -> str:
    """lr for learning-rate"""
    return "".join(word[:1] for word in option.split("-"))
