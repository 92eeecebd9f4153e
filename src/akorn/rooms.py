"""The rooms: one a task, all of the same shape, so that commands and names find their parts. Torch-free to import.

    akorn/ROOM/config.py     the models' settings: `to_settings`, `from_settings`
    akorn/ROOM/recipes.py    `RECIPES`, one function a row of the paper, and `SHIPPED`: weights → their recipe
    akorn/ROOM/model.py      `build(config)`
    akorn/ROOM/task.py       `make_task(recipe)`, for the training loop
    akorn/ROOM/commands/evaluate.py   `akorn eval` for its models
    akorn/ROOM/commands/make.py       `akorn data make` for the data sets in its `NAMES`

A new task adds these and its name to `ROOMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from akorn.errors import AkornError
from akorn.runtime.json_files import read_object

if TYPE_CHECKING:
    from akorn.engine.config import TrainConfig

ROOMS = ("sudoku", "objects", "robustness")

WEIGHTS = Path(__file__).parent / "weights"
CONFIG = "config.json"


class Recipe(Protocol):
    """What all recipes have; each room's own is a frozen dataclass."""

    @property
    def name(self) -> str:
        """As `akorn train NAME` takes it."""
        ...

    @property
    def model(self) -> Any:
        """The model's settings."""
        ...

    @property
    def train(self) -> TrainConfig:
        """What the training loop is told."""
        ...

    @property
    def data(self) -> Any:
        """What to train on; its `path` is a user's own data."""
        ...

    @property
    def valid(self) -> Any:
        """What to score while training; its `path` is a user's own data."""
        ...


def part(room: str, name: str) -> ModuleType:
    """A room's module, such as its "recipes"."""
    return import_module(f"akorn.{room}.{name}")


def recipes() -> dict[str, Callable[[], Recipe]]:
    """Every room's recipes."""
    return {name: recipe for room in ROOMS for name, recipe in part(room, "recipes").RECIPES.items()}


def models() -> dict[str, tuple[str, str]]:
    """Models that can be built by name: → (room, recipe). Those of the recipes, and the weights made by them."""
    return dict(_models())


def _models() -> Iterator[tuple[str, tuple[str, str]]]:
    for room in ROOMS:
        module = part(room, "recipes")
        for name in module.RECIPES:
            yield name.replace("_", "-"), (room, name)
        for weights, name in module.SHIPPED.items():
            yield weights, (room, name)


def room_of_recipe(name: str) -> str:
    """Where a recipe is at home."""
    for room in ROOMS:
        if name in part(room, "recipes").RECIPES:
            return room
    raise AkornError(f"unknown recipe {name!r}: the known ones are {', '.join(recipes())}")


def room_of_model(name_or_folder: str | Path) -> str | None:
    """Where a model is at home, by its folder's config or its name; None where neither tells."""
    for folder in (Path(name_or_folder), WEIGHTS / str(name_or_folder).replace("_", "-")):
        try:
            task = read_object(folder / CONFIG).get("task")
        except AkornError:
            continue
        if task in ROOMS:
            return str(task)
    home = models().get(str(name_or_folder).replace("_", "-"))
    return home[0] if home is not None else None
