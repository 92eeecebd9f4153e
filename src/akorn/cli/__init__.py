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
from akorn.cli.complaints import one_line
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


def parse(
    kind: type[_T], words: Sequence[str], command: str, default: _T | None = None, also: Sequence[str] = ()
) -> _T:
    """Parse the arguments of a command: tyro reads the dataclass `kind`; `default` may provide its values.

    also: options that are parsed elsewhere, without their dashes, for suggestions in place of unknown ones.
    """
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
            message = one_line(told.getvalue(), kind if default is None else default, also)
            raise AkornError(f"{message} (akorn {command} --help)") from None
        raise
    check_numbers(options)
    return options
