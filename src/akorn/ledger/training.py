"""How a model was trained, in a file beside its weights; evaluations copy it into their records. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from akorn.errors import AkornError
from akorn.runtime.files import make_folder, replacing
from akorn.runtime.json_files import read_object

FILE = "training.json"


def write_training(
    folder: Path,
    *,
    recipe: str,
    seed: int,
    precision: str,
    weights: str,
    steps: int,
    overrides: Mapping[str, Any] | None = None,
    ema: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> Path:
    """Write `training.json` into a model's folder, which is created if it is missing.

    overrides: how the recipe was changed, by dotted names. ema: the settings of the moving average, where there is one.
    data: all that was set about the data, since what a recipe says may change.
    """
    origin = {
        "recipe": recipe,
        "seed": seed,
        "precision": precision,
        "weights": weights,
        "overrides": dict(overrides or {}),
        "steps": steps,
        **({"ema": dict(ema)} if ema else {}),
        **({"data": dict(data)} if data else {}),
    }
    make_folder(folder)
    path = folder / FILE
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(origin, indent=1, default=str) + "\n", encoding="utf-8")
    return path


def read_training(folder: Path) -> dict[str, Any] | None:
    """What `write_training` wrote into a model's folder; None if there is no such file, AkornError if it is damaged."""
    file = folder / FILE
    if not file.is_file():
        return None
    origin = read_object(file)
    if "recipe" not in origin:
        return None
    known: dict[str, Any] = {"seed": None, "overrides": {}, **origin}
    for key, kind, expected in (("recipe", str, "a name"), ("seed", int, "a whole number"), ("overrides", dict, "{…}")):
        if not isinstance(known[key], kind):
            raise AkornError(f"{file}: damaged, {key} is {known[key]!r}, expected {expected}")
    return origin
