"""Do two commits compute the same? Runs both on this machine's CPU, and compares every number bit for bit.

    python benchmarks/same_numbers.py OLD NEW        # two commits, or folders that hold one each

It compares the losses of the first 50 training steps of one recipe from each family (Sudoku; attention and convolution
on objects; convolution on CIFAR-10, with made-up pictures), and the answers of the shipped weights: boards and energies
of `akorn solve`, scores of `akorn eval`, cluster sizes of `akorn segment`, classes of `akorn classify`. Each commit is
run through its own command line, so it does not matter where it keeps its modules. Exit status 1 if any number differs.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SMALL = [
    "--train.precision",
    "float32",
    "--train.log-every",
    "1",
    "--train.no-tensorboard",
    "--train.checkpoint-every",
    "0",
]
RECIPES = {
    "sudoku_akorn": ["--train.batch-size", "4", "--data.count", "200", "--valid.count", "4"],
    "tetrominoes_akorn": ["--train.batch-size", "16", "--data.count", "800", "--valid.count", "8"],
    "tetrominoes_akorn_conv": ["--train.batch-size", "16", "--data.count", "800", "--valid.count", "8"],
    "cifar10_akorn_conv": ["--train.batch-size", "8", "--data", "CIFAR"],
}
"""One recipe from each family, with batches that are small enough for a CPU."""

BOARDS = (
    "000100000310060000400008500000000700078020600000005090000000000009200014000590003",
    "530070000600195000098000060800060003400803001700020006060000280000419005000080079",
    "000000010400000000020000000000050407008000300001090000300400200050100000000806000",
    "100007090030020008009600500005300900010080002600004000300000010040000007007000300",
)
ASKED = {
    "solve sudoku": ["solve", "BOARDS", "--votes", "4", "--steps", "32", "--json"],
    "solve sudoku-paper": ["solve", "BOARDS", "--model", "sudoku-paper", "--votes", "3", "--steps", "24", "--json"],
    "eval sudoku": ["eval", "sudoku", "--limit", "12", "--votes", "2", "--json", "--results", "None"],
    "eval sudoku-paper": ["eval", "sudoku-paper", "--limit", "12", "--votes", "2", "--json", "--results", "None"],
    "eval tetrominoes": ["eval", "tetrominoes", "--limit", "24", "--json", "--results", "None"],
    "eval dsprites": ["eval", "dsprites", "--limit", "16", "--json", "--results", "None"],
    "eval shapes": ["eval", "shapes", "--limit", "16", "--json", "--results", "None"],
    "segment dsprites": ["segment", "PICTURE", "--model", "dsprites", "--json", "--out", "segmented"],
    "classify": ["classify", "PICTURE", "--json"],
    "eval cifar10-conv": ["eval", "cifar10-conv", "--data", "CIFAR", "--limit", "64", "--json", "--results", "None"],
}
"""The commands that ask the shipped weights."""

_TIMES = {"seconds", "out", "files", "written"}  # keys whose values may differ from run to run


def main() -> int:
    """Run both commits and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", help="run only the comparisons whose names contain this")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _make_data(work)
        trees = {commit: _checkout(commit, work) for commit in (options.old, options.new)}
        comparisons = [(f"train {name}", name) for name in RECIPES] + [(name, name) for name in ASKED]
        for label, name in comparisons:
            if options.only and options.only not in label:
                continue
            ask = _losses if label.startswith("train ") else _answers
            old, new = (ask(trees[commit], work, name, options.steps) for commit in (options.old, options.new))
            same = old == new
            failed += not same
            print(f"{'same     ' if same else 'DIFFERENT'}  {label}: {_count(old)} numbers", flush=True)
            if not same:
                print(f"    {str(old)[:300]}\n    {str(new)[:300]}")
        _remove(trees.values(), work)
    print("all the same" if not failed else f"{failed} differ")
    return int(failed > 0)


def _checkout(commit: str, work: Path) -> Path:
    """The tree of a commit; a folder is taken as it is."""
    if Path(commit).is_dir():
        return Path(commit).resolve()
    tree = work / f"tree-{commit.replace('/', '-')}"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], check=True)
    return tree


def _remove(trees: Iterable[Path], work: Path) -> None:
    """Remove the trees that were checked out here; folders that were given stay."""
    for tree in trees:
        if tree.parent == work:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def _akorn(tree: Path, work: Path, words: list[str]) -> str:
    """What a command of a commit prints on stdout."""
    places = {"BOARDS": "boards.txt", "PICTURE": "picture.png", "CIFAR": "cifar"}
    words = [str(work / places[word]) if word in places else word for word in words]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "2", "AKORN_CACHE": ""}
    there = Path(tempfile.mkdtemp(dir=work))
    done = subprocess.run(
        [sys.executable, "-m", "akorn", *words, "--device", "cpu"],
        cwd=there, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"akorn {' '.join(words)} in {tree} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _losses(tree: Path, work: Path, recipe: str, steps: int) -> list[str]:
    """The loss of every step, exactly."""
    out = Path(tempfile.mkdtemp(dir=work)) / "run"
    words = ["train", recipe, "--train.steps", str(steps), *SMALL, *RECIPES[recipe]]
    _akorn(tree, work, [*words, "--out", str(out), "--results", "None"])
    rows = [json.loads(line) for line in (out / "scalars.jsonl").read_text().splitlines()]
    losses = [float(row["loss"]).hex() for row in rows if "loss" in row]
    if len(losses) != steps:
        raise SystemExit(f"{recipe} in {tree}: {len(losses)} losses, expected {steps}")
    return losses


def _answers(tree: Path, work: Path, name: str, _: int) -> list[Any]:
    """What a command prints as JSON, without the values that differ from run to run."""
    lines = [json.loads(line) for line in _akorn(tree, work, ASKED[name]).splitlines() if line.strip()]
    return [_stripped(line) for line in lines]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(part) for key, part in value.items() if key not in _TIMES}
    if isinstance(value, list):
        return [_stripped(part) for part in value]
    return value.hex() if isinstance(value, float) else value


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else 1


def _make_data(work: Path) -> None:
    """Write boards, a picture, and random pictures in CIFAR-10's file format."""
    random = np.random.default_rng(0)
    (work / "boards.txt").write_text("\n".join(BOARDS) + "\n")
    grey = random.integers(0, 256, (8, 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    Image.fromarray(grey).save(work / "picture.png")
    folder = work / "cifar"
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        pictures = random.integers(0, 256, (10_000, 3072), dtype=np.uint8)
        labels = random.integers(0, 10, 10_000).tolist()
        (folder / name).write_bytes(pickle.dumps({b"data": pictures, b"labels": labels}, protocol=2))
    meta = {b"label_names": [f"class {k}".encode() for k in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))


if __name__ == "__main__":
    sys.exit(main())
