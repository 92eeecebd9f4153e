"""What a command line of `akorn train` means: the recipe with its settings, in either spelling."""

import pytest

from akorn.cli.train import _overrides, configured, parse
from akorn.errors import AkornError
from akorn.rooms import Recipe, recipes


def recipe(*words: str) -> Recipe:
    return configured(parse(["sudoku_akorn", *words]))


@pytest.mark.parametrize(
    ("short", "long", "overrides"),
    [
        ("--seed 3", "--train.seed 3", {"train.seed": 3}),
        ("--seed 0", "--train.seed 0", {}),
        ("--device cpu", "--train.device=cpu", {"train.device": "cpu"}),
        ("--device auto", "--train.device auto", {}),
        ("--data mine.csv", "--data.path mine.csv", {"data.path": "mine.csv"}),
        ("--valid=mine.csv", "--valid.path mine.csv", {"valid.path": "mine.csv"}),
        ("", "", {}),
    ],
)
def test_either_spelling_of_a_setting(short: str, long: str, overrides: dict[str, object]) -> None:
    default = recipes()["sudoku_akorn"]()
    for words in (short, long, f"{short} {long}", f"{long} {short}"):
        assert _overrides(default, recipe(*words.split())) == overrides


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--train.seed 7 --seed 3", "--seed 3 and --train.seed 7 are the same setting: leave one of them out"),
        ("--seed 0 --train.seed 7", "--seed 0 and --train.seed 7"),
        ("--seed 3 --train.seed=0", "--seed 3 and --train.seed 0"),
        ("--device auto --train.device cpu", "--device auto and --train.device cpu"),
        ("--data one.csv --data.path two.csv", "--data one.csv and --data.path two.csv"),
        ("--valid one.csv --valid.path two.csv", "--valid one.csv and --valid.path two.csv"),
    ],
)
def test_two_values_of_one_setting_are_refused(words: str, said: str) -> None:
    with pytest.raises(AkornError, match=said):
        recipe(*words.split())
