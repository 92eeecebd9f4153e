"""How a room's parts are found: recipes, models, commands."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import akorn
from akorn import rooms
from akorn.errors import AkornError
from akorn.models import room_of_model

CLI = Path(akorn.__file__).parent / "cli"


def test_commands_are_declared_where_they_live() -> None:
    """And `akorn --help` keeps its order."""
    told = "solve segment classify simulate web train export eval recipes models data results bench".split()  # noqa: SIM905
    assert [name for name in rooms.commands() if name in told] == told
    for folder in rooms.COMMAND_FOLDERS:
        for module, what in import_module(f"akorn.{folder}.commands").COMMANDS.values():
            assert module.startswith(f"akorn.{folder}.")
            assert what


def test_no_two_rooms_have_a_command_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.bench.commands.COMMANDS", {"solve": ("akorn.bench.commands.bench", "another")})
    with pytest.raises(ValueError, match="the command 'solve' is already registered"):
        rooms.commands()


def test_the_command_line_names_no_room() -> None:
    """It finds them: a new one changes nothing there."""
    for file in CLI.glob("*.py"):
        code = re.sub(r'""".*?"""|#.*', "", file.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r"\b(sudoku|objects|robustness|simulate|solve|segment|classify)\b", code), file.name


@pytest.mark.parametrize("room", rooms.ROOMS)
def test_a_recipe_is_at_home_in_its_room(room: str) -> None:
    for name, recipe in rooms.part(room, "recipes").RECIPES.items():
        assert rooms.room_of_recipe(name) == room
        assert rooms.models()[name.replace("_", "-")] == (room, name)
        assert room_of_model(name) == room
        assert recipe().name == name


def test_a_mistyped_recipe_is_told_what_is_near() -> None:
    with pytest.raises(AkornError, match=r"unknown recipe 'sudoku_akron': did you mean sudoku_akorn"):
        rooms.room_of_recipe("sudoku_akron")


def test_settings_build_the_model_that_they_describe() -> None:
    settings = rooms.settings_of("sudoku", "sudoku_akorn")
    model = rooms.build("sudoku", {**settings, "channels": 16, "heads": 2})
    assert model.settings() == {**settings, "channels": 16, "heads": 2}
    with pytest.raises(AkornError, match="unknown setting 'colour'"):
        rooms.build("sudoku", {**settings, "colour": 1})
    with pytest.raises(AkornError, match="16 channels cannot be split into 3 heads"):
        rooms.build("sudoku", {**settings, "channels": 16, "heads": 3})
    with pytest.raises(AkornError, match="architecture is 'vgg', expected one of akorn"):
        rooms.build("sudoku", {"architecture": "vgg"})


def test_rooms_need_not_have_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "ROOMS", ("sudoku", "simulate"))  # the second makes no data sets
    assert list(rooms.parts("commands.make")) == ["sudoku"]
