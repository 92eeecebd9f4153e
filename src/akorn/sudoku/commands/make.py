"""`akorn data make sudoku DIR`: boards with one solution each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json
from akorn.errors import AkornError
from akorn.runtime.files import make_folder

NAMES = ("sudoku",)


@dataclass(frozen=True)
class Options(CommonOptions):
    """Make a data set: `akorn data make sudoku DIR` writes train.csv and test.csv of boards with one solution each."""

    name: Annotated[Literal["sudoku"], tyro.conf.Positional] = "sudoku"
    folder: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")
    ] = None
    """The folder, created if it does not exist."""
    count: int = 9000
    """Number of training boards."""
    test: int = 1000
    """Number of test boards."""
    givens: Annotated[
        str | None, tyro.conf.arg(metavar="NUMBER|RANGE", help_behavior_hint="(default: 31-42, or the difficulty's)")
    ] = None
    """Number of givens, or a range; at least 22, and slower below 31. It does not determine how hard a board is: see
    --difficulty."""
    difficulty: Annotated[
        Literal["easy", "medium", "hard", "extreme"] | None, tyro.conf.arg(help_behavior_hint="(default: any)")
    ] = None
    """How hard the boards are, measured by the work of our exact solver. Easy and medium boards take no search (one
    node): easy ones are solved by naked singles in at most 6 rounds, medium ones take more rounds, or also hidden
    singles and locked candidates. Hard boards take a search of 2 to 10 nodes, extreme ones 11 or more. Unless --givens
    says otherwise they have 31-42, 28-36, 25-32 and 25-28 givens. Hard boards take about 0.05 s each, extreme ones 0.5
    s."""
    nodes: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: any)")] = None
    """Instead of --difficulty and --givens: boards for which our exact solver needs at least this many search nodes,
    found by climbing from board to board. Extreme boards mostly have 11 to 40, and those that people call the hardest
    have some hundreds. With 100, a board takes some seconds on one core."""


def run(options: Options) -> int:
    """Generate the boards and write both files."""
    check_seed(options.seed)
    from akorn.sudoku.board_files import write_csv
    from akorn.sudoku.climbing import MOST_NODES
    from akorn.sudoku.difficulty import count_difficulties
    from akorn.sudoku.generate import GIVENS, GIVENS_OF, check_givens, make, parse_givens

    if options.folder is None:
        raise AkornError("akorn data make sudoku DIR: the folder is missing")
    if options.count < 1 or options.test < 1:
        raise AkornError(f"--count and --test must be at least 1, got {options.count} and {options.test}")
    if options.nodes is not None and (options.difficulty is not None or options.givens is not None):
        raise AkornError("--nodes takes the place of --difficulty and --givens: leave these out")
    if options.nodes is not None and not 2 <= options.nodes <= MOST_NODES:
        raise AkornError(f"--nodes must be from 2 to {MOST_NODES}, got {options.nodes}")
    default = GIVENS if options.difficulty is None else GIVENS_OF[options.difficulty]
    givens = check_givens(default if options.givens is None else parse_givens(options.givens))
    files = [options.folder / "train.csv", options.folder / "test.csv"]
    for file in files:
        if file.exists():
            raise AkornError(f"{file} already exists; choose another folder or remove it")
    make_folder(options.folder)
    from akorn.runtime.progress import progress_bar

    total = options.count + options.test
    kind = "" if options.difficulty is None else f"{options.difficulty} "
    what = f"{'-'.join(map(str, givens))} givens" if options.nodes is None else f"{options.nodes} search nodes"
    asked = givens if options.nodes is None else None
    with progress_bar(f"{total} {kind}boards with {what}", total) as bar:
        puzzles, solutions = make(
            total, asked, options.seed, os.cpu_count() or 1, bar, options.difficulty, options.nodes
        )
    for file, part in zip(files, (slice(options.count), slice(options.count, None)), strict=True):
        write_csv(file, puzzles[part], solutions[part])
    counts = count_difficulties(puzzles)
    if options.json:
        print_json({file.stem: str(file) for file in files} | {"difficulty": counts})
    else:
        print(f"wrote {files[0]} ({options.count} boards) and {files[1]} ({options.test})")
        print("difficulty: " + ", ".join(f"{100 * number / total:.1f} % {name}" for name, number in counts.items()))
    return 0
