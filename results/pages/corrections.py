"""Before and after the corrections: which trainings count, and the tables of those that no longer do. Torch-free.

Our first trainings differed from the published experiments in what `LIST` names. If a later one has a record, only
that one counts; what it replaced is in a separate table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table, chosen, matches

MARKED = "trained before the corrections"

DATE = "18 November 2026"
LIST = (
    "the decay of the moving average grows at the start of a training",
    "ItrSA, ViT and the Transformer end in a LayerNorm",
    "AugMix has thirteen operations instead of nine",
)
"""What was corrected in trainings, to follow the published experiments."""

WORDS = (
    f"**The corrections.** Since {DATE} trainings follow the published experiments in more details: {LIST[0]};"
    f" {LIST[1]}; {LIST[2]}. If a model trained after that has a record, only that one counts, and what it replaced is"
    " listed under “Before the corrections”."
)
"""What the pages say about them."""

_NOTHING = Cell("", {"kind": "none"})
"""No record fills it, which is found without a look into any."""


def corrected(record: Record) -> bool:
    """Whether a model was trained with an average that warms up, and ItrSA with its last norm."""
    ema = (record.get("extra", {}).get("training") or {}).get("ema") or {}
    first = str((record.get("commit") or {}).get("id")).startswith("3fa2966")  # whose training.json does not say so yet
    return bool(ema.get("warmup")) or first


def corrected_training(record: Record) -> bool:
    """The same of the record of a training itself."""
    return bool((record["config"].get("ema") or {}).get("warmup"))


def earlier(records: Sequence[Record], tables: Sequence[Table]) -> list[Table]:
    """For each table with figures from before and after the corrections: what later trainings have replaced."""
    found = []
    for table in tables:
        rows = [Row(row.label, tuple(_replaced(records, cell) for cell in row.cells)) for row in table.rows]
        rows = [row for row in rows if any(chosen(records, cell) for cell in row.cells)]
        if rows:
            columns = [i for i in range(len(table.headings)) if any(chosen(records, row.cells[i]) for row in rows)]
            found.append(
                replace(
                    table,
                    title=f"Before the corrections: {table.title}",
                    headings=tuple(table.headings[i] for i in columns),
                    rows=tuple(Row(row.label, tuple(row.cells[i] for i in columns)) for row in rows),
                    note="What later trainings have replaced.",
                    marked="",
                    always=False,
                )
            )
    return found


def _replaced(records: Sequence[Record], cell: Cell) -> Cell:
    """The same figure of the records that later ones have replaced, or of none."""
    later = cell.prime is not None and any(map(cell.prime, chosen(records, cell)))
    return replace(cell, match=_uncorrected(cell), prime=None, paper="–") if later else _NOTHING


def _uncorrected(cell: Cell) -> Callable[[Record], bool]:
    return lambda record: matches(record, cell.match) and not corrected(record)
