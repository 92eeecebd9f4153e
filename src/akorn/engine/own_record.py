"""The record of a finished run, which the run's folder keeps too: to resume a finished run gives the same record again.

A run writes its record here first and then copies it into the ledger, so there is one record, whenever it is killed.
"""

from pathlib import Path

from akorn.engine.config import Weights
from akorn.ledger import read_records
from akorn.runtime.files import make_folder, replacing

FOLDER = "record"  # in a run's folder


def find(out: Path, weights: Weights) -> Path | None:
    """The record that a run has written with these weights as its model, if any."""
    for record in read_records(out / FOLDER):
        if record["config"].get("weights") == weights:
            return out / FOLDER / record["file"]
    return None


def forget(out: Path) -> None:
    """Remove the run's record from its folder, since the run goes on; it stays in the ledger."""
    for path in (out / FOLDER).glob("*.json"):
        path.unlink(missing_ok=True)


def share(record: Path, ledger: Path) -> Path:
    """Copy the record into the ledger, unless it is there already; its path there."""
    path = ledger / record.name
    if not path.exists():
        make_folder(ledger)
        with replacing(path) as temporary:
            temporary.write_bytes(record.read_bytes())
    return path
