"""The scores of `akorn eval` for Sudoku models as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from akorn.sudoku.difficulty import by_nodes
from akorn.sudoku.evaluate import Evaluation, Spent
from akorn.sudoku.samples import Samples

MOST_COLUMNS = 7
"""Numbers of votes K that fit in a terminal of 80 columns; with more of them, every other one is shown."""


def print_evaluation(found: Evaluation, nodes: NDArray[np.int64]) -> None:
    """Print the scores: by givens, difficulty and search nodes, then all together."""
    console = Console()
    by: dict[str, Mapping[Any, tuple[float, int]]] = {
        "givens": found.by_givens,
        "difficulty": found.by_difficulty,
        "search nodes": by_nodes(nodes, found.solved),
    }
    for first, groups in by.items():
        table = Table(box=None, header_style="bold")
        for heading in (first, "boards", "accuracy %"):
            table.add_column(heading, justify="right")
        for name, (accuracy, boards) in groups.items():
            table.add_row(str(name), str(boards), f"{accuracy:.1f}")
        console.print(table)
    how = "1 vote" if found.votes == 1 else f"{found.votes} votes, {found.vote}"
    if found.spent is not None:
        _print_spent(found.spent)
        how = f"adaptive effort up to {found.votes} starts, T ≤ {found.steps:,}"
        console.print(f"board accuracy {found.board_accuracy:.2f} % ({how}) in {found.seconds:.1f} s")
        return
    console.print(f"board accuracy {found.board_accuracy:.2f} % (T = {found.steps}, {how}) in {found.seconds:.1f} s")
    if found.votes > 1:
        words = {"single": "mean of all starts", "first": "first start alone"}
        told = (f"{words.get(name, name)} {value:.2f}" for name, value in found.accuracies.items())
        console.print(f"accuracy by vote: {', '.join(told)}")
    if found.samples is not None and found.votes > 1:
        print_votes(found.samples)


def print_votes(samples: Samples) -> None:
    """The votes over K."""
    told = samples.over_votes()
    table = Table(box=None, header_style="bold")
    table.add_column("votes K", max_width=26)
    counts = told.pop("votes")
    shown = list(range(len(counts)))
    if len(counts) > MOST_COLUMNS:  # every other one, with the first and the last
        shown = sorted({0, *range(len(counts) - 1, 0, -2)})
    for place in shown:
        table.add_column(f"{counts[place]:,}", justify="right", no_wrap=True)
    table.add_column("AUROC", justify="right", no_wrap=True)
    names = {
        "both": "by energy and confidence combined",
        "any": "any start is right",
        "agree": "energy and confidence choose the same answer",
        "agreed": "of these, right",
    }
    for name, values in told.items():
        area = f"{samples.auroc(name):.3f}" if name in samples.votes else ""
        figures = ("–" if values[place] is None else f"{values[place]:.1f}" for place in shown)
        table.add_row(names.get(name, name), *figures, area)
    Console().print(table)


def _print_spent(spent: Spent) -> None:
    """What adaptive effort was spent."""
    console = Console()
    table = Table(box=None, header_style="bold")
    for heading in ("starts", "steps", "boards that ended here", "accuracy %"):
        table.add_column(heading, justify="right")
    told = spent.as_json()
    for each in told["rounds"]:
        right = "–" if each["accuracy"] is None else f"{each['accuracy']:.1f}"
        table.add_row(str(each["starts"]), f"{each['steps']:,}", str(each["boards"]), right)
    console.print(table)
    rule = f"confidence ≥ {spent.limit.sure:g}" if spent.limit.stop == "confidence" else "a valid answer"
    sure, unsure = told["sure_boards"], told["unsure_boards"]
    words = [
        f"{each['boards']} {name} ({each['accuracy']:.1f} % right)"
        for name, each in (("boards ended so", sure), ("ended at the limit", unsure))
        if each["boards"]
    ]
    console.print(f"effort ends with {rule}: {', '.join(words)}; {spent.mean:,.0f} sample-steps per board on average")
