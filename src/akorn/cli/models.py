"""`akorn models`: the models that ship, by task, with size, scores and command; and the models that can be built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from akorn import models, rooms
from akorn.cli.common import CommonOptions, print_json
from akorn.model_cards import CARD, Card, read_card
from akorn.registry import summary
from akorn.settings import WEIGHTS_FILE


@dataclass(frozen=True)
class Options(CommonOptions):
    """List the shipped models by task, with size, scores in percent, and the command that uses each."""

    all: bool = False
    """Also list the models without weights, which can be built by name and trained."""


@dataclass(frozen=True)
class Entry:
    """A model as the list shows it."""

    name: str
    task: str
    pretrained: bool
    megabytes: float | None
    """Size of the weights that ship."""
    card: Card
    command: str
    """The command that uses a shipped model, or that trains one without weights."""

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "pretrained": self.pretrained,
            "task": self.task,
            "megabytes": self.megabytes,
            "about": self.card.about,
            "measured": self.card.measured,
            "scores": self.card.scores,
            "command": self.command,
        }


def entries() -> list[Entry]:
    """Every model that can be loaded or built, those that ship first, by task and name."""
    shipped, found = models.list_models(pretrained=True), []
    for name in models.list_models():
        task = models.room_of_model(models.shipped_folder(name) if name in shipped else name) or ""
        found.append(_shipped(name, task) if name in shipped else _trained(name, task))
    return sorted(found, key=lambda entry: (not entry.pretrained, _place(entry.task), entry.name))


def _place(task: str) -> int:
    return rooms.ROOMS.index(task) if task in rooms.ROOMS else len(rooms.ROOMS)


def _shipped(name: str, task: str) -> Entry:
    folder = models.shipped_folder(name)
    weights = folder / WEIGHTS_FILE
    size = round(weights.stat().st_size / 1e6, 1) if weights.is_file() else None
    use = getattr(rooms.part(task, "commands"), "USE", "akorn eval {model}") if task else ""
    return Entry(name, task, True, size, read_card(folder / CARD), use.format(model=name))


def _trained(name: str, task: str) -> Entry:
    _, recipe = rooms.models()[name]
    return Entry(name, task, False, None, Card(summary(rooms.recipes()[recipe])), f"akorn train {recipe}")


def run(options: Options) -> int:
    """Print the models."""
    found = entries()
    if options.json:
        print_json({entry.name: entry.as_json() for entry in sorted(found, key=lambda entry: entry.name)})
        return 0
    shipped = [entry for entry in found if entry.pretrained]
    others = [entry for entry in found if not entry.pretrained]
    print("Models with shipped weights (scores in percent, from their cards):")
    for task in dict.fromkeys(entry.task for entry in shipped):
        print(f"\n{task}")
        for entry in shipped:
            if entry.task == task:
                _show(entry)
    if options.all:
        print("\nModels without weights, which can be built by name (akorn.create_model) and trained:")
        width = max(len(entry.name) for entry in others)
        for task in dict.fromkeys(entry.task for entry in others):
            print(f"\n{task}")
            for entry in others:
                if entry.task == task:
                    print(f"  {entry.name:<{width}}  {entry.card.about}")
        print("\nakorn train RECIPE trains one; the recipe has the model's name with _ instead of - (akorn recipes).")
    elif others:
        print(f"\n{len(others)} more can be built by name and trained: akorn models --all")
    return 0


def _show(entry: Entry) -> None:
    size = "" if entry.megabytes is None else f"{entry.megabytes:.1f} MB"
    facts = ", ".join(part for part in (size, entry.card.about) if part)
    print(f"  {entry.name}  ({facts})" if facts else f"  {entry.name}")
    if str(entry.card):
        print(f"      {entry.card}")
    print(f"      {entry.command}")
