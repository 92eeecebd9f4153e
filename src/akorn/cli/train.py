"""`akorn train RECIPE`: any recipe, with any of its settings overridden."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from akorn.cli import parse as parse_options
from akorn.cli.common import LEDGER, CommonOptions, check_ledger, print_json, say
from akorn.cli.option_names import option_names
from akorn.errors import AkornError
from akorn.registry import listed
from akorn.rooms import Recipe, part, recipes, room_of_recipe
from akorn.runtime.nested import flatten

_LONG = {"seed": ("train", "seed"), "device": ("train", "device"), "data": ("data", "path"), "valid": ("valid", "path")}
"""The settings that some of the command's own options stand for: the part of the recipe, and its field."""


@dataclass(frozen=True)
class Options(CommonOptions):
    """Train a model with a recipe (`akorn recipes` lists them; `akorn train RECIPE --help` shows its settings)."""

    recipe: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE", help_behavior_hint="(required)")] = ""
    """The recipe's name."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 0)")] = None  # type: ignore[assignment]
    """The same seed gives the same numbers on the same machine."""
    device: Annotated[str | None, tyro.conf.arg(metavar="STR", help_behavior_hint="(default: auto)")] = None  # type: ignore[assignment]
    """cpu, cuda, mps, or auto for the best device available."""
    out: Path | None = None
    """The run's folder: checkpoints, curves and the finished model. By default runs/RECIPE-seedS."""
    resume: bool = False
    """Continue from the newest checkpoint in the run's folder."""
    data: Path | None = None
    """The training data. By default it is generated, where that is possible; recipes on photographs, ImageNet,
    Tiny-ImageNet and CIFAR-10 need it."""
    valid: Path | None = None
    """The validation data, scored during training."""
    results: Path | None = LEDGER
    """The folder for the record of the finished run; None for no record."""
    settings: tyro.conf.Suppress[Any] = None
    words: tyro.conf.Suppress[tuple[str, ...]] = ()


def parse(words: Sequence[str]) -> Options:
    """Parse the command's own options; all others are settings of the recipe."""
    name = words[0] if words and not words[0].startswith("-") else ""
    if not name:
        parse_options(Options, words, "train")  # shows the help, or falls through
        raise AkornError(f"akorn train needs a recipe: {listed(list(recipes()))} (akorn recipes)")
    room_of_recipe(name)  # refuses unknown names
    recipe = recipes()[name]()
    if {"-h", "--help"} & set(words[1:]):
        with contextlib.suppress(SystemExit):  # the command's own options, then, below, the recipe's settings
            parse_options(Options, ["--help"], "train")
    known = {f"--{field.name}" for field in dataclasses.fields(Options)} | {"--no-json", "--no-resume"}
    own, rest = _divide(list(words[1:]), known)
    also = tuple(option_names(Options))
    settings = parse_options(_settings_type(recipe), rest, f"train {name}", default=recipe, also=also)
    options = parse_options(Options, [name, *own], "train")
    _check_spellings(options, settings, {word.split("=")[0] for word in rest})
    return dataclasses.replace(options, settings=settings, words=tuple(words))


def _settings_type(recipe: Recipe) -> Any:
    """The recipe's type, read without subcommands: the model's kind is the recipe's."""
    return tyro.conf.AvoidSubcommands[type(recipe)]  # type: ignore[misc]


def _divide(words: list[str], known: set[str]) -> tuple[list[str], list[str]]:
    """Split the words into the command's options and the recipe's settings, each with its values."""
    own: list[str] = []
    rest: list[str] = []
    target = rest
    for word in words:
        if word.startswith("--"):
            target = own if word.split("=")[0] in known else rest
        target.append(word)
    return own, rest


def _check_spellings(options: Options, settings: Recipe, given: set[str]) -> None:
    """AkornError if an option and the setting that it stands for are both given, with different values."""
    for short, (section, field) in _LONG.items():
        long, value = f"--{section}.{field}", getattr(options, short)
        if value is None or long not in given:
            continue
        other = getattr(getattr(settings, section), field)
        if value != other:
            raise AkornError(f"--{short} {value} and {long} {other} are the same setting: leave one of them out")


def run(options: Options) -> int:
    """Train, and write the finished model into the run's folder."""
    default = recipes()[options.recipe]()
    recipe = configured(options)
    ledger = check_ledger(options.results)
    from akorn.engine import Interrupted, train
    from akorn.runtime.processes import is_main

    task = part(room_of_recipe(recipe.name), "task").make_task(recipe)
    out = options.out if options.out is not None else Path("runs") / f"{recipe.name}-seed{recipe.train.seed}"
    overrides = _overrides(default, recipe)
    try:
        result = train(task, recipe.train, out, options.resume, results=ledger, overrides=overrides)
    except Interrupted as stopped:
        if is_main():
            command = _resuming(options.words)
            say(f"{recipe.name}: stopped after step {stopped.step}, nothing is lost; continue with: {command}")
        return stopped.status
    if not is_main():
        return 0
    say(f"{recipe.name}: {result.steps} steps in {result.seconds:.0f} s; the model is in {result.folder}")
    if options.json:
        print_json({"recipe": recipe.name, "model": str(result.folder), "loss": result.loss, **result.metrics})
    return 0


def _resuming(words: Sequence[str]) -> str:
    """The command line that continues a run started with these words."""
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    program = ["python", "-m", "akorn"] if Path(sys.argv[0]).name == "__main__.py" else ["akorn"]
    kept = [word for word in words if word not in ("--resume", "--no-resume")]
    command = shlex.join([*program, "train", *kept, "--resume"])
    return f"{command} (under the same launcher)" if launched else command


def configured(options: Options) -> Recipe:
    """The recipe that a command line means: its settings, seed, device and data."""
    recipe: Recipe = options.settings
    for short, (section, field) in _LONG.items():
        value = getattr(options, short)
        if value is not None:
            changed = dataclasses.replace(getattr(recipe, section), **{field: value})
            recipe = dataclasses.replace(recipe, **{section: changed})  # type: ignore[type-var]
    return recipe


def _overrides(default: Any, recipe: Any) -> dict[str, Any]:
    """What differs between two recipes, which are dataclasses."""
    before, after = flatten(asdict(default)), flatten(asdict(recipe))
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return {name: _portable(value) for name, value in changed.items()}


def _portable(value: Any) -> Any:
    """A path reduced to its name: records should not say where it lies on this machine."""
    if isinstance(value, str) and Path(value).exists():
        value = Path(value)
    return value.name if isinstance(value, Path) else value
