"""`python -m results.pages.plots FOLDER`: draw what the documentation shows of the records.

sudoku-votes-seeds.png    votes over the number of starts K, a panel for each seed
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from akorn.errors import AkornError
from akorn.ledger.records import Record, read_records
from akorn.ledger.tables import chosen
from akorn.sudoku.plots import plot_accuracy_of_each
from results.pages.render import RECORDS, ROOT
from results.pages.sudoku_hard import OVER_VOTES

VOTES = {"any": "any start is right", "confidence": "confidence", "sum": "energy, summed", "last": "energy, last step"}
"""What is drawn of the table of votes over K, the best first."""


def votes(found: Sequence[Record], out: Path) -> Path:
    """Draw the records that fill the table of votes over K."""
    panels = {}
    for record in sorted(chosen(found, OVER_VOTES.rows[0].cells[0]), key=lambda record: int(record["seed"])):
        told = record["extra"]["over_votes"]
        panels[f"seed {record['seed']}"] = {
            label: dict(zip(told["votes"], told[name], strict=True)) for name, label in VOTES.items()
        }
    if not panels:
        raise AkornError(f"no record fills the table {OVER_VOTES.title!r}")
    return plot_accuracy_of_each(panels, out, against="number of starts K")


def main() -> int:
    """Draw all; exit status 2 if a record is missing."""
    parser = argparse.ArgumentParser(prog="python -m results.pages.plots", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder
    try:
        print(f"drawn in {votes(read_records(RECORDS), folder / 'sudoku-votes-seeds.png')}")
    except AkornError as error:
        print(f"results.pages.plots: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
