"""Boards that need search: a mixture to train `sudoku_hard` on, and what each part of the model contributes there.

    python benchmarks/hard_boards.py mix HARD.csv SEVENTEEN.csv --apart VALID.csv TEST.csv … --out boards
        [--even 8]
    python benchmarks/hard_boards.py shared TRAIN.csv … --tests TEST.csv … [--record results]
    python benchmarks/hard_boards.py compare --data boards/mixed.csv --valid boards/held-out.csv [--rows akorn itrsa]
        [--score FORUM.csv …] [--dry-run] [more arguments for every akorn train]
    python benchmarks/hard_boards.py plot RESULTS --data FORUM.csv --out PLOT.png

`mix` holds out some boards of HARD and adds boards of SEVENTEEN to the rest, so that these make up 30 % of the mixture.
No board of the mixture has a solution that is a symmetric image of a held-out board's, or of one in the --apart files.
With `--even 8` boards of HARD whose number of givens is rare are repeated, up to eight times, so that all numbers are
about equally frequent; a model rarely sees the fewest givens otherwise, and it is weakest there.

`shared` counts the boards of files for training and for tests that have the same solution, up to symmetry.

`compare` trains every row from scratch, for the same number of steps, on the same boards, in the same order: AKOrN as
it ships, ItrSA with as many parameters, and AKOrN without Ω, without Proj, and without both Proj and Π. Each training
writes a record, and so does its evaluation on each file of --score: 64 starts at T = 256, with a vote by confidence.
`plot` draws the vote over the number of starts from the newest of these records.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from akorn.cli import main as command_line
from akorn.errors import AkornError
from akorn.ledger import Record, read_records, write_record
from akorn.sudoku.board_files import load_csv, write_csv
from akorn.sudoku.plots import plot_accuracy

Grids = NDArray[np.uint8]

SCRATCH = (
    "--init", "None", "--train.steps", "2000", "--train.carry.segments", "1", "16",
    "--data.reveal", "17", "42", "--data.revealed", "0.5",
)  # fmt: skip
"""What all rows share: from scratch a model needs boards that it can solve without search, so half are made easier."""


class Row(NamedTuple):
    """A model to compare."""

    label: str
    recipe: str = "sudoku_hard"
    words: tuple[str, ...] = ()
    """What `akorn train` is told besides …"""
    overrides: tuple[tuple[str, object], ...] = ()
    """… and how a record says the same."""


ROWS = {
    "akorn": Row("AKOrN"),
    "itrsa": Row("ItrSA", "sudoku_hard_itrsa"),
    "no-omega": Row("AKOrN without Ω", words=("--model.no-omega",), overrides=(("model.omega", False),)),
    "no-proj": Row(
        "AKOrN without Proj",
        words=("--model.rule", "without-projection"),
        overrides=(("model.rule", "without-projection"),),
    ),
    "residual": Row(
        "AKOrN without Proj and Π", words=("--model.rule", "residual"), overrides=(("model.rule", "residual"),)
    ),
}

VOTE = ("--steps", "256", "--votes", "64", "--vote", "confidence")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = parser.add_subparsers(dest="job", required=True)
    mix = jobs.add_parser("mix")
    mix.add_argument("hard", type=Path)
    mix.add_argument("seventeen", type=Path)
    mix.add_argument("--apart", type=Path, nargs="*", default=[])
    mix.add_argument("--held", type=int, default=1000, help="how many hard boards are held out (default: 1000)")
    mix.add_argument(
        "--even", type=int, default=1, metavar="TIMES", help="repeat rare ones up to this often (1: never)"
    )
    mix.add_argument("--out", type=Path, required=True)
    share = jobs.add_parser("shared")
    share.add_argument("training", type=Path, nargs="+")
    share.add_argument("--tests", type=Path, nargs="+", required=True)
    share.add_argument("--record", type=Path)
    compare = jobs.add_parser("compare")
    compare.add_argument("--data", required=True)
    compare.add_argument("--valid", required=True)
    compare.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    compare.add_argument("--score", nargs="*", default=[])
    compare.add_argument("--runs", default="runs")
    compare.add_argument("--results", default="results")
    compare.add_argument("--dry-run", action="store_true")
    plot = jobs.add_parser("plot")
    plot.add_argument("results", type=Path)
    plot.add_argument("--data", type=Path, required=True)
    plot.add_argument("--out", type=Path, required=True)
    args, words = parser.parse_known_args()
    if args.job == "compare":
        raise SystemExit(compared(args, words))
    if words:
        parser.error(f"unknown arguments: {shlex.join(words)}")
    if args.job == "mix":
        mixture(args.hard, args.seventeen, args.apart, args.held, args.out, args.even)
    elif args.job == "shared":
        shared(args.training, args.tests, args.record)
    else:
        print(f"drawn in {plotted(args.results, args.data.stem, args.out)}")


def mixture(hard: Path, seventeen: Path, apart: list[Path], held: int, out: Path, even: int = 1) -> None:
    """Write `mixed.csv` and `held-out.csv`, and say how many boards were left out."""
    for name, value in (("held", held), ("even", even)):
        if value < 1:
            raise AkornError(f"--{name} is {value}, expected 1 or more")
    puzzles, solutions = load_csv(hard)
    prints = fingerprints(solutions)
    chosen = np.linspace(0, len(puzzles) - 1, min(held, len(puzzles))).round().astype(int)
    known = [prints[chosen], *(fingerprints(load_csv(path)[1]) for path in apart)]
    taken = np.unique(np.concatenate(known))
    kept = np.flatnonzero(~np.isin(prints, taken))
    if not len(kept):
        raise AkornError(
            f"{hard}: no boards are left besides the {len(chosen):,} that are held out (--held {held}) and those that"
            " are kept apart"
        )
    lines = np.repeat(kept, repeats((puzzles[kept] > 0).sum(1), even))
    easier, answers = load_csv(seventeen)
    free = np.flatnonzero(~np.isin(fingerprints(answers), taken))
    count = min(len(free), round(0.3 / 0.7 * len(lines)))
    added = free[np.linspace(0, len(free) - 1, count).round().astype(int)]
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "held-out.csv", puzzles[chosen], solutions[chosen])
    write_csv(
        out / "mixed.csv",
        np.concatenate([puzzles[lines], easier[added]]),
        np.concatenate([solutions[lines], answers[added]]),
    )
    print(
        f"{len(kept):,} of {len(puzzles):,} hard boards, in {len(lines):,} lines, and {count:,} of {len(easier):,} "
        f"others in {out / 'mixed.csv'}; {len(easier) - len(free):,} of those others share a solution with boards kept"
        " apart"
    )


def repeats(givens: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """How often each board is written, 1 to `most`, so that all numbers of givens are about equally frequent."""
    counts = np.bincount(givens)[givens]
    return np.clip(np.rint(counts.max() / counts).astype(int), 1, most)


def shared(training: list[Path], tests: list[Path], record: Path | None) -> None:
    """Say how many boards of each file for training have the solution of a board for tests, and the other way round."""
    began = time.monotonic()
    prints = {path: fingerprints(load_csv(path)[1]) for path in (*training, *tests)}
    rows = [
        {
            "training": of.stem,
            "test": test.stem,
            "training_boards": int(np.isin(prints[of], prints[test]).sum()),
            "test_boards": int(np.isin(prints[test], prints[of]).sum()),
        }
        for of in training
        for test in tests
    ]
    for row, (of, test) in zip(rows, itertools.product(training, tests), strict=True):
        print(
            f"{row['training_boards']:,} of {len(prints[of]):,} boards of {of.name} have the solutions of "
            f"{row['test_boards']:,} of {len(prints[test]):,} of {test.name}"
        )
    if record is not None:
        metrics = {f"{row['test']}_in_{row['training']}": row["test_boards"] for row in rows}
        config = {"training": [of.name for of in training], "tests": [test.name for test in tests]}
        digest = hashlib.sha256(b"".join(prints[path].tobytes() for path in (*training, *tests))).hexdigest()
        path = write_record(
            "bench", "shared-solutions", metrics, config=config, seed=0, data_fingerprint=digest,
            wall_time=time.monotonic() - began, device="cpu", folder=record, extra={"rows": rows},
        )  # fmt: skip
        print(f"recorded in {path}")


def fingerprints(solutions: Grids) -> NDArray[np.uint64]:
    """[B, 81] solved boards → [B] numbers that symmetric images of a board share, and that others hardly ever share.

    Two rows define a permutation of the digits. No symmetry changes its cycle type: renaming the digits conjugates it,
    and the order of the columns does not matter. The numbers hash these types for all pairs of rows, and of columns, by
    band.
    """
    grids = solutions.reshape(-1, 9, 9).astype(np.int64) - 1
    parts = [grids[start : start + 4096] for start in range(0, len(grids), 4096)]
    sides = [(_side(part), _side(part.transpose(0, 2, 1))) for part in parts]
    return np.concatenate([_mixed(rows) + _mixed(columns) for rows, columns in sides])


def _side(grids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """[B, 9, 9] → [B] hashes of how the rows relate to each other, the same for any order of bands and in bands."""
    count = len(grids)
    places = np.argsort(grids, axis=2)  # [B, row, digit]: its column
    # [B, i, j, digit]: row j's digit in the column where row i has this digit
    step = np.take_along_axis(grids[:, None], places[:, :, None], axis=3)
    digit = np.broadcast_to(np.arange(9), step.shape)
    power, types = step, np.zeros((count, 9, 9), np.uint64)
    for _ in range(8):
        power = np.take_along_axis(step, power, axis=3)
        types = 10 * types + (power == digit).sum(3).astype(np.uint64)
    bands = _mixed(types).reshape(count, 9, 3, 3).sum(3)  # [B, row, band]
    own = np.arange(9) // 3
    inside = bands[:, np.arange(9), own]  # [B, row]
    outside = _mixed(bands).sum(2) - _mixed(inside)
    rows = _mixed(inside + 3 * _mixed(outside))
    return _mixed(rows.reshape(count, 3, 3).sum(2)).sum(1)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash to well-mixed 64-bit numbers (the last steps of splitmix64), so that a sum of them stands for a set."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def compared(args: argparse.Namespace, words: list[str]) -> int:
    """Train the rows and score them; returns the last exit status that is not 0, or 0."""
    failed = 0
    for row in args.rows:
        out = f"{args.runs}/hard-{row}"
        train = [
            "train", ROWS[row].recipe, *ROWS[row].words, *SCRATCH,
            "--data", args.data, "--valid", args.valid, "--valid.count", "1000",
            "--out", out, "--results", args.results, *words,
        ]  # fmt: skip
        scores = [["eval", f"{out}/model", "--data", path, *VOTE, "--results", args.results] for path in args.score]
        for command in (train, *scores):
            print(f"akorn {shlex.join(command)}", flush=True)
            status = 0 if args.dry_run else akorn(command)
            if status:
                failed = status
                break
    return failed


def plotted(folder: Path, data: str, out: Path) -> Path:
    """Draw what the confidence vote on these boards solves with K starts, for every row that has a record."""
    curves: dict[str, dict[int, float]] = {}
    for record in sorted(read_records(folder), key=lambda record: str(record["date"])):
        row = row_of(record) if record["kind"] == "eval" and record["config"].get("data") == data else None
        told = record["extra"].get("over_votes") if row is not None else None
        if row is not None and told is not None:
            curves[row] = dict(zip(told["votes"], told["confidence"], strict=True))
    best_first = sorted(curves, key=lambda row: -max(curves[row].values()))
    ordered = {ROWS[row].label: curves[row] for row in best_first}
    if not ordered:
        raise AkornError(f"{folder} has no records of the compared models on {data}")
    return plot_accuracy(ordered, out, against="number of starts K, at T = 256")


def row_of(record: Record) -> str | None:
    """Which row the model of a record is, by the options of its training; None for other models."""
    training = record["extra"].get("training", {})
    overrides = training.get("overrides", {})
    if overrides.get("data.revealed") != float(SCRATCH[-1]):
        return None
    changed = {name: value for name, value in overrides.items() if name.startswith("model.")}
    fits = (name for name, row in ROWS.items() if (row.recipe, dict(row.overrides)) == (training["recipe"], changed))
    return next(fits, None)


def akorn(words: list[str]) -> int:
    """Run one command in this process, where torch is already loaded; returns its exit status."""
    try:
        command_line(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    try:
        main()
    except AkornError as error:
        print(f"hard_boards: {error}", file=sys.stderr)
        sys.exit(2)
