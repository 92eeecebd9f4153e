"""Options that do not exist: each is named, with those that may have been meant."""

import re
from importlib import import_module
from typing import Any

import pytest

from akorn.cli import COMMANDS, parse
from akorn.cli.option_names import option_names
from akorn.cli.train import _settings_type
from akorn.rooms import parts, recipes

from .conftest import Akorn, assert_refused

MODULES = [module for name, (module, _) in COMMANDS.items() if name not in ("eval", "data")]
MODULES += [module.__name__ for job in ("evaluate", "make", "pack") for module in parts(f"commands.{job}").values()]


def shown(kind: Any, default: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The options that tyro's help lists."""
    monkeypatch.setenv("COLUMNS", "110")
    with pytest.raises(SystemExit):
        parse(kind, ["--help"], "test", default)
    lines = capsys.readouterr().out.splitlines()
    heads = [line[2:].partition("  ")[0] for line in lines if re.match(r"[│ ] -[-\w]", line)]
    return {word for head in heads for word in re.findall(r"(?:^|, )--?(\w[\w.-]*)", head)} - {"h", "help"}


@pytest.mark.parametrize("module", MODULES)
def test_the_options_are_those_of_the_help(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = import_module(module).Options
    assert set(option_names(kind)) == shown(kind, None, monkeypatch, capsys)


@pytest.mark.parametrize(
    "name", {(type(made), type(made.model)): name for name, made in ((n, r()) for n, r in recipes().items())}.values()
)
def test_the_settings_are_those_of_the_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipes()[name]()
    assert set(option_names(recipe)) == shown(_settings_type(recipe), recipe, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "segment --cluster 3 ../photo.jpg",
            "unknown option --cluster: did you mean --clusters? (akorn segment --help)",
        ),
        ("bench --nothing=3", "unknown option --nothing (akorn bench --help)"),
        ("solve -x", "unknown option -x (akorn solve --help)"),
        ("solve --jsn", "unknown option --jsn: did you mean --json? (akorn solve --help)"),
        ("solve --no-symetries", "unknown option --no-symetries: did you mean --no-symmetries? (akorn solve --help)"),
        ("solve --vots 3 - --watc", "--vots (did you mean --votes or --vote?), --watc (did you mean --watch?) (akorn"),
        ("train sudoku_akorn --epochs 3", "unknown option --epochs: did you mean --train.epochs? (akorn train sudoku_"),
        ("train sudoku_akorn --batch_sizes 3", "--batch_sizes: did you mean --train.batch-size? (akorn train"),
        ("train sudoku_akorn --lr 3 --foo 4", "--lr (did you mean --train.optimiser.learning-rate?), --foo (akorn"),
        ("train sudoku_akorn --resum", "--resum: did you mean --resume or --results? (akorn"),
        ("train cifar10_akorn_conv --steps 3", "--steps: did you mean --train.steps or --model.steps? (akorn"),
        ("train sudoku_akorn --modl.channels 3", "--modl.channels: did you mean --model.channels? (akorn"),
    ],
)
def test_unknown_options_get_suggestions(akorn_here: Akorn, words: str, message: str) -> None:
    assert_refused(akorn_here(*words.split()), message)
