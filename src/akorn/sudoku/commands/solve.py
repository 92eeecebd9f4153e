"""`akorn solve`: Sudoku puzzles from the command line, a file or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import check_writable
from akorn.runtime.progress import progress_bar

if TYPE_CHECKING:
    from akorn.sudoku.board_reader import BoardLine
    from akorn.sudoku.exact import Solutions
    from akorn.sudoku.solver import Answer, Solver

STEPS, VOTES = 64, 8  # by default; `akorn eval --as-solve` has the same
BATCH = 1000  # boards that are read, solved and answered at a time
ENERGY = "summed energy"  # the energies of all steps together, which an energy vote compares
NODES = 3000  # of the exact search for another solution, some 0.1 s; the hardest boards that are known take about 1,000


@dataclass(frozen=True)
class Options(CommonOptions):
    """Solve Sudoku puzzles. Without a puzzle, a bundled one is solved.

    The exit status is 0 if every answer is a valid Sudoku, 1 if one is not, and 2 if a board could not be read.
    """

    puzzle: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="PUZZLE|FILE|-", help_behavior_hint="(default: a bundled puzzle)"),
    ] = None
    """A puzzle, a file of puzzles, or - for standard input. A puzzle is one line of 81 characters (0, . or _ for a
    blank), or nine lines as newspapers print it, with or without borders. Files may also contain lines of
    `puzzle,solution`, or be tables with a header such as Sudoku-Extreme's."""
    model: str = "sudoku"
    """Shipped weights by name (akorn models), a model's folder, or a file of `akorn export --format onnx`."""
    backend: Literal["torch", "onnx"] | None = None
    """What runs the model: torch, or onnxruntime on the CPU (pip install 'akorn[onnx]'), from the same starts. By
    default torch, and onnxruntime for an exported file."""
    steps: int = STEPS
    """Number of Kuramoto steps T; harder boards need more. (`akorn eval` uses the 16 of training by default, as the
    paper does to compare models; `akorn eval --as-solve` scores what is done here.)"""
    votes: int = VOTES
    """Number of random starts K per board, of which one wins. (`akorn eval` uses 1 by default, to score the model
    without a vote.)"""
    vote: Literal["confidence", "energy"] = "confidence"
    """Which start wins: the most confident one, or the one with the lowest energy, summed over the steps."""
    prefer_valid: bool = False
    """Prefer a valid answer to a better one that is not valid."""
    early_exit: float | None = None
    """Stop a start early once its digits no longer change and its energy changes by less than this fraction between
    blocks of 8 steps; 0.01 saves about a third of the work. By default all starts run T steps."""
    watch: bool = False
    """Show how the digits of a single puzzle settle, step by step."""
    gif: Path | None = None
    """Write an animation of the first readable puzzle being solved."""


