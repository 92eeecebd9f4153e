"""Sudoku's tables about votes: over the number of starts, by energy and by confidence. Torch-free."""

from __future__ import annotations

from collections.abc import Callable

from akorn.ledger.records import Record, recipe_of
from akorn.ledger.tables import Cell, Row, Table, matches

ID, OOD = ("test-id", 1000), ("test-ood", 18000)


def roc_area(name: str) -> Callable[[Record], float | None]:
    """An area under the ROC curve of a record, in percent."""

    def value(record: Record) -> float | None:
        area = record["metrics"].get(name)
        return None if area is None else 100.0 * float(area)

    return value


_COUNTS = (1, 4, 16, 64, 100)


def _over_votes(name: str, count: int) -> Callable[[Record], float | None]:
    """A vote's accuracy among this many starts."""

    def value(record: Record) -> float | None:
        told = (record.get("extra") or {}).get("over_votes") or {}
        places = told.get("votes", [])
        return told.get(name, [None] * len(places))[places.index(count)] if count in places else None

    return value


def _voted_on(data: tuple[str, int], steps: int, votes: int) -> Callable[[Record], bool]:
    """Votes of models by the paper's protocol, if the record has every vote over K."""
    wanted = {
        "kind": "eval", "config.data": data[0], "config.boards": data[1], "config.steps": steps, "config.votes": votes
    }  # fmt: skip

    def match(record: Record) -> bool:
        told = "over_votes" in (record.get("extra") or {})
        return told and recipe_of(record) == "sudoku_akorn" and matches(record, wanted)

    return match


OVER_VOTES = Table(
    "Votes over the number of starts, on 18,000 OOD boards",
    (*(f"K = {count}" for count in _COUNTS), "AUROC"),
    tuple(
        Row(label, (*(Cell(_over_votes(name, count), _voted_on(OOD, 128, 100)) for count in _COUNTS),
                    Cell(roc_area(area), _voted_on(OOD, 128, 100))))
        for label, name, area in (
            ("the lowest energy at the last step", "last", "auroc_last"),
            ("the lowest energy, summed over the steps", "sum", "auroc"),
            ("the highest confidence", "confidence", "auroc_confidence"),
            ("any start is right, which no vote can surpass", "any", ""),
            ("boards on which summed energy and confidence choose the same answer", "agree", ""),
            ("right, of these", "agreed", ""),
        )
    ),
    note="AKOrN by the paper's protocol at T = 128, in percent; all rows use the same starts.",
)  # fmt: skip

CONFIDENT = Table(
    "The confidence vote on the paper's model",
    ("ID, 1,000 boards", "OOD, 18,000 boards", "OOD, 1,000 boards evenly spread"),
    tuple(
        Row(
            f"AKOrN, T = {steps}, {label} of {votes:,}",
            tuple(
                Cell(
                    _over_votes("any", votes) if metric == "any" else metric,
                    _voted_on(data, steps, votes),
                    paper if metric == "sum" and data != ID else "–",
                )
                for data in (ID, OOD, ("test-ood", 1000))
            ),
        )
        for steps, votes, paper in ((128, 100, "81.6 ± 1.5"), (512, 1000, "89.5 ± 2.5"))
        for label, metric in (("energy vote", "sum"), ("confidence vote", "confidence"), ("any start", "any"))
    ),
    note="The same models and starts, by the paper's vote and by confidence: the mean over the blanks of the highest"
    " probability, “C-voting” (arXiv 2604.13521). In the votes of 1,000 the model of seed 1 has the weights that"
    " ship, in 8 bits.",
)

_VOTED = {
    "kind": "eval",
    "name": "sudoku_akorn",
    **{f"config.{key}": value for key, value in {"data": "valid-ood", "boards": 90, "steps": 128, "votes": 16}.items()},
}


VOTES = Table(
    "Which start to believe",
    ("board accuracy", "AUROC"),
    tuple(
        Row(label, (Cell(metric, _VOTED), Cell(roc_area(area), _VOTED)))
        for label, metric, area in (
            ("one start, the mean of 16", "single", ""),
            ("the most frequent digits", "majority", ""),
            ("the lowest energy at the last step", "last", "auroc_last"),
            ("the lowest energy, summed over the steps", "sum", "auroc"),
            ("the highest confidence", "confidence", "auroc_confidence"),
        )
    ),
    note="`sudoku-paper` at T = 128 with 16 starts for each of 90 validation boards with 17–34 givens, on two CPU"
    " cores, in percent. Confidence is the mean of the highest probability over the blanks."
    " AUROC is the share of pairs, one right and one wrong answer to the same board, in which the vote prefers the"
    " right one. For this reason `akorn solve` votes by confidence.",
)
