"""Reads a model's card, the README.md in its folder: a short description and the first scores. Imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

CARD = "README.md"
"""The name of the card in a model's folder."""


@dataclass(frozen=True)
class Card:
    """What a list of models shows about a model."""

    about: str = ""
    """The text after the name in the card's title, "# name: …"."""
    measured: str = ""
    """What was scored, or how: the first cell of the row."""
    scores: dict[str, float] = field(default_factory=dict)
    """The first row of the card's last table, by the headings of its columns, without the paper's own figures."""

    def __str__(self) -> str:
        figures = ", ".join(f"{name} {score:g} %" for name, score in self.scores.items())
        return f"{self.measured}: {figures}" if figures and self.measured else figures


def read_card(file: Path) -> Card:
    """Read a card; empty if there is no card, or none with a table of scores."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return Card()
    title = next((line for line in lines if line.startswith("# ")), "")
    about = title.partition(":")[2].strip()
    for heading, row in reversed(_tables(lines)):
        scores = {
            name: float(text)
            for name, text in zip(heading[1:], row[1:], strict=False)
            if re.fullmatch(r"\d+(\.\d+)?", text) and name and "paper" not in name.lower()
        }
        if scores:
            return Card(about, row[0], scores)
    return Card(about)


def _tables(lines: list[str]) -> list[tuple[list[str], list[str]]]:
    """The heading and the first row of each table in Markdown."""
    return [
        (_cells(lines[place - 1]), _cells(lines[place + 1]))
        for place in range(1, len(lines) - 1)
        if re.fullmatch(r"\|[-:| ]+\|", lines[place]) and lines[place - 1].startswith("|")
    ]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
