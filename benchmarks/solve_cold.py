"""How long `akorn solve` takes for one board, from the command to the answer, in a process of its own.

    python benchmarks/solve_cold.py [FILE …] [--count 5] [--record results]

The first board is the one that `akorn solve` shows by itself. Of each FILE of boards, `--count` are taken, spread over
it evenly. A board may end as "not solved", with its confidence and exit status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from akorn.errors import AkornError
from akorn.ledger import write_record
from akorn.sudoku import EXAMPLES
from akorn.sudoku.board import format_board
from akorn.sudoku.board_files import load_csv

SHOWN = "bundled"


@dataclass
class Run:
    """One board, solved in a new process."""

    puzzle: str
    status: int
    """0 for solved, 1 for not solved."""
    seconds: float
    megabytes: float
    """The largest memory of the process."""
    confidence: float
    solved: bool
    """Whether the answer is a correct Sudoku that keeps the givens."""


def solve(puzzle: str) -> Run:
    """Run the command once; AkornError if it refuses."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "akorn", "solve", puzzle, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said, complaint = process.stdout.read(), process.stderr.read()
    _, state, used = os.wait4(process.pid, 0)
    seconds, status = time.perf_counter() - began, os.waitstatus_to_exitcode(state)
    process.returncode = status
    if status not in (0, 1):
        raise AkornError(f"akorn solve {puzzle} ended with {status}: {complaint.decode().strip()[-200:]}")
    answer = json.loads(said)
    kilobytes = used.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Run(puzzle, status, seconds, kilobytes / 1000, answer["confidence"], answer["valid"])


def spread(path: Path, count: int) -> list[str]:
    """Up to `count` puzzles of a file, evenly spread."""
    puzzles, _ = load_csv(path)
    places = np.linspace(0, len(puzzles) - 1, min(count, len(puzzles))).round().astype(int)
    return [format_board(puzzles[place]) for place in places]


def main() -> None:
    """Time all boards, print a line for each, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=5, help="how many boards of each file")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    if words.count < 1:
        raise AkornError(f"--count is {words.count}, expected 1 or more")
    sets = {SHOWN: [EXAMPLES["hard"]]} | {path.stem: spread(path, words.count) for path in words.files}
    began, runs, metrics = time.monotonic(), {}, {}
    for name, puzzles in sets.items():
        runs[name] = [solve(puzzle) for puzzle in puzzles]
        for run in runs[name]:
            said = "solved" if run.solved else "not solved"
            print(f"{name}: {run.seconds:5.1f} s, {run.megabytes:,.0f} MB, {said}, {run.confidence:.0%}", flush=True)
        metrics |= {
            f"{name}/boards": len(runs[name]),
            f"{name}/solved": sum(run.solved for run in runs[name]),
            f"{name}/median/s": statistics.median(run.seconds for run in runs[name]),
            f"{name}/longest/s": max(run.seconds for run in runs[name]),
            f"{name}/most/MB": max(run.megabytes for run in runs[name]),
        }
    if words.record is not None:
        digest = hashlib.sha256(json.dumps(sets).encode()).hexdigest()
        path = write_record(
            "bench", "solve-cold", metrics, config={"sets": list(sets), "count": words.count}, seed=0,
            data_fingerprint=digest, wall_time=time.monotonic() - began, device="cpu", folder=words.record,
            extra={"runs": {name: [asdict(run) for run in each] for name, each in runs.items()}},
        )  # fmt: skip
        print(f"recorded in {path}")


if __name__ == "__main__":
    try:
        main()
    except AkornError as error:
        print(f"solve_cold: {error}", file=sys.stderr)
        sys.exit(2)
