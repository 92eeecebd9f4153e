"""`akorn curves RUN …`: the loss of several runs, or another of their curves, in one plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from akorn.cli.common import CommonOptions, print_json, say
from akorn.errors import AkornError


@dataclass(frozen=True)
class Options(CommonOptions):
    """Draw the loss, or another curve, of several runs in one plot, from what `akorn train` has logged."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …", help_behavior_hint="(required)")
    ] = ()
    """The runs' folders, their files scalars.jsonl, or the records of their trainings (train-….json), which keep 200
    points of the loss and the scores."""
    labels: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="(default: the names)")] = ()
    """A label for each run. Runs with the same label have the same colour, such as
    the seeds of a model."""
    metric: str = "loss"
    """Which curve, such as loss or eval/board_accuracy."""
    epoch_steps: int | None = None
    """Steps per epoch: the plot then shows epochs instead of steps."""
    log: bool = False
    """A logarithmic axis."""
    out: Path = Path("curves.png")
    """The plot: .png, .svg or .pdf."""


def run(options: Options) -> int:
    """Draw, and say where the plot is."""
    if not options.runs:
        raise AkornError("akorn curves needs one or more runs' folders or records, as `akorn train` makes them")
    if options.labels and len(options.labels) != len(options.runs):
        raise AkornError(f"{len(options.runs)} runs need as many --labels, got {len(options.labels)}")
    if options.epoch_steps is not None and options.epoch_steps < 1:
        raise AkornError(f"--epoch-steps must be at least 1, got {options.epoch_steps}")
    from akorn.engine.curves import plot_curves

    labelled: dict[str, list[Path]] = {}
    for label, path in zip(options.labels, options.runs, strict=False):
        labelled.setdefault(label, []).append(path)
    out = plot_curves(
        labelled or options.runs, options.out, metric=options.metric, log=options.log, epoch_steps=options.epoch_steps
    )
    say(f"wrote {out}")
    if options.json:
        print_json({"plot": str(out), "runs": [str(path) for path in options.runs], "metric": options.metric})
    return 0
