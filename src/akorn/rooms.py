"""The rooms: one folder per task, all with the same layout, so that commands find their parts. Imports no torch.

    akorn/ROOM/config.py     `ARCHITECTURES`: the models' settings, and `check(config)`
    akorn/ROOM/recipes.py    `RECIPES`: functions that return a recipe
    akorn/ROOM/task.py       `make_task(recipe)`, for the training loop
    akorn/ROOM/export.py     `program(model, steps)`: its models as graphs, for `akorn export --format onnx`
    akorn/ROOM/commands/     `COMMANDS`: name → (module, what it does), of commands that are the room's own, and
                             perhaps `USE`: the command that uses one of its models
    akorn/ROOM/commands/evaluate.py   `akorn eval` for its models
    akorn/ROOM/commands/make.py       `akorn data make` for the data sets in its `NAMES`

A new task adds these and its name to `ROOMS`. Those of `export`, `eval` and `data make` are for rooms that have
something to export, to score or to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from akorn.errors import AkornError
from akorn.registry import Registry, unknown
from akorn.settings import as_json, from_json

if TYPE_CHECKING:
    from akorn.engine.config import TrainConfig
    from akorn.hub import HubModel

ROOMS = ("sudoku", "objects", "robustness")

COMMAND_FOLDERS = (*ROOMS, "simulate", "web", "cli", "bench")
"""Folders whose `commands` declare `COMMANDS`, in the order of `akorn --help`."""


class Recipe(Protocol):
    """What all recipes have in common; each room's recipe is a frozen dataclass."""

    @property
    def name(self) -> str:
        """The name for `akorn train NAME`."""
        ...

    @property
    def model(self) -> Any:
        """The model's settings."""
        ...

    @property
    def train(self) -> TrainConfig:
        """The settings of the training loop."""
        ...

    @property
    def data(self) -> Any:
        """The training data; `path` is for a user's own data."""
        ...

    @property
    def valid(self) -> Any:
        """The validation data; `path` is for a user's own data."""
        ...


def part(room: str, name: str) -> ModuleType:
    """A room's module, such as its "recipes"."""
    return import_module(f"akorn.{room}.{name}")


def parts(name: str) -> dict[str, ModuleType]:
    """The module of that name of every room that has it."""
    return {room: part(room, name) for room in ROOMS if find_spec(f"akorn.{room}.{name}") is not None}


def commands() -> Registry[tuple[str, str]]:
    """Every command: name → (module, what it does); ValueError if two rooms have a command of the same name."""
    found: Registry[tuple[str, str]] = Registry("command")
    for folder in COMMAND_FOLDERS:
        for name, entry in part(folder, "commands").COMMANDS.items():
            found.register(name, entry)
    return found


def recipes() -> dict[str, Callable[[], Recipe]]:
    """Every room's recipes."""
    return {name: recipe for room in ROOMS for name, recipe in part(room, "recipes").RECIPES.items()}


def models() -> dict[str, tuple[str, str]]:
    """Models that can be built: name → (room, recipe). They are those of the recipes, and the shipped weights."""
    return dict(_models())


def _models() -> Iterator[tuple[str, tuple[str, str]]]:
    for room in ROOMS:
        module = part(room, "recipes")
        for name in module.RECIPES:
            yield name.replace("_", "-"), (room, name)
        for weights, name in module.RECIPES.shipped.items():
            yield weights, (room, name)


def settings_of(room: str, recipe: str) -> dict[str, Any]:
    """The settings of a recipe's model, as JSON values."""
    return as_json(part(room, "recipes").RECIPES[recipe]().model)


def config_of(room: str, settings: Mapping[str, Any]) -> Any:
    """The config that JSON values describe; AkornError names a value that is unknown or impossible."""
    module = part(room, "config")
    config = from_json(settings, module.ARCHITECTURES)
    module.check(config)
    return config


def build(room: str, settings: Mapping[str, Any]) -> HubModel:
    """The model that settings describe, freshly initialised."""
    model: HubModel = part(room, "config").ARCHITECTURES.build(config_of(room, settings))
    return model


def room_of_recipe(name: str) -> str:
    """The room of a recipe."""
    for room in ROOMS:
        if name in part(room, "recipes").RECIPES:
            return room
    raise AkornError(f"{unknown('recipe', name, recipes())} (akorn recipes)")


def room_of_prefix(name: str) -> str | None:
    """The room that also evaluates models whose names have this prefix."""
    for room in ROOMS:
        if name.startswith(getattr(part(room, "commands"), "EVALUATES", ())):
            return room
    return None
