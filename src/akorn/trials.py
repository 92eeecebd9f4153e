"""Trials: models that were trained in another way than their recipe says, whose records fill no row of a table.

Torch-free.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from akorn.engine.config import flatten
from akorn.ledger.records import Record
from akorn.rooms import recipes

_MISSING = object()
_HARMLESS = {
    *("train.seed", "train.device", "train.compile", "train.graph", "train.deterministic", "train.tensorboard"),
    *("train.checkpoint_every", "train.keep", "train.shard_mb", "train.log_every", "train.eval_every"),
    *("train.epochs", "model.recompute"),
}


def is_trial(record: Record, *harmless: str) -> bool:
    """Say whether an evaluated model was trained in another way than its recipe says today, `harmless` settings aside.

    Fewer epochs make no trial: the record of the training says how many there were. Without a recipe of its name, every
    setting that was changed makes one.
    """
    training = record.get("extra", {}).get("training") or {}
    if not training:
        return False
    recipe = _settings(str(training.get("recipe", record["name"])))
    said = {"train.weights": training.get("weights", "average")}  # at first there were no others
    if "precision" in training:
        said["train.precision"] = training["precision"]
    said |= training.get("overrides", {})
    allowed = _HARMLESS.union(harmless)
    return any(
        name not in allowed and not name.startswith("valid.") and recipe.get(name, _MISSING) != value
        for name, value in said.items()
    )


@lru_cache
def _settings(name: str) -> dict[str, Any]:
    """A recipe's settings by dotted names, as JSON has them; none for a recipe that is no more."""
    known = recipes()
    if name not in known:
        return {}
    recipe: Any = known[name]()
    return flatten(json.loads(json.dumps(asdict(recipe), default=str)))
