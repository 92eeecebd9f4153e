"""Names → what they stand for: recipes, models' settings, data sets, attacks. Each is registered once, where it is
defined. Torch-free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

from akorn.errors import AkornError

Value = TypeVar("Value")
Config = TypeVar("Config")
Recipe = TypeVar("Recipe")


class Registry(Mapping[str, Value], Generic[Value]):
    """A mapping that refuses a second entry of a name, and names what is near to one that it does not know.

    Args:
        what: what the names stand for, as errors call it: "recipe", "data set".

    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, Value] = {}

    def register(self, name: str, value: Value) -> None:
        """Enter a name; ValueError where it is taken."""
        if name in self._entries:
            raise ValueError(f"the {self.what} {name!r} is registered already")
        self._entries[name] = value

    def find(self, name: str) -> Value:
        """What a name stands for; AkornError with the names that are meant perhaps, or else all of them."""
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

    @RECIPES.add(weights="sudoku-paper")      # the weights of this name ship, and this recipe made them
    """

    def __init__(self) -> None:
        super().__init__("recipe")
        self.shipped: dict[str, str] = {}
        """Weights in the package → the recipe that made them."""

    @overload
    def add(self, function: Callable[[], Recipe]) -> Callable[[], Recipe]: ...

    @overload
    def add(self, *, weights: str | None = None) -> Callable[[Callable[[], Recipe]], Callable[[], Recipe]]: ...

    def add(self, function: Callable[[], Recipe] | None = None, *, weights: str | None = None) -> Any:
        """Register a function under its own name, which the recipe it returns gets too."""

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
    """A room's kinds of models: a frozen dataclass of settings each, and where the module that it describes lives.

    @ARCHITECTURES.add("akorn", model="akorn.sudoku.model:SudokuModel")
    @dataclass(frozen=True)
    class SudokuConfig: …

    The model is given as words, so that settings can be read without torch.
    """

    def __init__(self) -> None:
        super().__init__("architecture")
        self._models: dict[type, str] = {}

    def add(self, name: str, *, model: str) -> Callable[[type[Config]], type[Config]]:
        """Register a class of settings; it gets its name as the class attribute `architecture`."""

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
    """One line for a name that is not known: those that are near to it, or all."""
    return f"unknown {what} {name!r}: {suggest(name, known)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """The known names that are near to one that is not known, or else all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"the known ones are {', '.join(known) or 'none'}"
