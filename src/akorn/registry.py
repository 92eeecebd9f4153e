"""Registries by name: recipes, settings of models, data sets, attacks. Each entry is registered once, where it is
defined. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

from akorn.errors import AkornError

MOST_LISTED = 24
"""Up to so many names are listed in an error message."""

Value = TypeVar("Value")
Config = TypeVar("Config")
Recipe = TypeVar("Recipe")


class Registry(Mapping[str, Value], Generic[Value]):
    """A mapping that refuses duplicate names and suggests similar ones for an unknown name.

    Args:
        what: what the names stand for, for error messages: "recipe", "data set".

    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, Value] = {}

    def register(self, name: str, value: Value) -> None:
        """Register a name; ValueError if it is taken."""
        if name in self._entries:
            raise ValueError(f"the {self.what} {name!r} is already registered")
        self._entries[name] = value

    def find(self, name: str) -> Value:
        """The entry of a name; AkornError with similar names, or all of them, if it is unknown."""
        if name not in self._entries:
            raise AkornError(unknown(self.what, name, self._entries))
        return self._entries[name]

    def __getitem__(self, name: str) -> Value:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Recipes(Registry[Callable[[], Recipe]]):
    """A room's recipes: functions that return one, named after the function.

    @RECIPES.add
    def sudoku_akorn() -> SudokuRecipe: …

    @RECIPES.add(weights="sudoku-paper")      # this recipe made the shipped weights of this name
    """

    def __init__(self) -> None:
        super().__init__("recipe")
        self.shipped: dict[str, str] = {}
        """Shipped weights → the recipe that made them."""

    @overload
    def add(self, function: Callable[[], Recipe]) -> Callable[[], Recipe]: ...

    @overload
    def add(self, *, weights: str | None = None) -> Callable[[Callable[[], Recipe]], Callable[[], Recipe]]: ...

    def add(self, function: Callable[[], Recipe] | None = None, *, weights: str | None = None) -> Any:
        """Register a function under its own name, which also becomes the name of its recipe."""

        def enter(function: Callable[[], Recipe]) -> Callable[[], Recipe]:
            name = function.__name__

            def recipe() -> Recipe:
                made: Any = function()
                return replace(made, name=name)

            recipe.__name__, recipe.__doc__, recipe.__module__ = name, function.__doc__, function.__module__
            self.register(name, recipe)
            if weights is not None:
                self.shipped[weights] = name
            return recipe

        return enter if function is None else enter(function)


class Architectures(Registry[type]):
    """A room's architectures: a frozen dataclass of settings for each, and the import path of its module.

    @ARCHITECTURES.add("akorn", model="akorn.sudoku.model:SudokuModel")
    @dataclass(frozen=True)
    class SudokuConfig: …

    The model is given as a string, so that settings can be read without torch.
    """

    def __init__(self) -> None:
        super().__init__("architecture")
        self._models: dict[type, str] = {}

    def add(self, name: str, *, model: str) -> Callable[[type[Config]], type[Config]]:
        """Register a class of settings; its name becomes the class attribute `architecture`."""

        def enter(config: type[Config]) -> type[Config]:
            config.architecture = name  # type: ignore[attr-defined]
            self.register(name, config)
            self._models[config] = model
            return config

        return enter

    def build(self, config: Any) -> Any:
        """The model that settings describe, freshly initialised."""
        if type(config) not in self._models:
            expected = ", ".join(kind.__name__ for kind in self._models)
            raise ValueError(f"settings of {type(config).__name__}, expected one of {expected}")
        return load(self._models[type(config)])(config)


def load(place: str) -> Any:
    """The object at `package.module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name, with similar known names, or all of them."""
    return f"unknown {what} {name!r}: {suggest(name, known)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """The known names that are similar to an unknown one, or all of them if they fit in a line."""
    known = list(known)
    near = similar(name, known)
    return f"did you mean {' or '.join(near)}?" if near else f"the known ones are {listed(known)}"


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that are similar to an unknown one, the most similar first."""
    return get_close_matches(name, dict.fromkeys(known), n=3)


def summary(entry: object) -> str:
    """The first paragraph of an entry's docstring, in one line."""
    return " ".join((entry.__doc__ or "").strip().partition("\n\n")[0].split())


def listed(names: Sequence[str]) -> str:
    """Names in one line; of very many only the first ones, and how many there are besides."""
    if len(names) > MOST_LISTED:
        return f"{', '.join(names[: MOST_LISTED // 2])} and {len(names) - MOST_LISTED // 2} more"
    return ", ".join(names) or "none"
