"""How a model was trained, in a file beside its weights: what a record of its evaluation tells. Torch-free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from akorn.runtime.files import make_folder, replacing

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
) -> Path:
    """Write `training.json` into a model's folder, which is made where it is missing; `akorn.models.training_of`
    reads it.

    overrides: how the recipe was changed, by dotted names.
    """
    origin = {
        "recipe": recipe,
        "seed": seed,
        "precision": precision,
        "weights": weights,
        "overrides": dict(overrides or {}),
        "steps": steps,
    }
    make_folder(folder)
    path = folder / FILE
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(origin, indent=1, default=str) + "\n", encoding="utf-8")
    return path
