"""How `akorn eval` shows its results for a CIFAR model: as JSON, as tables, or in one line if it was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from akorn.cli.common import say

if TYPE_CHECKING:
    from akorn.robustness.report import Report


def as_json(found: Report, seconds: float) -> dict[str, Any]:
    """The figures and facts side by side, then what is behind them."""
    behind = {"corruptions" if name == "corrupted" else name: value for name, value in found.details.items()}
    return {**found.metrics, **found.facts, "seconds": seconds, **behind}


def so_far(found: Report) -> str:
    """What an unfinished evaluation has scored, in one line."""
    scored = {**found.metrics, **{name: each["accuracy"] for name, each in found.details.get("corrupted", {}).items()}}
    checks = {f"check {each['name']}": each["passed"] for each in found.details.get("checks", ())}
    figures = [f"{name} {value:.2f}" for name, value in scored.items()]
    verdicts = [f"{name} {'holds' if passed else 'FAILS'}" for name, passed in checks.items()]
    return ", ".join([*figures, *verdicts])


def print_report(found: Report, seconds: float) -> None:
    """Tables of the scores, then the facts, the checks and the warnings."""
    from rich.console import Console

    console = Console()
    scores = dict(found.details["scores"])
    console.print(_table("score", scores))
    if "corrupted" in found.details:
        console.print(_table("corruption", found.details["corrupted"]))
    facts = ", ".join(
        f"{name} {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in found.facts.items()
    )
    console.print(f"{facts}; {seconds:.1f} s")
    for check in found.details.get("checks", ()):
        verdict = "holds" if check["passed"] else "FAILS"
        figures = ", ".join(f"{label}: {value:.1f}" for label, value in check["accuracies"].items())
        console.print(
            f"check {check['name']} {verdict}: {check['reason']}"
            + (f" ({figures}; starts {check['starts']})" if figures else "")
        )
    for name, behind in scores.items():
        for warning in behind.get("warnings", ()):
            console.print(f"{name}: AutoAttack warns: {warning}", markup=False)
    for path in found.plots:
        say(f"wrote {path}")


def _table(heading: str, scores: dict[str, dict[str, Any]]) -> Any:
    """Scores with their calibration errors in percent, and their numbers of pictures, starts and, if any, tests."""
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    table.add_column(heading)
    columns = {"accuracy": "%", "ece": "ECE, %", "ece_pooled": "pooled", "pictures": "pictures", "starts": "starts"}
    columns["tests"] = "tests"
    shown = {key: name for key, name in columns.items() if any(key in behind for behind in scores.values())}
    for name in shown.values():
        table.add_column(name, justify="right")
    for label, behind in scores.items():
        values = [behind.get(key) for key in shown]
        table.add_row(label, *("" if v is None else f"{v:.2f}" if isinstance(v, float) else str(v) for v in values))
    return table
