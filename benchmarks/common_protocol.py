"""All CIFAR-10 architectures by one protocol, results/common_protocol.toml: short trials, then a final run of each.

    python benchmarks/common_protocol.py trials --data cifar-10-batches-py [--rows akorn-conv vit] [--dry-run]
    python benchmarks/common_protocol.py final --data cifar-10-batches-py [--rows …] [--dry-run]

`trials` trains with every rate and schedule on 45,000 pictures and scores the models on the 5,000 for validation.
`final` takes the rate and schedule whose trial has the best `valid_clean`, and trains on all 50,000. Each run is one
`akorn train`; --dry-run only prints the commands. A run that has a record is not repeated, and an interrupted run is
resumed. Further arguments are passed on to every `akorn train`: `--train.steps 3`, say, for a rehearsal.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from akorn.cli import train as command
from akorn.errors import AkornError
from akorn.ledger import read_records
from akorn.ledger.records import Record
from akorn.runtime.nested import flatten

PROTOCOL = Path(__file__).parents[1] / "results" / "common_protocol.toml"
DIVERGED = "diverged.txt"
HARMLESS = {"device", "compile", "graph", "deterministic", "checkpoint_every", "checkpoint_minutes", "keep", "shard_mb",
            "log_every", "eval_every", "tensorboard", "task.data.path", "task.channels_last"}  # fmt: skip
"""Settings in which two records of the same run may differ."""


@dataclass(frozen=True)
class Run:
    """One training: the arguments of `akorn train`, and what a record of it must say."""

    row: str
    rate: float
    schedule: str
    out: Path
    words: tuple[str, ...]

    def records(self, results: Path) -> list[Record]:
        """Its records in a folder, the newest last."""
        from akorn.rooms import part, room_of_recipe

        options = command.parse(self.words)
        recipe = command.configured(options)
        task = part(room_of_recipe(recipe.name), "task").make_task(recipe)
        wanted = _comparable({**asdict(recipe.train), "task": dict(task.settings())})
        return [
            record
            for record in (read_records(results) if results.is_dir() else [])
            if record["kind"] == "train" and record["name"] == recipe.name and _comparable(record["config"]) == wanted
        ]

    @property
    def diverged(self) -> bool:
        """Whether it was run, and its loss became NaN or infinite."""
        return (self.out / DIVERGED).is_file()

    def go(self) -> int:
        """Train, and return the exit status. A loss that is NaN or infinite ends this run but not the others."""
        try:
            return command.run(command.parse(self.words))
        except AkornError as error:
            if not str(error).startswith("the loss is "):
                raise
            print(f"# {self.row}: {error}")
            (self.out / DIVERGED).write_text(f"{error}\n", encoding="utf-8")
            return 0


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flatten(config).items() if name not in HARMLESS}


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for, one training after the other."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout, allow_abbrev=False)
    protocol = tomllib.loads(PROTOCOL.read_text(encoding="utf-8"))
    parser.add_argument("stage", choices=("trials", "final"))
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10's folder, cifar-10-batches-py")
    parser.add_argument("--rows", nargs="+", choices=list(protocol["rows"]), default=list(protocol["rows"]))
    parser.add_argument("--runs", type=Path, default=Path("runs/common"), help="the folder for runs and models")
    parser.add_argument("--results", type=Path, default=Path("results"), help="the folder for records")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial-seed", type=int, default=0, help="the seed of the trials to choose from")
    parser.add_argument("--dry-run", action="store_true", help="only print the commands")
    asked, more = parser.parse_known_args(words)
    for row in asked.rows:
        if asked.stage == "trials":
            runs = trials(protocol, row, asked.seed, asked, more)
        else:
            chosen = best(trials(protocol, row, asked.trial_seed, asked, more), asked.results)
            runs = [final(protocol, chosen, asked, more)]
        for run in runs:
            if run.diverged or run.records(asked.results):
                end = "diverged" if run.diverged else "done"
                print(f"# {row}: {asked.stage}, rate {run.rate:g}, {run.schedule}: {end}")
                continue
            print(shlex.join(["akorn", "train", *run.words]), flush=True)
            if not asked.dry_run and (status := run.go()):
                return status
    return 0


def trials(protocol: dict[str, Any], row: str, seed: int, asked: argparse.Namespace, more: Sequence[str]) -> list[Run]:
    """Every rate with every schedule, on the training pictures without those for validation."""
    return [
        _run(row, rate, schedule, seed, "train", protocol, asked, more)
        for rate in protocol["rates"]
        for schedule in protocol["schedules"]
    ]


def final(protocol: dict[str, Any], chosen: Run, asked: argparse.Namespace, more: Sequence[str]) -> Run:
    """The final run of what was chosen, on all training pictures."""
    return _run(chosen.row, chosen.rate, chosen.schedule, asked.seed, "all", protocol, asked, more)


def best(runs: Sequence[Run], results: Path) -> Run:
    """The trial with the best accuracy on validation pictures, the first of equals; AkornError if one has no record."""
    scores = []
    for run in runs:
        found = run.records(results)
        if not found and not run.diverged:
            raise AkornError(
                f"{run.row}: {results} has no record of the trial with rate {run.rate:g}, {run.schedule}: run the"
                " trials first"
            )
        scores.append(found[-1]["metrics"]["valid_clean"] if found else -math.inf)
    told = ", ".join(f"{run.rate:g} {run.schedule} {score:.2f}" for run, score in zip(runs, scores, strict=True))
    if max(scores) == -math.inf:
        raise AkornError(f"{runs[0].row}: all trials diverged, so there is nothing to choose from")
    chosen = runs[scores.index(max(scores))]
    print(f"# {chosen.row}: valid_clean {told}")
    return chosen


def _run(
    row: str,
    rate: float,
    schedule: str,
    seed: int,
    split: str,
    protocol: dict[str, Any],
    asked: argparse.Namespace,
    more: Sequence[str],
) -> Run:
    stage = "final" if split == "all" else "trial"
    out = asked.runs / f"{row}-{stage}-{rate:g}-{schedule}-seed{seed}"
    words = [
        protocol["rows"][row], "--data", str(asked.data), "--out", str(out), "--resume", "--seed", str(seed),
        "--results", str(asked.results), "--data.split", split, "--train.epochs", str(protocol[f"{stage}_epochs"]),
        "--train.optimiser.learning-rate", str(rate), "--train.schedule.name", schedule, *more,
    ]  # fmt: skip
    return Run(row, rate, schedule, out, tuple(words))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AkornError as error:
        print(f"common_protocol: {error}", file=sys.stderr)
        sys.exit(2)
