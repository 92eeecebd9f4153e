"""`akorn results`: RESULTS.md from the records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from akorn.cli.common import LEDGER, CommonOptions, print_json
from akorn.errors import AkornError
from akorn.runtime.files import replacing


@dataclass(frozen=True)
class Options(CommonOptions):
    """Render RESULTS.md from the records in results/, with the paper's figure beside each of ours."""

    folder: Path = LEDGER
    """Where the records are."""
    out: Path = Path("RESULTS.md")
    """The page to write; - prints it instead."""


def run(options: Options) -> int:
    """Render, and write the page whole."""
    from akorn.bench.tables import TABLES as speed
    from akorn.ledger import read_records, render
    from akorn.rooms import tables

    if not options.folder.is_dir():
        raise AkornError(f"{options.folder}: there is no such folder of records")
    records = read_records(options.folder)
    if options.json:
        print_json(records)
        return 0
    text = render(records, [*tables(), *speed])
    if str(options.out) == "-":
        print(text, end="")
        return 0
    with replacing(options.out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(f"wrote {options.out} from {len(records)} records")
    return 0
