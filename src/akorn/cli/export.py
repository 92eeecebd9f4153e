"""`akorn export`: a model as a file that needs no Python, or the model of a run's newest checkpoint as a folder."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, print_json, say
from akorn.errors import AkornError
from akorn.ledger import write_training
from akorn.models import room_of_model
from akorn.rooms import build, recipes, room_of_recipe
from akorn.runtime.nested import flatten
from akorn.settings import StoredType

if TYPE_CHECKING:
    from akorn.engine.checkpoint import Checkpoint
    from akorn.hub import HubModel


@dataclass(frozen=True)
class Options(CommonOptions):
    """Export a model as one file that needs no Python, or the model of an unfinished run as a folder."""

    run: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME|RUN", help_behavior_hint="(required)")
    ] = None
    """A run's folder, or one of its checkpoints; for a file also shipped weights by name, or a model's folder."""
    format: Literal["folder", "onnx", "pt2"] = "folder"
    """A model's folder, which the other commands take; one ONNX file, for onnxruntime, in browsers too; or a program of
    torch.export. Files take noise as an input; docs/export.md names their inputs and outputs."""
    weights: Literal["average", "last"] | None = None
    """For a run: the moving average of the weights, or the last weights. By default the recipe decides; if there is no
    average yet, the last weights are exported."""
    dtype: StoredType | None = None
    """For a folder: how the weights are stored, by default float16. int8 takes half the bytes: large matrices and
    kernels are rounded to 8 bits, with a scale per row."""
    out: Path | None = None
    """The model's folder, by default RUN/model-WEIGHTS or beside the checkpoint. Or the file, by default NAME.FORMAT in
    this folder."""
    steps: int | None = None
    """Kuramoto steps in one call of a file: by default 16 of a Sudoku model, whose calls are chained, and as many
    in each block as in training of an object model. A classifier's cannot be chosen."""
    overwrite: bool = False
    """Replace an existing file."""


def run(options: Options) -> int:
    """Export; the run is not changed."""
    if options.format != "folder":
        return _write_file(options)
    if options.run is None:
        raise AkornError(
            "akorn export needs the folder of a run of `akorn train`, or a model's name with --format onnx or pt2"
        )
    for name in ("steps", "overwrite"):
        if getattr(options, name):
            raise AkornError(f"--{name} is for --format onnx and pt2")
    if not _is_run(options.run) and room_of_model(options.run) is not None:
        raise AkornError(f"{options.run} is a model, not a run: --format onnx or pt2 makes a file from it")
    found, model, which = _of_run(options.run, options.weights)
    name = found.facts["recipe"]
    home = options.run if found.path != options.run else options.run.parent  # nothing is put into a checkpoint
    folder = options.out if options.out is not None else home / f"model-{which}"
    model.save_pretrained(folder, dtype=options.dtype or "float16")
    config, overrides = found.facts["config"], _overrides(recipes()[name](), found.facts, which)
    write_training(
        folder, recipe=name, seed=config["seed"], precision=config["precision"], weights=which, steps=found.step,
        overrides=overrides, ema=config["ema"] if config["ema"]["decay"] else None,
        data=_part(found.facts["settings"], "data."),
    )  # fmt: skip
    say(f"{name}: the {which} weights after {found.step} steps are in {folder}")
    if options.json:
        print_json({"recipe": name, "model": str(folder), "steps": found.step, "weights": which})
    return 0


def _write_file(options: Options) -> int:
    """A model as one file, by its room's description."""
    if options.run is None:
        raise AkornError("akorn export needs the name of shipped weights, a model's folder or a run's")
    if options.dtype is not None:
        raise AkornError("--dtype is for folders: a file stores weights in as many bits as they need")
    name = options.run.resolve().name if options.run.exists() else str(options.run).rpartition("/")[2]
    path = options.out if options.out is not None else Path(f"{name}.{options.format}")
    if options.steps is not None and options.steps < 1:
        raise AkornError(f"--steps must be at least 1, got {options.steps}")
    if path.suffix.lower() != f".{options.format}":
        raise AkornError(f"{path}: the file's name must end in .{options.format}")
    model: HubModel | Path = options.run
    if _is_run(options.run):
        model = _of_run(options.run, options.weights)[1]
    elif options.weights is not None:
        raise AkornError(f"--weights is for the checkpoints of a run, but {options.run} is a model")
    from akorn.export import export_model

    program = export_model(model, path, options.steps, overwrite=options.overwrite)
    size = path.stat().st_size
    say(f"{name}: {program.steps} steps per call, {size / 1e6:.1f} MB, written to {path}")
    if options.json:
        told = {"model": name, "file": str(path), "format": options.format, "steps": program.steps, "bytes": size}
        print_json(told)
    return 0


def _is_run(path: Path) -> bool:
    """Whether these are a run's checkpoints, or one of them."""
    from akorn.engine import checkpoint

    return os.path.isdir(path / checkpoint.FOLDER) or os.path.isfile(path / checkpoint.MANIFEST)


def _of_run(run: Path, weights: Literal["average", "last"] | None) -> tuple[Checkpoint, HubModel, str]:
    """A run's newest checkpoint, the model with the wanted weights, and which weights these are."""
    from akorn.engine import checkpoint
    from akorn.hub import load_weights

    found = checkpoint.load_newest(run)
    checkpoint.check_run(found)
    name = found.facts["recipe"]
    which = weights or recipes()[name]().train.weights
    if which == "average" and not found.facts.get("ema_started"):
        if weights is not None:
            raise AkornError(f"{found.path}: contains no average of the weights; use --weights last")
        say(f"{found.path}: contains no average of the weights yet, so the last weights are exported")
        which = "last"
    model = build(room_of_recipe(name), _part(found.facts["settings"], "model."))
    load_weights(model, model.finished(checkpoint.weights_of(found, which)), found.path)
    return found, model.eval(), which


def _part(settings: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The settings whose names begin with the prefix, without the prefix."""
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def _overrides(default: Any, facts: dict[str, Any], which: str) -> dict[str, Any]:
    """What a checkpoint's run had set differently from its recipe."""
    before = flatten(asdict(default))
    after = {**facts["settings"], **flatten({"train": {**facts["config"], "weights": which}})}
    return {name: value for name, value in after.items() if name in before and before[name] != value}
