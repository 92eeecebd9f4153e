"""Tables filled from records: a table declares its rows and which records fill them. Imports no torch."""

import re
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
"""A value from a record: a number, or words such as a verdict."""

Metric = str | Callable[[Record], Value | None]
"""Which value of a record: the metric of this name, or a function that looks it up (None if absent)."""

_NONE = "–"
_MARK = "†"
_EMPTY = "Not measured yet"


@dataclass(frozen=True)
class Cell:
    """One figure: a metric of the matching records, and the paper's figure."""

    metric: Metric
    match: Match
    paper: str = _NONE
    prefer: Callable[[Record], float] | None = None
    """Of several records of one seed, the one with the largest value of this counts; among equals, the newest."""
    prime: Callable[[Record], bool] | None = None
    """If some matching records satisfy this, only they count; if none does, the figure is marked."""

    def second_best(self, behind: Sequence[Record]) -> bool:
        """Whether a figure with these records behind it is to be marked."""
        return bool(behind) and self.prime is not None and not any(map(self.prime, behind))


@dataclass(frozen=True)
class Row:
    """One line of a table: a label and a cell for each heading."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """One table of a page."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str | Callable[[Sequence[Record]], str] = ""
    """Text, or a function that writes it from all records, to explain the figures."""
    digits: int = 1
    beside: str = "paper"
    """Whose figures are shown beside ours."""
    marked: str = ""
    """The note on figures without a preferred record."""
    always: bool = False
    """Show it though none of the figures is ours yet, for those of others."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.headings):
                counts = f"{len(row.cells)} cells for {len(self.headings)} headings"
                raise ValueError(f"row {row.label!r} of {self.title!r} has {counts}")


def matches(record: Record, match: Match) -> bool:
    """Say whether a record matches."""
    if callable(match):
        return bool(match(record))
    asked = {name.partition(".")[0] for name in match}
    flat = flatten({part: record[part] for part in asked if part in record})
    return all(name in flat and flat[name] == value for name, value in match.items())


def chosen(records: Sequence[Record], cell: Cell) -> list[Record]:
    """Return the records behind a cell: of those that match and have the metric, one per seed.

    The newest, or the newest of those that the cell prefers.
    """
    fitting = [r for r in records if value(r, cell.metric) is not None and matches(r, cell.match)]
    if cell.prime is not None:
        fitting = list(filter(cell.prime, fitting)) or fitting
    prefer = cell.prefer if cell.prefer is not None else lambda record: 0
    best: dict[Any, Record] = {}
    for record in sorted(fitting, key=lambda r: (prefer(r), str(r["date"]))):
        best[record["seed"]] = record
    return list(best.values())


def value(record: Record, metric: Metric) -> Value | None:
    """Return a record's value of a metric: words, or a number that can be averaged."""
    found = metric(record) if callable(metric) else record["metrics"].get(metric)
    return found if found is not None and (isinstance(found, str) or is_number(found)) else None


def summary(values: Sequence[Value | None], digits: int = 1) -> str:
    """Return "mean ± standard deviation (number)"; one value has no deviation, none is a dash; words are counted."""
    words = Counter(word for word in values if isinstance(word, str))
    numbers = [number for number in values if isinstance(number, int | float)]
    parts = [f"{word} ({count})" for word, count in words.items()]
    if numbers:
        spread = f" ± {statistics.stdev(numbers):,.{digits}f}" if len(numbers) > 1 else ""
        parts.append(f"{statistics.fmean(numbers):,.{digits}f}{spread} ({len(numbers)})")
    return ", ".join(parts) or _NONE


def has_figures(records: Sequence[Record], table: Table) -> bool:
    """Say whether a table has something to show: any cell is filled, or it is there for the figures of others."""
    return table.always or any(chosen(records, cell) for row in table.rows for cell in row.cells)


def render(records: Sequence[Record], tables: Sequence[Table], title: str = "Results", intro: str = "") -> str:
    """Return a page: its title and introduction, a table of contents, every table that has a figure, and the names of
    those that have none yet. Empty rows and columns of a table are only named, too.
    """
    shown = [table for table in tables if has_figures(records, table)]
    empty = [table for table in tables if table not in shown]
    lines = [f"# {title}", "", *([intro, ""] if intro else [])]
    lines += contents([*(table.title for table in shown), *([_EMPTY] if empty else [])])
    for table in shown:
        lines += _section(records, table)
    if empty:
        lines += ["", f"## {_EMPTY}", "", *(f"- {table.title} ({len(table.rows)} rows)" for table in empty)]
    return "\n".join(lines).rstrip("\n") + "\n"


def contents(headings: Sequence[str]) -> list[str]:
    """Return the lines of a table of contents: a link to each heading of a page."""
    return [f"- [{heading}](#{anchor(heading)})" for heading in headings]


def anchor(heading: str) -> str:
    """Return the anchor of a heading in GitHub's Markdown: letters, digits and hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _section(records: Sequence[Record], table: Table) -> list[str]:
    """A table with its title and note."""
    note = table.note(records) if callable(table.note) else table.note
    behind = [[chosen(records, cell) for cell in row.cells] for row in table.rows]
    # Rows and columns without any figure are only named; if there is nothing to compare ours with, there is no column
    # for it.
    known = [
        [bool(found) or cell.paper != _NONE for cell, found in zip(row.cells, each, strict=True)]
        for row, each in zip(table.rows, behind, strict=True)
    ]
    columns = [i for i in range(len(table.headings)) if any(row[i] for row in known)]
    compared = [any(row.cells[i].paper != _NONE for row in table.rows) for i in columns]
    filled = [
        cell.second_best(found)
        for row, each in zip(table.rows, behind, strict=True)
        for cell, found in zip(row.cells, each, strict=True)
        if found
    ]
    mark = any(filled) and not all(filled)
    if any(filled) and table.marked:
        note += f" {_MARK} {table.marked}." if mark else f" All of our figures here: {table.marked}."
    body = []
    for row, each in zip(table.rows, behind, strict=True):
        cells = [row.cells[i] for i in columns]
        figures = [
            summary([value(record, cell.metric) for record in each[i]], table.digits)
            + (_MARK if mark and cell.second_best(each[i]) else "")
            for i, cell in zip(columns, cells, strict=True)
        ]
        body.append([row.label, *_columns(figures, [cell.paper for cell in cells], compared)])
    headings = ["", *_columns([table.headings[i] for i in columns], [table.beside] * len(columns), compared)]
    lines = ["", f"## {table.title}", "", *([note, ""] if note else [])]
    lines += markdown(headings, [line for line, each in zip(body, known, strict=True) if any(each)])
    missing = {
        "rows": [row.label for row, each in zip(table.rows, known, strict=True) if not any(each)],
        "columns": [heading for i, heading in enumerate(table.headings) if i not in columns],
    }
    words = [f"No figures yet in the {what}: {'; '.join(names)}." for what, names in missing.items() if names]
    return lines + (["", " ".join(words)] if words else [])


def _columns(ours: Sequence[str], theirs: Sequence[str], compared: Sequence[bool]) -> list[str]:
    """Our columns, each followed by theirs if they are compared."""
    pairs = zip(ours, theirs, compared, strict=True)
    return [text for our, their, both in pairs for text in ((our, their) if both else (our,))]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"

    return [line(headings), "|" + "---|" * len(headings), *map(line, rows)]
