"""RESULTS.md from the ledger: the tasks say which tables there are, the records fill them. Torch-free."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from akorn.ledger.records import Record, is_number
from akorn.runtime.nested import flatten

Match = Mapping[str, object] | Callable[[Record], bool]
"""Which records: dotted names with the values they must have ("name", "config.steps", …), or a predicate."""

Value = float | str
"""What a record says: a number, or words such as a verdict."""

Metric = str | Callable[[Record], Value | None]
"""Which value of a record: that of the metric of this name, or one that is looked up deeper in; None for none."""

_NONE = "–"
_SHOWN = 8  # metrics of a record that is in no table


@dataclass(frozen=True)
class Cell:
    """One figure: a metric of the records that match, and what the paper has in its place."""

    metric: Metric
    match: Match
    paper: str = _NONE
    prefer: Callable[[Record], float] | None = None
    """Of several records of one seed the one for which this is largest counts, the newest of equals."""


@dataclass(frozen=True)
class Row:
    """One line of a table: a label and a cell for each heading."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """One table of RESULTS.md."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str | Callable[[Sequence[Record]], str] = ""
    """Text, or a function that makes it of all records, where it tells what is behind the figures."""
    digits: int = 1
    beside: str = "paper"
    """Whose figures stand beside ours."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.headings):
                counts = f"{len(row.cells)} cells for {len(self.headings)} headings"
                raise ValueError(f"row {row.label!r} of {self.title!r} has {counts}")


def matches(record: Record, match: Match) -> bool:
    """Say whether a record is among those meant."""
    if callable(match):
        return bool(match(record))
    flat = flatten(record)
    return all(name in flat and flat[name] == value for name, value in match.items())


def chosen(records: Sequence[Record], cell: Cell) -> list[Record]:
    """Return the records behind a cell: of those that match and have the metric, one of each seed.

    The newest, or the newest of those that the cell prefers.
    """
    fitting = [r for r in records if value(r, cell.metric) is not None and matches(r, cell.match)]
    prefer = cell.prefer if cell.prefer is not None else lambda record: 0
    best: dict[Any, Record] = {}
    for record in sorted(fitting, key=lambda r: (prefer(r), str(r["date"]))):
        best[record["seed"]] = record
    return list(best.values())


def value(record: Record, metric: Metric) -> Value | None:
    """Return what a record has to show for a metric: words, or a number that can be averaged."""
    found = metric(record) if callable(metric) else record["metrics"].get(metric)
    return found if isinstance(found, str) or is_number(found) else None


def summary(values: Sequence[Value | None], digits: int = 1) -> str:
    """Return "mean ± standard deviation (number)"; one value stands alone, none is a dash; words are counted."""
    words = Counter(word for word in values if isinstance(word, str))
    numbers = [number for number in values if isinstance(number, int | float)]
    parts = [f"{word} ({count})" for word, count in words.items()]
    if numbers:
        spread = f" ± {statistics.stdev(numbers):,.{digits}f}" if len(numbers) > 1 else ""
        parts.append(f"{statistics.fmean(numbers):,.{digits}f}{spread} ({len(numbers)})")
    return ", ".join(parts) or _NONE


def render(records: Sequence[Record], tables: Sequence[Table]) -> str:
    """Return RESULTS.md: every table that has a figure, with its empty rows and columns only named; the names of the
    other tables; then the records that none shows.
    """
    lines = [
        "# Results",
        "",
        "Rendered from the records in `results/` by `akorn results`; never edited by hand.",
        "",
        "Ours is the mean ± the sample standard deviation over seeds, with the number of seeds in brackets;"
        " of several records of one seed the newest counts, or the one that a table's note prefers; the others are"
        " listed at the end. – means no figure.",
    ]
    shown: set[int] = set()
    empty = [table for table in tables if not any(chosen(records, cell) for row in table.rows for cell in row.cells)]
    for table in tables:
        if table not in empty:
            lines += _section(records, table, shown)
    if empty:
        lines += ["", "## Not measured yet", "", *(f"- {table.title} ({len(table.rows)} rows)" for table in empty)]
    others = [record for record in records if id(record) not in shown]
    if others:
        lines += ["", "## Records in no table", ""]
        lines += _markdown(["date", "kind", "name", "seed", "metrics", "file"], [_plain(r) for r in others])
    return "\n".join(lines) + "\n"


def _section(records: Sequence[Record], table: Table, shown: set[int]) -> list[str]:
    """A table with its title and note; which records it shows is added to `shown`."""
    note = table.note(records) if callable(table.note) else table.note
    behind = [[chosen(records, cell) for cell in row.cells] for row in table.rows]
    shown |= {id(record) for row in behind for found in row for record in found}
    # Rows and columns in which nobody has a figure are only named; where nobody has one to stand beside ours, there is
    # no column for it.
    known = [
        [bool(found) or cell.paper != _NONE for cell, found in zip(row.cells, each, strict=True)]
        for row, each in zip(table.rows, behind, strict=True)
    ]
    columns = [i for i in range(len(table.headings)) if any(row[i] for row in known)]
    compared = [any(row.cells[i].paper != _NONE for row in table.rows) for i in columns]
    body = []
    for row, each in zip(table.rows, behind, strict=True):
        cells = [row.cells[i] for i in columns]
        figures = [
            summary([value(record, cell.metric) for record in each[i]], table.digits)
            for i, cell in zip(columns, cells, strict=True)
        ]
        body.append([row.label, *_columns(figures, [cell.paper for cell in cells], compared)])
    headings = ["", *_columns([table.headings[i] for i in columns], [table.beside] * len(columns), compared)]
    lines = ["", f"## {table.title}", "", *([note, ""] if note else [])]
    lines += _markdown(headings, [line for line, each in zip(body, known, strict=True) if any(each)])
    missing = {
        "rows": [row.label for row, each in zip(table.rows, known, strict=True) if not any(each)],
        "columns": [heading for i, heading in enumerate(table.headings) if i not in columns],
    }
    words = [f"No figures yet in the {what}: {'; '.join(names)}." for what, names in missing.items() if names]
    return lines + (["", " ".join(words)] if words else [])


def _columns(ours: Sequence[str], theirs: Sequence[str], compared: Sequence[bool]) -> list[str]:
    """Ours, each with theirs beside it where these are compared."""
    pairs = zip(ours, theirs, compared, strict=True)
    return [text for our, their, both in pairs for text in ((our, their) if both else (our,))]


def _plain(record: Record) -> list[str]:
    shown = list(record["metrics"].items())[:_SHOWN]
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in shown)
    if more := len(record["metrics"]) - len(shown):
        metrics += f", and {more} more"
    fields = [record[key] for key in ("date", "kind", "name", "seed")]
    return [*map(str, fields), metrics, str(record.get("file", ""))]


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"

    return [line(headings), "|" + "---|" * len(headings), *map(line, rows)]