def run(options: Options) -> int:
    """Solve every board; exit status 2 if one could not be read, 1 if one has no valid answer."""
    check_seed(options.seed)
    for name in ("steps", "votes"):
        if getattr(options, name) < 1:
            raise AkornError(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.early_exit is not None and not 0 < options.early_exit < 1:
        raise AkornError(f"--early-exit must be between 0 and 1, such as 0.01, got {options.early_exit}")
    if options.early_exit is not None and (options.backend == "onnx" or options.model.endswith(".onnx")):
        raise AkornError("--early-exit needs torch: onnxruntime runs all steps, so leave one of the two out")
    if options.watch and options.json:
        raise AkornError("--watch shows the board and --json does not: choose one of them")
    if options.gif is not None:
        check_writable(options.gif)
        if options.gif.suffix.lower() != ".gif":
            raise AkornError(f"--gif {options.gif}: the file's name must end in .gif")
    lines = _lines(options)
    first = next(lines)  # a missing or empty file is reported before the model is loaded
    from akorn.runtime.processes import is_main
    from akorn.sudoku.solver import Solver

    solver = Solver.from_pretrained(options.model, options.device, backend=options.backend)
    if (options.watch or options.gif is not None) and not solver.can_watch:
        raise AkornError(f"{options.model}: --watch and --gif want a file of single steps (akorn export --steps 1)")
    tally = _Tally(options.steps if options.early_exit is not None else None)
    for batch in _batches(first, lines):
        _solve(solver, batch, options, tally)
    if is_main():
        tally.tell()
        if options.gif is not None and not tally.drawn:
            say(f"akorn: {options.gif} was not written: there is no board to show")
    if tally.unreadable:
        return 2
    return 0 if tally.valid == tally.answered else 1


def _lines(options: Options) -> Iterator[BoardLine]:
    """The boards that the argument stands for."""
    from akorn.sudoku.board_reader import read_boards, read_text
    from akorn.sudoku.examples import EXAMPLES

    text = options.puzzle
    if text is None:
        yield from read_text(EXAMPLES["hard"])
    elif os.path.isdir(text):
        raise AkornError(f"{text}: this is a folder, expected a puzzle or a file of puzzles")
    elif text == "-" or os.path.exists(text):  # Path.exists fails for a board that is too long for a file name
        yield from read_boards(text)
    elif "\n" not in text and ("/" in text or (len(text) < 81 and any(map(str.isalpha, text)))):
        raise AkornError(f"{text}: there is no such file, and this is not a puzzle of 81 characters")
    else:
        lines = list(read_text(text))
        if len(lines) == 1 and lines[0].error is not None:
            if options.json:
                print_json({"puzzle": lines[0].text, "error": lines[0].error})
            raise AkornError(lines[0].error)
        yield from lines


def _batches(first: BoardLine, rest: Iterator[BoardLine]) -> Iterator[list[BoardLine]]:
    batch = [first]
    for line in rest:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _solve(solver: Solver, batch: list[BoardLine], options: Options, tally: _Tally) -> None:
    """Solve the readable boards of a batch together, and report on all of them in order."""
    from akorn.runtime.processes import is_main
    from akorn.sudoku.exact import has_solutions

    puzzles = [line.puzzle for line in batch if line.puzzle is not None]
    alone = len(batch) == 1 and not tally.seen  # but not a last batch of one board
    shown = options.puzzle is None and sys.stdout.isatty() and not options.json and solver.can_watch
    watching = options.watch or shown
    if options.watch and not alone and not tally.seen:
        say("akorn: --watch shows a single puzzle; these are several, which are solved together")
    with progress_bar(f"solving {len(puzzles) * options.votes} starts", wanted=not alone) as progress:
        answers = iter(
            solver.solve(
                puzzles, options.steps, options.votes, options.seed,
                prefer_valid=options.prefer_valid, early_exit=options.early_exit, vote=options.vote, progress=progress,
            )
        )  # fmt: skip
    tally.seen += len(batch)
    for line in batch:
        if line.puzzle is None:
            tally.unreadable += 1
            if not is_main():
                continue
            error = f"line {line.number}: {line.error}"
            say(f"akorn: {error}")
            if options.json:
                print_json({"puzzle": line.text, "error": error})
            continue
        answer = next(answers)
        tally.add(line, answer)
        if not is_main():
            continue  # all processes have the same answers, and one prints them
        solutions = has_solutions(line.puzzle, NODES)
        if alone and watching:
            _watch(solver, line, answer, options)
        if options.json:
            print_json(_as_json(line, answer, solutions))
        else:
            _show(line, answer, alone)
        _tell(line, answer, alone, solutions, options.json)
        if options.gif is not None and not tally.drawn:
            _animate(solver, line, answer, options)
            tally.drawn = True


def _as_json(line: BoardLine, answer: Answer, solutions: Solutions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "puzzle": answer.puzzle,
        "solution": answer.board,
        "valid": answer.valid,
        "energy": answer.energy,
        "confidence": answer.confidence,
    }
    if line.solution is not None:
        found["correct"] = _correct(line, answer)
    if solutions in (0, "several"):
        found["solutions"] = solutions
    if answer.conflicts:
        found["conflicts"] = [str(conflict) for conflict in answer.conflicts]
    return found


def _correct(line: BoardLine, answer: Answer) -> bool:
    from akorn.sudoku.board import format_board

    assert line.solution is not None
    return answer.board == format_board(line.solution)


def _show(line: BoardLine, answer: Answer, alone: bool) -> None:
    from akorn.sudoku.board import parse_board
    from akorn.sudoku.terminal import print_board

    assert line.puzzle is not None
    title = None if alone else f"line {line.number}"
    board = parse_board(answer.board, check=False)
    print_board(board, line.puzzle, answer.energy, title, energy_name=ENERGY, confidence=answer.confidence)


def _tell(line: BoardLine, answer: Answer, alone: bool, solutions: Solutions, as_json: bool) -> None:
    """Say on stderr what is wrong with the puzzle and, unless the JSON output does, with the answer."""
    where = "" if alone else f"line {line.number}: "
    if solutions == 0:
        say(f"akorn: {where}this board has no solution")
    elif solutions == "several":
        say(f"akorn: {where}this board has several solutions")
    if not answer.valid and solutions != 0 and not as_json:
        named = [str(conflict) for conflict in answer.conflicts[:3]]
        if len(answer.conflicts) > 3:
            named.append(f"{len(answer.conflicts) - 3} more")
        hint = "try more --steps or --votes"
        say(f"akorn: {where}no solution found; the best attempt has {'; '.join(named)}; {hint}")


def _watch(solver: Solver, line: BoardLine, answer: Answer, options: Options) -> None:
    """Show the digits of the winning start step by step, in place."""
    import time

    from rich.console import Console
    from rich.live import Live

    from akorn.sudoku.terminal import BoardView

    assert line.puzzle is not None
    console = Console()
    with Live(console=console, transient=True, auto_refresh=False) as live:
        summed: float | None = 0.0  # ends as the value that the vote compared
        for frame in solver.watch(line.puzzle, options.steps, options.seed, answer.start):
            title = f"step {frame.step} of {options.steps}"
            summed = None if frame.energy is None or summed is None else summed + frame.energy
            live.update(BoardView(frame.digits, line.puzzle, summed, title, ENERGY), refresh=True)
            time.sleep(min(0.05, 4.0 / options.steps) if console.is_terminal else 0)


def _animate(solver: Solver, line: BoardLine, answer: Answer, options: Options) -> None:
    """Write the winning start as a GIF."""
    import numpy as np

    from akorn.sudoku.terminal import animate

    assert options.gif is not None
    assert line.puzzle is not None
    frames = list(solver.watch(line.puzzle, options.steps, options.seed, answer.start))
    energies = [frame.energy for frame in frames if frame.energy is not None]
    animate(
        np.stack([frame.digits for frame in frames]),
        options.gif,
        line.puzzle,
        np.stack([frame.confidence for frame in frames]),
        np.array(energies) if energies else None,
    )
    say(f"wrote {options.gif}")


class _Tally:
    """What is printed at the end if the file had solutions or something went wrong."""

    def __init__(self, steps: int | None = None) -> None:
        self.seen = self.unreadable = self.known = self.correct = self.answered = self.valid = 0
        self.drawn = False  # whether the animation has been written
        self.steps, self.used = steps, 0.0  # T if starts may stop earlier, and the steps that all took

    def add(self, line: BoardLine, answer: Answer) -> None:
        self.answered += 1
        self.valid += answer.valid
        self.used += answer.mean_steps
        if line.solution is not None:
            self.known += 1
            self.correct += _correct(line, answer)

    def tell(self) -> None:
        if self.answered > 1:
            say(f"valid: {self.valid} of {self.answered} boards")
        if self.known:
            say(f"board accuracy: {100 * self.correct / self.known:.2f} % ({self.correct} of {self.known})")
        if self.steps is not None and self.answered:
            say(f"early exit: {self.used / self.answered:.1f} of {self.steps} steps on average")
        if self.unreadable:
            say(f"akorn: {self.unreadable} board{'s' * (self.unreadable > 1)} could not be read")
