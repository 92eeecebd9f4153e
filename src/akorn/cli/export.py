"""`akorn export RUN`: the model of a run's newest checkpoint, as a folder that the other commands accept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, print_json, say
from akorn.errors import AkornError
from akorn.ledger import write_training
from akorn.rooms import build, recipes, room_of_recipe
from akorn.runtime.nested import flatten


@dataclass(frozen=True)
class Options(CommonOptions):
    """Export the model from a run's newest checkpoint, for an unfinished run or with other weights."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """The run's folder, or one of its checkpoints."""
    weights: Literal["average", "last"] | None = None
    """The moving average of the weights, or the last weights. By default the recipe decides; if there is no average
    yet, the last weights are exported."""
    out: Path | None = None
    """The model's folder; by default RUN/model-WEIGHTS, or beside the checkpoint."""


def run(options: Options) -> int:
    """Export the model; the run itself is not changed."""
    if options.run is None:
        raise AkornError("akorn export needs the folder of a run of `akorn train`")
    from akorn.engine import checkpoint
    from akorn.hub import load_weights

    found = checkpoint.load_newest(options.run)
    checkpoint.check_run(found)
    name, room = found.facts["recipe"], room_of_recipe(found.facts["recipe"])
    default = recipes()[name]()
    which = options.weights or default.train.weights
    if which == "average" and not found.facts.get("ema_started"):
        if options.weights is not None:
            raise AkornError(f"{found.path}: contains no average of the weights; use --weights last")
        say(f"{found.path}: contains no average of the weights yet, so the last weights are exported")
        which = "last"
    model = build(room, _part(found.facts["settings"], "model."))
    load_weights(model, checkpoint.weights_of(found, which), found.path)
    home = options.run if found.path != options.run else options.run.parent  # nothing is written into a checkpoint
    folder = options.out if options.out is not None else home / f"model-{which}"
    model.eval().save_pretrained(folder)
    config = found.facts["config"]
    write_training(
        folder, recipe=name, seed=config["seed"], precision=config["precision"], weights=which, steps=found.step,
        overrides=_overrides(default, found.facts, which), ema=config["ema"] if config["ema"]["decay"] else None,
        data=_part(found.facts["settings"], "data."),
    )  # fmt: skip
    say(f"{name}: the {which} weights after {found.step} steps are in {folder}")
    if options.json:
        print_json({"recipe": name, "model": str(folder), "steps": found.step, "weights": which})
    return 0


def _part(settings: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Those of the settings whose names begin so, without that beginning."""
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def _overrides(default: Any, facts: dict[str, Any], which: str) -> dict[str, Any]:
    """What a checkpoint's run had set differently from its recipe."""
    before = flatten(asdict(default))
    after = {**facts["settings"], **flatten({"train": {**facts["config"], "weights": which}})}
    return {name: value for name, value in after.items() if name in before and before[name] != value}
