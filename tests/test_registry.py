"""The registry: each name once, where it is defined."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from akorn.errors import AkornError
from akorn.registry import Architectures, Recipes, Registry, load


@dataclass(frozen=True)
class Plan:
    name: str = ""
    epochs: int = 1


def test_a_recipe_is_named_after_its_function() -> None:
    recipes: Recipes[Plan] = Recipes()

    @recipes.add
    def short() -> Plan:
        """A short one."""
        return Plan(epochs=2)

    @recipes.add(weights="long-one")
    def long() -> Plan:
        return Plan(epochs=9)

    assert recipes["short"]() == short() == Plan("short", 2)
    assert recipes["short"].__doc__ == "A short one."
    assert list(recipes) == ["short", "long"]
    assert recipes.shipped == {"long-one": "long"}
    assert long().name == "long"


def test_a_name_is_registered_once() -> None:
    registry: Registry[int] = Registry("number")
    registry.register("one", 1)
    with pytest.raises(ValueError, match="number 'one' is already registered"):
        registry.register("one", 2)
    assert registry["one"] == 1


def test_a_mistyped_name_is_told_what_is_near() -> None:
    registry: Registry[int] = Registry("attack")
    for name in ("pgd", "square", "autoattack"):
        registry.register(name, 0)
    with pytest.raises(AkornError, match=r"unknown attack 'sqare': did you mean square\?"):
        registry.find("sqare")
    with pytest.raises(AkornError, match="the known ones are pgd, square, autoattack"):
        registry.find("xyz")


def test_settings_know_their_model() -> None:
    architectures = Architectures()

    @architectures.add("text", model="builtins:str")
    @dataclass(frozen=True)
    class Settings:
        width: int = 1

    assert Settings.architecture == "text"  # type: ignore[attr-defined]
    assert architectures.find("text") is Settings
    assert architectures.build(Settings()).endswith("Settings(width=1)")
    with pytest.raises(ValueError, match="settings of int, expected one of Settings"):
        architectures.build(3)


def test_an_object_by_its_place() -> None:
    assert load("akorn.registry:Registry") is Registry
