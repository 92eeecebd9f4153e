"""Ways to damage a file: its bytes, or the values of its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

LONG = "a" * 300
ESCAPE = "\x1b[31mred\x07"
WHOLE = ["-1", "0", str(10**14), str(10**20), str(10**400), str(-(10**20))]
WORDS = [*WHOLE, "", "x", "1.5", "nan", "inf", "-inf", "1e308", "1e-320", "None", "True", LONG, ESCAPE, "a b", "☃", "/",
         "..", "/dev/null", "nowhere/at/all", "\udcff", "[1, 2]", "--", "-"]  # fmt: skip
"""Bad values for any option."""

_STRANGE: list[Any] = [None, True, -1, 0, 10**20, 1e308, float("nan"), float("inf"), "", "x", LONG, ESCAPE, [], {},
                       [[1]], {"a": {"b": 1}}, "\u0000", "/etc/passwd", "../../x"]  # fmt: skip


def damage(content: bytes, random: Random) -> bytes:
    """The bytes of a file with one kind of damage."""
    return random.choice(_BYTES)(content, random)


def _flip(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 8))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _insert(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice((b"\0", b"\xff" * 9, b"\n", b"9" * 50, ESCAPE.encode())) + content[place:]


def _swap(content: bytes, random: Random) -> bytes:
    """A stretch of the file overwritten by another one: headers stay plausible, but say something else."""
    size = random.choice((1, 2, 4, 8, 16))
    if len(content) <= size:
        return b""
    here, there = (random.randrange(len(content) - size) for _ in range(2))
    return content[:here] + content[there : there + size] + content[here + size :]


def _other(content: bytes, random: Random) -> bytes:
    return random.choice(
        (b"", b"\0" * 64, random.randbytes(64), b"[" * 100_000, b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"{}")
    )


_BYTES: list[Callable[[bytes, Random], bytes]] = [_flip, _flip, _cut, _insert, _swap, _other]


def damage_json(content: bytes, random: Random) -> bytes:
    """A JSON file in which one value or key is something else, or that is nested far too deep."""
    value = json.loads(content)
    for _ in range(random.choice((1, 1, 2))):
        places = list(_places(value))
        holder, key = random.choice(places)
        what = random.randrange(6)
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            holder[random.choice(("x", LONG, ESCAPE))] = holder.pop(key)
        elif what == 2:
            holder[key] = "NESTED"
        else:
            holder[key] = random.choice(_STRANGE)
        if not value:
            break
    text = json.dumps(value, indent=1)
    depth = random.choice((200, 900, 5_000, 100_000))
    return text.replace('"NESTED"', '{"a":' * depth + "1" + "}" * depth).encode()


def _places(value: Any) -> Any:
    """Every (list or dict, key) of a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)
