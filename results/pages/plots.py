"""`python -m results.pages.plots FOLDER`: draw what the documentation shows of the records.

sudoku-votes-seeds.png    votes over the number of starts K, a panel for each seed
sudoku-loss-omega.png     the loss in training with and without Ω, a line for each seed; once records have these curves
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from akorn.engine.curves import plot_curves
from akorn.errors import AkornError
from akorn.ledger.records import Record, read_records
from akorn.ledger.tables import chosen
from akorn.sudoku.plots import plot_accuracy_of_each
from results.pages.mends import mended_training
from results.pages.render import RECORDS, ROOT
from results.pages.sudoku_hard import OVER_VOTES
from results.pages.trials import is_trial

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


OMEGA = {"sudoku_akorn": "with Ω", "sudoku_akorn_no_omega": "without Ω"}
"""The recipes whose losses are compared."""


def losses(found: Sequence[Record], out: Path, folder: Path = RECORDS) -> Path | None:
    """Draw the losses of the newest training of each seed with and without Ω; None while one of them has no curve.

    folder: where the records lie.
    """
    runs: dict[str, dict[int, Path]] = {label: {} for label in OMEGA.values()}
    for record in found:  # oldest first
        if record["kind"] == "train" and record["name"] in OMEGA and _has_loss(record):
            runs[OMEGA[record["name"]]][int(record["seed"])] = folder / record["file"]
    if not all(runs.values()):
        return None
    return plot_curves({label: list(each.values()) for label, each in runs.items()}, out, log=True)


def _has_loss(record: Record) -> bool:
    """Whether the record of a training as its recipe says, after the mends, keeps the curve of its loss."""
    training = {"recipe": record["name"], "overrides": record["overrides"]}
    as_told = not is_trial({"name": record["name"], "extra": {"training": training}}, "data.path")
    return as_told and mended_training(record) and "loss" in (record["extra"].get("curve") or {})


def main() -> int:
    """Draw all; exit status 2 if a record is missing."""
    parser = argparse.ArgumentParser(prog="python -m results.pages.plots", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder
    try:
        found = read_records(RECORDS)
        print(f"drawn in {votes(found, folder / 'sudoku-votes-seeds.png')}")
        drawn = losses(found, folder / "sudoku-loss-omega.png")
        missing = "sudoku-loss-omega.png is not drawn: there are no records with curves both with and without Ω yet"
        print(missing if drawn is None else f"drawn in {drawn}")
    except AkornError as error:
        print(f"results.pages.plots: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
