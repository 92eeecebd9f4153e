"""Trials: models that were not trained as their recipe says, whose records fill no row of a table. Torch-free.

`results/trials.toml` keeps trials that once had their own recipe, which the package no longer has:

    [cifar10_resnet18_fast]
    recipe = "cifar10_resnet18"
    overrides = ["--train.epochs 200", "--train.optimiser.learning-rate 1e-3"]
    why = "…"

Its settings are those of the recipe with the overrides, as `akorn train` reads them.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from akorn.cli.train import parse
from akorn.engine.config import flatten
from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.rooms import recipes

TRIALS = Path(__file__).parents[1] / "trials.toml"

_MISSING = object()
HARMLESS = {
    *("train.seed", "train.device", "train.compile", "train.graph", "train.deterministic", "train.tensorboard"),
    *("train.checkpoint_every", "train.checkpoint_minutes", "train.keep", "train.shard_mb"),
    *("train.log_every", "train.eval_every", "train.epochs", "model.recompute"),
}
"""Settings that make no trial; all but the epochs change no figure."""


def is_trial(record: Record, *harmless: str) -> bool:
    """Say whether an evaluated model was not trained as its recipe says today, `harmless` settings aside.

    Fewer epochs do not make a trial: the record of the training says how many there were. If neither the package nor
    `trials.toml` has a recipe of that name, every changed setting makes one.
    """
    training = record.get("extra", {}).get("training") or {}
    if not training:
        return False
    recipe = settings(str(training.get("recipe", record["name"])))
    said = {"train.weights": training.get("weights", "average")}  # at first there were no others
    if "precision" in training:
        said["train.precision"] = training["precision"]
    said |= training.get("overrides", {})
    allowed = HARMLESS.union(harmless)
    return any(
        name not in allowed and not name.startswith("valid.") and recipe.get(name, _MISSING) != value
        for name, value in said.items()
    )


def epochs(record: Record, pictures: int) -> float | None:
    """For how many epochs of this many pictures an evaluated model was trained; None if the record does not say."""
    training = record.get("extra", {}).get("training") or {}
    recipe = settings(record["name"])
    if not training or not recipe:
        return None
    if "steps" in training:  # fewer than its settings say if a run was not finished
        return float(training["steps"] / (pictures // recipe["train.batch_size"]))
    return float(training.get("overrides", {}).get("train.epochs", recipe["train.epochs"]))


@lru_cache
def settings(name: str) -> dict[str, Any]:
    """A recipe's settings by dotted names, as JSON has them; none for a recipe that no longer exists."""
    if name in recipes():
        return _flat(recipes()[name]())
    words = command(name)
    return _flat(parse(words).settings) if words else {}


def command(name: str) -> list[str]:
    """The arguments for `akorn train` that mean a recipe, also one that is no more; [] for one that is nowhere."""
    return _command(name, trials())


@lru_cache
def trials() -> dict[str, dict[str, Any]]:
    """What `trials.toml` holds, by name; nothing if there is no such file."""
    if not TRIALS.is_file():
        return {}
    try:
        found = tomllib.loads(TRIALS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise AkornError(f"{TRIALS.name}: {error}") from error
    for name, entry in found.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("recipe"), str):
            raise AkornError(f"{TRIALS.name}: [{name}] names no recipe")
    return found


def _flat(recipe: Any) -> dict[str, Any]:
    return flatten(json.loads(json.dumps(asdict(recipe), default=str)))


def _command(name: str, known: dict[str, dict[str, Any]]) -> list[str]:
    """The arguments for `akorn train`: a recipe, the overrides that this one builds on, and its own; [] if unknown."""
    if name in recipes():
        return [name]
    if name not in known:
        return []
    entry = known[name]
    base = _command(entry["recipe"], {other: told for other, told in known.items() if other != name})
    if not base:
        raise AkornError(f"{TRIALS.name}: [{name}] is made from {entry['recipe']!r}, which is not a recipe")
    return base + [word for override in entry.get("overrides", []) for word in _words(str(override))]


def _words(override: str) -> list[str]:
    """An override as the command line has it: "train.epochs=200" is "--train.epochs 200"."""
    words = shlex.split(override)
    if words and "=" in words[0] and not words[0].startswith("-"):
        words[0] = f"--{words[0]}"
    return words
