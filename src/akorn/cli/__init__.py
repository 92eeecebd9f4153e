"""The command line. It finds the commands of all rooms and runs the requested one.

A command is a module with `Options`, `run(options)` and, where tyro needs help with the arguments, `parse(words)`.
Only the module of the requested command is imported, and none of them imports torch before it runs, so `--help` is
fast. A user's mistake produces one line on stderr and exit status 2.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TypeVar

from akorn._version import __version__
from akorn.cli.help_text import Folded, columns, joined_docstrings, wide
from akorn.cli.numbers import check_numbers
from akorn.errors import AkornError
from akorn.registry import unknown
from akorn.rooms import commands
from akorn.runtime import signals, streams

_T = TypeVar("_T")

COMMANDS = commands()
"""Name → (module, what it does): the commands of the rooms and of this folder."""

_INTERRUPTED = 130  # the usual exit status after Ctrl-C
_NO_MEMORY = r"allocate memory|not enough memory|out of memory|calculation overflowed"
_TOO_LARGE = "there is not enough memory for this: choose smaller numbers or smaller batches"

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


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status: 0, 1 if no answer was found, 2 for bad input, 130 or 143 if stopped."""
    words = list(sys.argv[1:] if argv is None else argv)
    streams.prepare()
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is imported, which no command has done yet
        # Waiting threads yield early, which makes solving several times faster on a busy machine.
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    with signals.terminable() as terminated:
        status = streams.finish(_attempt(words))
    if terminated and status == _INTERRUPTED:
        status = signals.STATUS
    if status or words[:1] != ["--version"]:
        sys.exit(status)


def _attempt(words: Sequence[str]) -> int:
    """The exit status of a command; anything that a user can fix becomes one line on stderr."""
    try:
        if not words or words[0] in ("-h", "--help"):
            print(usage(), file=sys.stdout if words else sys.stderr)
            return 0 if words else 2
        if words[0] == "--version":
            print(f"akorn {__version__}")
            return 0
        if words[0] not in COMMANDS:
            raise AkornError(unknown("command", words[0], COMMANDS))
        return _run(words[0], words[1:])
    except SystemExit as end:  # help was shown
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except AkornError as error:
        return streams.refuse(str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed the pipe
        streams.silence(sys.stdout)
        return 0
    except OSError as error:  # a full disk, or a name that is too long
        where = "a file that was read or written" if error.filename is None else error.filename
        return streams.refuse(f"{where}: {error.strerror or error}")
    except MemoryError as error:
        return streams.refuse(f"there is not enough memory for this: {error}" if str(error) else _TOO_LARGE)
    except Exception as error:
        if _interrupted(error):
            return _INTERRUPTED
        if isinstance(error, RuntimeError) and re.search(_NO_MEMORY, str(error)):
            return streams.refuse(_TOO_LARGE)
        raise


def _interrupted(error: BaseException) -> bool:
    """Whether something failed because of a Ctrl-C, such as tidying up after an import that was cut short."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def usage() -> str:
    """What `akorn --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: akorn COMMAND [options]",
            "",
            "Artificial Kuramoto oscillatory neurons.",
            "",
            "commands:",
            *lines,
            "",
            "akorn COMMAND --help shows the options of a command,",
            "akorn --version the version of akorn.",
        ]
    )


def _run(name: str, words: Sequence[str]) -> int:
    module = import_module(COMMANDS[name][0])
    options = module.parse(words) if hasattr(module, "parse") else parse(module.Options, words, name)
    return int(module.run(options))


def parse(kind: type[_T], words: Sequence[str], command: str, default: _T | None = None) -> _T:
    """Parse the arguments of a command: tyro reads the dataclass `kind`; `default` may provide its values."""
    import tyro

    told = io.StringIO()
    shown = Folded(sys.stdout if sys.stdout is not None else io.StringIO())  # tyro asks it for its encoding
    try:
        width = columns() if {"-h", "--help"} & set(words) else 100_000  # tyro cuts the words of its messages
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(shown), joined_docstrings(), wide(width):
            if default is None:
                options = tyro.cli(kind, args=list(words), prog=f"akorn {command}")
            else:
                options = tyro.cli(kind, args=list(words), prog=f"akorn {command}", default=default)
    except SystemExit as end:
        if end.code == 2:
            raise AkornError(f"{_one_line(told.getvalue())} (akorn {command} --help)") from None
        raise
    check_numbers(options)
    return options


def _one_line(box: str) -> str:
    """The first part of tyro's framed message, without the frame, which may be ASCII, and without colours."""
    lines: list[str] = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()[1:]:
        text = line.strip("│╭╮╰╯ ").strip()
        if not re.fullmatch(r"-{3,}|─+|", text):
            lines.append(text)
        elif text and lines:  # a rule, and not the one below the title
            break
    return _plain(" ".join(lines)) or "these options cannot be read"


def _plain(told: str) -> str:
    """Tyro's complaint about a value of the wrong type, in plain words; any other message stays as it is."""
    choice = re.match(_CHOICE, told)
    if choice is not None:
        known = re.findall(r"'(.*?)'", choice["known"])
        if "None" in known:  # then they are in no order
            known = sorted({*known} - {"None"})
        return f"{choice['option']}: expected {_either(known)}, got {choice['got']}"
    spare = re.match(r"Unrecognized options: ([^-].*)", told)
    if spare is not None:
        return f"there is no place for {spare[1]}"
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
            words = " ".join(re.findall(r"'(.*?)'", several["words"]))
            return f"{option}: expected {_kind(several.groupdict().get('kind'))}, got {words}"
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
    count = max(kind.count("int"), kind.count("INT")) if several else 0
    word = "whole numbers" if "int" in kind.lower() else "numbers" if "float" in kind.lower() else kind
    return f"{count} {word}" if count else word
