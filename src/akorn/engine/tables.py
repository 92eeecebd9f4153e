"""RESULTS.md from the ledger: the tasks say which tables there are, the records fill them. Torch-free."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from akorn.engine.config import flatten
from akorn.engine.ledger import Record, is_number

Match = Mapping[str, object] | Callable[[Record], bool]
"""Which records: dotted names with the values they must have ("name", "config.steps", …), or a predicate."""

_NONE = "–"
_SHOWN = 8  # metrics of a record that is in no table


@dataclass(frozen=True)
class Cell:
    """One figure: a metric of the records that match, and what the paper has in its place."""

    metric: str
    match: Match
    paper: str = _NONE


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
    note: str = ""
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
    """Return the records behind a cell: of those that match and have the metric, the newest of each seed."""
    fitting = [r for r in records if is_number(r["metrics"].get(cell.metric)) and matches(r, cell.match)]
    newest: dict[Any, Record] = {}
    for record in sorted(fitting, key=lambda r: str(r["date"])):
        newest[record["seed"]] = record
    return list(newest.values())


def summary(values: Sequence[float], digits: int = 1) -> str:
    """Return "mean ± standard deviation (number)"; one value stands alone, none is a dash."""
    if not values:
        return _NONE
    mean = statistics.fmean(values)
    if len(values) == 1:
        return f"{mean:,.{digits}f} (1)"
    return f"{mean:,.{digits}f} ± {statistics.stdev(values):,.{digits}f} ({len(values)})"


def render(records: Sequence[Record], tables: Sequence[Table]) -> str:
    """Return RESULTS.md: every table that has a figure, the names of the others, then the records that none shows."""
    lines = [
        "# Results",
        "",
        "Rendered from the records in `results/` by `akorn results`; never edited by hand.",
        "",
        "Ours is the mean ± the sample standard deviation over seeds, with the number of seeds in brackets;"
        " of several records of one seed the newest counts, the others are listed at the end. – means no figure.",
    ]
    shown: set[int] = set()
    empty = [table for table in tables if not any(chosen(records, cell) for row in table.rows for cell in row.cells)]
    for table in tables:
        if table in empty:
            continue
        # Where nobody has a figure to stand beside ours, there is no column for it.
        compared = [any(row.cells[i].paper != _NONE for row in table.rows) for i in range(len(table.headings))]
        headings = ["", *_columns(table.headings, [table.beside] * len(compared), compared)]
        lines += ["", f"## {table.title}", "", *([table.note, ""] if table.note else [])]
        body = []
        for row in table.rows:
            behind = [chosen(records, cell) for cell in row.cells]
            shown |= {id(record) for found in behind for record in found}
            figures = [
                summary([record["metrics"][cell.metric] for record in found], table.digits)
                for cell, found in zip(row.cells, behind, strict=True)
            ]
            body.append([row.label, *_columns(figures, [cell.paper for cell in row.cells], compared)])
        lines += _markdown(headings, body)
    if empty:
        lines += ["", "## Not measured yet", "", *(f"- {table.title} ({len(table.rows)} rows)" for table in empty)]
    others = [record for record in records if id(record) not in shown]
    if others:
        lines += ["", "## Records in no table", ""]
        lines += _markdown(["date", "kind", "name", "seed", "metrics", "file"], [_plain(r) for r in others])
    return "\n".join(lines) + "\n"


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
