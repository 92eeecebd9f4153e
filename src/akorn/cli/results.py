"""`akorn results`: the records of a folder as tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from akorn.cli.common import LEDGER, CommonOptions, print_json, printable, say
from akorn.errors import AkornError
from akorn.registry import unknown
from akorn.runtime.files import replacing

if TYPE_CHECKING:
    from akorn.ledger.overview import Sheet
    from akorn.ledger.records import Record


@dataclass(frozen=True)
class Options(CommonOptions):
    """Show the records of your runs and evaluations: one table per recipe or model, mean ± deviation over seeds."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Only these recipes or models; * stands for any letters, as in 'sudoku_*'. By default all."""
    folder: Path = LEDGER
    """Where the records are."""
    out: Path = Path("-")
    """A Markdown file for the tables; - prints them: on a terminal as drawn tables of the scores alone, otherwise as
    Markdown. Only a file that this command wrote is replaced."""


def run(options: Options) -> int:
    """Print the tables, or write the whole page. A file that is not a record is reported and skipped: exit status 2."""
    from akorn.ledger import overview, read_records
    from akorn.ledger.overview import sheets

    if not options.folder.is_dir():
        wrong_how = "is not a folder" if options.folder.exists() else "does not exist"
        raise AkornError(f"{options.folder}: this folder of records {wrong_how}")
    wrong: list[AkornError] = []
    records = read_records(options.folder, wrong.append)
    for error in wrong:  # the others are shown anyway
        say(f"akorn: {error}; skipped")
    status = 2 if wrong else 0
    records = _named(records, options)
    if options.json:
        print_json(records)
        return status
    if str(options.out) == "-" and sys.stdout.isatty():
        _draw(sheets(records, scores=True))
        return status
    text = overview(records)
    if str(options.out) == "-":
        print(text, end="")
        return status
    _check_replaceable(options.out)
    with replacing(options.out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(printable(f"wrote {options.out} from {len(records)} records"))
    return status


def _named(records: list[Record], options: Options) -> list[Record]:
    """The records of the wanted names; AkornError for a name that no record has."""
    there = sorted({str(record["name"]) for record in records})
    for name in options.names:
        if not any(fnmatchcase(known, name) for known in there):
            raise AkornError(f"{options.folder}: {unknown('name', name, there)}")
    if not options.names:
        return records
    return [record for record in records if any(fnmatchcase(str(record["name"]), name) for name in options.names)]


def _draw(found: Sequence[Sheet]) -> None:
    """Tables for people, as wide as the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for sheet in found:
        figures = [text for row in sheet.rows for text in row if text.endswith(")") and " (" in text]
        single = bool(figures) and all(text.endswith(" (1)") for text in figures)
        table = Table(title=Text(printable(sheet.title), style="bold"), title_justify="left", padding=(0, 1))
        for name in sheet.head:
            left = name in ("settings", "device", "date")
            table.add_column(Text(printable(name)), justify="left" if left else "right", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(Text(printable(text.removesuffix(" (1)") if single else text)) for text in row))
        console.print(table)
    if not found:
        console.print("there are no records yet")


def _check_replaceable(page: Path) -> None:
    """AkornError if this command did not write the existing file."""
    from akorn.ledger.overview import MARK

    if not page.exists():
        return
    try:
        head = page.read_text(encoding="utf-8")[:500]
    except (OSError, ValueError):
        head = ""
    if MARK not in head:
        raise AkornError(
            f"{page}: `akorn results` did not write this file and will not replace it; choose another --out"
        )
