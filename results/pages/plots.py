"""`python -m results.pages.plots FOLDER`: draw what the documentation shows of the records.

sudoku-votes-seeds.png    votes over the number of starts K, a panel for each seed
sudoku-nodes.png          what the shipped solver solves of hard boards, by the exact solver's search nodes
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
from akorn.ledger.tables import Cell, chosen
from akorn.sudoku.plots import plot_accuracy_of_each, plot_by_nodes
from results.pages.corrections import corrected_training
from results.pages.render import RECORDS, ROOT
from results.pages.sudoku_hard import BY_NODES, FORUM, HARDEST, MAGICTOUR, by_nodes, with_effort
from results.pages.sudoku_votes import OVER_VOTES
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


def nodes(found: Sequence[Record], out: Path) -> Path:
    """Draw the newest record of each set of hard boards in the table of accuracy by search nodes."""
    curves = {}
    for data in (FORUM, HARDEST, MAGICTOUR):
        for record in chosen(found, Cell("board_accuracy", with_effort(data))):
            curves[data[0]] = {name: (each["accuracy"], int(each["boards"])) for name, each in by_nodes(record).items()}
    if not curves:
        raise AkornError(f"no record fills the table {BY_NODES.title!r}")
    return plot_by_nodes(curves, out)


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
    """Whether the record of a training as its recipe says, after the corrections, keeps the curve of its loss."""
    training = {"recipe": record["name"], "overrides": record["overrides"]}
    as_told = not is_trial({"name": record["name"], "extra": {"training": training}}, "data.path")
    return as_told and corrected_training(record) and "loss" in (record["extra"].get("curve") or {})


def main() -> int:
    """Draw all; exit status 2 if a record is missing."""
    parser = argparse.ArgumentParser(prog="python -m results.pages.plots", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder
    try:
        found = read_records(RECORDS)
        for draw, name in ((votes, "sudoku-votes-seeds.png"), (nodes, "sudoku-nodes.png")):
            print(f"drawn in {draw(found, folder / name)}")
        drawn = losses(found, folder / "sudoku-loss-omega.png")
        missing = "sudoku-loss-omega.png is not drawn: there are no records with curves both with and without Ω yet"
        print(missing if drawn is None else f"drawn in {drawn}")
    except AkornError as error:
        print(f"results.pages.plots: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
