"""Clusters of shipped models: linkage or k-means, how many, and with how much up-tiling. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table, chosen

PICTURES = 320
_SETS = {  # name → label, clusters in the paper's tables, other numbers, up-tiling, which divides the side of a patch
    "tetrominoes": ("Tetrominoes", 4, (2, 3, 4, 5, 6, 8, 10, 12), (1, 2, 4)),
    "dsprites": ("dSprites", 7, (2, 4, 5, 6, 7, 8, 10, 14), (1, 2, 4)),
    "shapes": ("Shapes", 5, (2, 3, 4, 5, 6, 8, 10), (1, 2)),
}
_METHODS = {"average": "average linkage", "kmeans": "k-means"}
_METRICS = {"fg_ari": "FG-ARI", "mbo": "MBO"}
_HEADINGS = tuple(f"{metric}, {method}" for metric in _METRICS.values() for method in _METHODS.values())


def _scored(name: str, method: str, uptile: int) -> Callable[[Record], bool]:
    """The shipped model of this name on the first 320 test pictures of its own set."""
    clusters = _SETS[name][1]

    def fits(record: Record) -> bool:
        config = record["config"]
        wanted = {
            "model": name, "data": name, "source": "generated", "split": "test", "pictures": PICTURES,
            "clusters": clusters, "method": method, "uptile": uptile, "bilinear": 1, "components": 128,
        }  # fmt: skip
        return record["kind"] == "eval" and all(config.get(key) == value for key, value in wanted.items())

    return fits


def _with(clusters: int, metric: str) -> Callable[[Record], float | None]:
    """The score with another number of clusters, from the same evaluation."""

    def look(record: Record) -> float | None:
        found = record.get("extra", {}).get("against_clusters", {}).get(str(clusters), {}).get(metric)
        return found if is_number(found) else None

    return look


def _error(records: Sequence[Record]) -> str:
    """The standard errors behind the table, in words."""
    cells = [cell for row in UPTILING.rows for cell in row.cells if isinstance(cell.metric, str)]
    found = [record["metrics"].get(f"{cell.metric}_error") for cell in cells for record in chosen(records, cell)]
    errors = [error for error in found if is_number(error)]
    return f", with standard errors of {min(errors):.1f} to {max(errors):.1f}" if errors else ""


def _note(records: Sequence[Record]) -> str:
    return (
        f"The shipped models `tetrominoes`, `dsprites` and `shapes` on {PICTURES} test pictures each{_error(records)};"
        " as many clusters as in the paper's tables (4, 7 and 5). The paper says that linkage does better than k-means"
        " (here the best of four restarts), and that up-tiling gives finer clusters. Up-tiling must divide the side of"
        " a patch, which has 4 pixels on Tetrominoes and dSprites and 2 on Shapes, so ×8 is for models with larger"
        " patches."
    )


UPTILING = Table(
    "Average linkage or k-means, and up-tiling",
    _HEADINGS,
    tuple(
        Row(
            label + (f", up-tiling ×{uptile}" if uptile > 1 else ""),
            tuple(Cell(metric, _scored(name, method, uptile)) for metric in _METRICS for method in _METHODS),
        )
        for name, (label, _, _, uptiling) in _SETS.items()
        for uptile in uptiling
    ),
    note=_note,
)

NUMBERS = Table(
    "How many clusters",
    _HEADINGS,
    tuple(
        Row(
            f"{label}, {count} clusters" + (" (as in the paper)" if count == usual else ""),
            tuple(Cell(_with(count, metric), _scored(name, method, 1)) for metric in _METRICS for method in _METHODS),
        )
        for name, (label, usual, counts, _) in _SETS.items()
        for count in counts
    ),
    note=f"The same models and pictures, without up-tiling: `akorn eval NAME --limit {PICTURES} --method METHOD"
    " --against-clusters …`.",
)
