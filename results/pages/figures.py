"""Claims, and the figures that they are based on: looked up in the tables' records, never typed. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Table, chosen, summary, value
from results.pages.corrections import corrected


@dataclass(frozen=True)
class Figure:
    """A cell of a table, and what RESULTS.md calls it."""

    what: str
    table: Table
    row: str
    heading: str

    @property
    def cell(self) -> Cell:
        """The cell itself; AkornError if the table has no such row or column."""
        rows = [row for row in self.table.rows if row.label == self.row]
        if len(rows) != 1 or self.heading not in self.table.headings:
            raise AkornError(f"{self.table.title!r} has no cell ({self.row!r}, {self.heading!r})")
        return rows[0].cells[self.table.headings.index(self.heading)]


@dataclass(frozen=True)
class Found:
    """What the records say about a figure: its text in tables, its mean, the paper's figure, and the records behind it.

    In a claim's words `{name}` is ours and `{name.paper}` the paper's.
    """

    text: str
    mean: float
    paper: str
    records: tuple[Record, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def seeds(self) -> str:
        """How many trainings are behind it, in words."""
        return "one seed" if len(self.records) == 1 else f"{len(self.records)} seeds"

    @property
    def spread(self) -> float:
        """The standard deviation over seeds, 0 for one seed."""
        return float(self.text.partition(" ± ")[2] or 0)

    @property
    def corrected(self) -> bool:
        """Whether all models behind it were trained after the corrections."""
        return bool(self.records) and all(map(corrected, self.records))

    @property
    def paper_mean(self) -> float:
        """The paper's figure as a number."""
        return float(self.paper.partition(" ± ")[0].replace(",", ""))

    @property
    def reaches_the_paper(self) -> bool:
        """Whether ours is no further below the paper's mean than its standard deviation."""
        return self.mean >= self.paper_mean - float(self.paper.partition(" ± ")[2] or 0)


class Verdict(StrEnum):
    """What our records make of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"


def always(of: Mapping[str, Found]) -> bool:
    """No condition: for a claim that is open because figures are missing."""
    return True


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our verdict, and why.

    A verdict is a judgement; `holds` says on which relation of the figures it is based, and a page whose figures no
    longer support a verdict is not rendered. A claim is open until the figures in `awaited` exist: it must be judged
    again as soon as one of them has a record.
    """

    claim: str
    verdict: Verdict
    words: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    holds: Callable[[Mapping[str, Found]], bool] = always
    paper: str = "–"
    """The paper's decisive figures, in the summary at the top; as `words`, with {name.paper}."""
    ours: str = "–"
    """Ours, likewise."""
    awaited: Mapping[str, Figure] = field(default_factory=dict)
    partly: Mapping[str, Figure] = field(default_factory=dict)
    """Figures that are shown if they have records, and are dashes otherwise."""
    otherwise: Claim | None = None
    """What is said instead, under the same heading, if figures are missing or do not support this verdict."""

    @property
    def all_figures(self) -> dict[str, Figure]:
        """All that it shows."""
        return {**self.figures, **self.awaited, **self.partly}

    def alternatives(self) -> Iterator[Claim]:
        """Yield this claim, and what is said otherwise."""
        claim: Claim | None = self
        while claim is not None:
            yield claim
            claim = claim.otherwise

    def judged(self, records: Sequence[Record]) -> tuple[Claim, dict[str, Found]]:
        """Return the first alternative that the figures support, and these figures; AkornError if there is none."""
        for claim in self.alternatives():
            for figure in (*claim.figures.values(), *claim.partly.values(), *claim.awaited.values()):
                _ = figure.cell  # a mistyped row is a mistake in every alternative
            try:
                return claim, claim.check(records)
            except AkornError:
                if claim.otherwise is None:
                    raise
        raise AssertionError("a claim has at least itself")

    def check(self, records: Sequence[Record]) -> dict[str, Found]:
        """Return the figures; AkornError if one is missing or does not support the verdict."""
        found = {name: look(records, figure) for name, figure in self.figures.items()}
        if not self.holds(found):
            figures = ", ".join(f"{self.figures[name].what} {each}" for name, each in found.items())
            raise AkornError(f"claim {self.claim!r} is no longer {self.verdict} by its figures: {figures}")
        for name, figure in self.awaited.items():
            if chosen(records, figure.cell):
                raise AkornError(f"claim {self.claim!r} is open for want of {figure.what!r}, which now has a record")
            found[name] = Found("–", math.nan, figure.cell.paper, ())
        for name, figure in self.partly.items():
            filled = bool(chosen(records, figure.cell))
            found[name] = look(records, figure) if filled else Found("–", math.nan, figure.cell.paper, ())
        return found


@dataclass(frozen=True)
class Section:
    """The claims of one task, with an introduction to it and the page that has its full tables."""

    title: str
    words: str
    page: str
    claims: tuple[Claim, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Figures that the introduction names."""
    ours: bool = False
    """Whether the claims are ours and not the paper's: then they are not in the summary."""


Outcome = tuple[Verdict, str, Callable[[Mapping[str, Found]], bool]]
"""A verdict, its words, and which figures support it."""


def judge(claim: str, figures: Mapping[str, Figure], paper: str, ours: str, last: Claim, *outcomes: Outcome) -> Claim:
    """Return a claim with these outcomes, the first that holds counts; `last` is said if none does.

    Records arrive one by one. What each outcome would mean is said in advance, so pages render without new words.
    """
    for verdict, words, holds in reversed(outcomes):
        last = Claim(claim, verdict, words, figures, holds, paper, ours, otherwise=last)
    return last


def look(records: Sequence[Record], figure: Figure) -> Found:
    """Return what the records say about a figure; AkornError if none of them has it."""
    cell = figure.cell
    behind = chosen(records, cell)
    values = [value(record, cell.metric) for record in behind]
    numbers = [number for number in values if isinstance(number, int | float)]
    if not numbers or len(numbers) != len(values):
        raise AkornError(f"{figure.what!r} has no figure: no record fills ({figure.row!r}, {figure.heading!r})")
    text = summary(values, figure.table.digits).removesuffix(f" ({len(numbers)})")
    return Found(text, fmean(numbers), cell.paper, tuple(behind))
