"""Sudoku's tables about votes over the number of starts, and about hard boards. Torch-free."""

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
    """A vote's accuracy among so many starts."""

    def value(record: Record) -> float | None:
        told = (record.get("extra") or {}).get("over_votes") or {}
        places = told.get("votes", [])
        return told.get(name, [None] * len(places))[places.index(count)] if count in places else None

    return value


def _voted_on(data: tuple[str, int], steps: int, votes: int) -> Callable[[Record], bool]:
    """Votes of models by the paper's protocol whose record has every vote over K."""
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
            ("the best mean rank by both", "both", "auroc_both"),
            ("any start is right, which no vote can surpass", "any", ""),
            ("boards on which summed energy and confidence choose the same answer", "agree", ""),
            ("right, of these", "agreed", ""),
        )
    ),
    note="AKOrN by the paper's protocol at T = 128, in percent; all rows are of the same starts.",
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
    " probability, “C-voting” (arXiv 2604.13521).",
)

LIMIT = "64x2048"
FORUM, HARDEST, MAGICTOUR = ("forum-valid", 500), ("hardest-1106", 375), ("magictour", 1408)
_SETS = {
    "forum hardest, 500 boards of rating 11+": FORUM,
    "forum hardest 1106, 375 boards": HARDEST,
    "magictour, 1,408 boards": MAGICTOUR,
    "our OOD, 18,000 boards": OOD,
}
_HARD_MODELS = ("sudoku", "sudoku-base", "sudoku-paper")


def _solved(model: str, data: tuple[str, int], effort: str | None) -> Callable[[Record], bool]:
    """Evaluations of a shipped model, with adaptive effort up to a limit or at T = 64 from one start."""
    wanted: dict[str, object] = {"kind": "eval", "name": model, "config.data": data[0], "config.boards": data[1]}
    if effort is None:
        wanted |= {"config.steps": 64, "config.votes": 1}
    else:
        wanted |= {"config.effort": effort, "config.stop": "confidence"}
    return lambda record: matches(record, wanted) and (record["config"].get("effort") == effort)


HARD = Table(
    "Hard boards",
    tuple(_SETS),
    tuple(
        Row(f"`{model}`, {label}", tuple(Cell(metric, _solved(model, data, effort)) for data in _SETS.values()))
        for model in _HARD_MODELS
        for label, metric, effort in (
            ("T = 64, one start", "board_accuracy", None),
            ("adaptive effort, at most 64 starts and T = 2,048", "board_accuracy", LIMIT),
            ("the same: sample-steps per board", "sample_steps_per_board", LIMIT),
        )
    ),
    note="Board accuracy in percent. The effort of a board ends when the confidence of an answer is high enough; the"
    " solution and the rules of Sudoku are not looked at. A sample-step is one step of one start. People have collected"
    " these boards as hard ones, and none was in training; they are not Sudoku-Extreme.",
)


def _group(name: str) -> Callable[[Record], float | None]:
    """The accuracy on a group of boards by search nodes."""

    def value(record: Record) -> float | None:
        found = ((record.get("extra") or {}).get("by_nodes") or {}).get(name)
        return None if found is None else float(found["accuracy"])

    return value


BY_NODES = Table(
    "By difficulty: the search nodes of the exact solver",
    tuple(_SETS),
    tuple(
        Row(
            f"`{model}`, {name.replace('-', '–')} nodes",
            tuple(Cell(_group(name), _solved(model, data, LIMIT)) for data in _SETS.values()),
        )
        for model in ("sudoku", "sudoku-base")
        for name in ("1", "2-10", "11-30", "31-100", "101-300", "301-1000", "1001+")
    ),
    note="With adaptive effort, at most 64 starts and T = 2,048; board accuracy in percent. A node is a guess, or the"
    " board itself, with everything that singles and locked candidates conclude from it; the search also proves that"
    " there is no other solution.",
)
