"""`akorn results`: the records of a folder as tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from akorn.cli.common import LEDGER, CommonOptions, print_json, printable, say
from akorn.errors import AkornError
from akorn.runtime.files import replacing


@dataclass(frozen=True)
class Options(CommonOptions):
    """Show the records of your runs and evaluations: one table per recipe or model, mean ± deviation over seeds."""

    folder: Path = LEDGER
    """Where the records are."""
    out: Path = Path("-")
    """A Markdown file for the tables; - prints them. Only a file that this command wrote is replaced."""


def run(options: Options) -> int:
    """Print the tables, or write the whole page. A file that is not a record is reported and skipped: exit status 2."""
    from akorn.ledger import overview, read_records

    if not options.folder.is_dir():
        wrong_how = "is not a folder" if options.folder.exists() else "does not exist"
        raise AkornError(f"{options.folder}: this folder of records {wrong_how}")
    wrong: list[AkornError] = []
    records = read_records(options.folder, wrong.append)
    for error in wrong:  # the others are shown anyway
        say(f"akorn: {error}; skipped")
    status = 2 if wrong else 0
    if options.json:
        print_json(records)
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
