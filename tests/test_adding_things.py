"""The page "Adding things": its examples are applied to a copy of the package, and their tests pass."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import akorn

TOP = Path(__file__).parents[1]
PACKAGE = Path(akorn.__file__).parent
PAGE = (TOP / "docs" / "adding-things.md").read_text(encoding="utf-8")

BLOCK = re.compile(r'^```(?P<kind>python|diff)? ?(?:title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$', re.M | re.S)


class Block(NamedTuple):
    kind: str | None
    file: str | None
    text: str


def sections() -> Iterator[tuple[str, list[Block]]]:
    """The page's headings, each with the blocks below it; only those that have some."""
    for part in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        blocks = [Block(match["kind"], match["file"], match["text"]) for match in BLOCK.finditer(part)]
        if blocks:
            yield part.splitlines()[0], blocks


SECTIONS = dict(sections())

LOOK_AT_EVERYTHING = (
    "tests/cli/test_main.py",
    "tests/objects/test_objects_sets.py",
    "tests/robustness/test_attack_suite.py",
    "tests/sudoku/test_recipes.py",
    "tests/test_models.py",
    "tests/test_registry.py",
    "tests/test_rooms.py",
)
SLOW = ("both_ways", "help_is_quick", "one_line_on_every_terminal", "seed_that", "signs", "small_run", "trained_on")
"""Tests among these that start processes or train, and look at little."""


def apply(block: Block, top: Path) -> None:
    """Write a new file, add to the end of an old one, or change some of its lines."""
    assert block.file is not None
    file = top / block.file
    if block.kind == "python":
        before = file.read_text(encoding="utf-8") + "\n\n" if file.exists() else ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(before + block.text, encoding="utf-8")
        return
    text = file.read_text(encoding="utf-8")
    for hunk in block.text.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
        assert text.count(old) == 1, f"{block.file} has not once, but {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and of its tests, to be changed; the weights are linked."""
    there = tmp_path / "src" / "akorn"
    shutil.copytree(PACKAGE, there, ignore=shutil.ignore_patterns("__pycache__", "weights"))
    (there / "weights").symlink_to(PACKAGE / "weights")
    shutil.copytree(TOP / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    return tmp_path


def run_tests(copy: Path, *words: str) -> None:
    """Let pytest run in the copy; what it prints is shown if a test fails."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(copy), *words]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_the_example_works(name: str, copy: Path) -> None:
    commands = []
    for block in SECTIONS[name]:
        if block.file is None:
            commands.append(shlex.split(block.text))
        else:
            apply(block, copy)
    ((program, *words),) = commands
    assert program == "pytest"
    run_tests(copy, *words)


@pytest.mark.slow
def test_no_other_test_must_be_changed(copy: Path) -> None:
    """All examples at once: tests that look at everything that is registered still pass."""
    for block in (block for blocks in SECTIONS.values() for block in blocks):
        if block.file is not None:
            apply(block, copy)
    run_tests(copy, *LOOK_AT_EVERYTHING, "-k", " and ".join(f"not {name}" for name in SLOW))


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "A room"])
def test_it_touches_at_most_three_files(name: str) -> None:
    files = {block.file for block in SECTIONS[name] if block.file is not None}
    assert len(files) <= 3
    assert any(file.startswith("tests/") for file in files)


def test_a_room_changes_one_line_outside_its_folder() -> None:
    files = {block.file for block in SECTIONS["A room"] if block.file is not None}
    assert {file for file in files if "/parity/" not in file} == {"src/akorn/rooms.py"}
    (change,) = (block.text for block in SECTIONS["A room"] if block.file == "src/akorn/rooms.py")
    assert [line[0] for line in change.splitlines()] == ["-", "+"]


def test_a_change_that_does_not_fit_is_noticed(copy: Path) -> None:
    with pytest.raises(AssertionError, match="has not once, but 0 times"):
        apply(Block("diff", "src/akorn/rooms.py", "-ROOMS = ()\n+ROOMS = (1,)\n"), copy)
