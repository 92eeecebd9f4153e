"""`akorn solve`: Sudoku puzzles from the command line, a file or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import check_writable
from akorn.runtime.progress import progress_bar

if TYPE_CHECKING:
    from akorn.sudoku.board_reader import BoardLine
    from akorn.sudoku.effort import Effort
    from akorn.sudoku.exact import Solutions
    from akorn.sudoku.solver import Answer, Frame, Solver

STEPS, VOTES = 64, 8  # if one of the two is given, for the other; `akorn eval --as-solve` has the same
BATCH = 1000  # boards that are read, solved and answered at a time
ENERGY = "summed energy"  # the energies of all steps together, which an energy vote compares
NODES = 10_000  # of the exact search for another solution, about 0.25 s; the hardest boards known take a few thousand

_WRONG: dict[Solutions, str] = {0: "this board has no solution", "several": "this board has several solutions"}


@dataclass(frozen=True)
class Options(CommonOptions):
    """Solve Sudoku puzzles. Without a puzzle, a bundled one is solved.

    A board gets more steps and more starts while the confidence of its answer is low, up to a limit.

    The exit status is 0 if every answer is a valid Sudoku, 1 if one is not, and 2 if a board could not be read or does
    not have exactly one solution.
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
    effort: Annotated[
        str | None,
        tyro.conf.arg(metavar="STARTSxSTEPS", help_behavior_hint="(default: 64x256 on a CPU, 64x2048 on a GPU)"),
    ] = None
    """The limit of the adaptive effort: the most starts of a board, and the most steps of a start."""
    sure: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 0.99)")] = None
    """The confidence that ends the effort for a board."""
    symmetries: bool = True
    """Let every start but the first see the board under a random symmetry, with adaptive effort."""
    steps: Annotated[int | None, tyro.conf.arg(help_behavior_hint=f"(default: adaptive; {STEPS} with --votes)")] = None
    """Number of Kuramoto steps T of every start, without adaptive effort. (`akorn eval` uses the 16 of training by
    default, as the paper does to compare models; `akorn eval --as-solve` scores what is done here.)"""
    votes: Annotated[int | None, tyro.conf.arg(help_behavior_hint=f"(default: adaptive; {VOTES} with --steps)")] = None
    """Number of random starts K of every board, of which one wins, without adaptive effort."""
    vote: Literal["confidence", "energy"] = "confidence"
    """Which start wins: the most confident one, or the one with the lowest energy, summed over the steps (this needs
    --steps or --votes)."""
    prefer_valid: bool = False
    """Prefer a valid answer to a better one that is not valid; the effort then goes on until an answer is valid."""
    watch: bool = False
    """Show how the digits of a single puzzle settle, step by step."""
    gif: Path | None = None
    """Write an animation of the first readable puzzle being solved."""


def run(options: Options) -> int:
    """Solve every board; exit status 2 if one could not be read, 1 if one has no valid answer."""
    check_seed(options.seed)
    _check_amount(options)
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
        raise AkornError(f"{options.model}: --watch and --gif need a file of single steps (akorn export --steps 1)")
    effort = _effort(options, solver.device.type)
    tally = _Tally(effort)
    for batch in _batches(first, lines):
        _solve(solver, batch, options, effort, tally)
    if is_main():
        tally.tell()
        if options.gif is not None and not tally.drawn:
            say(f"akorn: {options.gif} was not written: there is no board to show")
    if tally.unreadable or tally.ambiguous:
        return 2
    return 0 if tally.valid == tally.answered else 1


def _check_amount(options: Options) -> None:
    """Refuse impossible amounts, before torch is imported."""
    for name in ("steps", "votes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise AkornError(f"--{name} must be at least 1, got {value}")
    fixed = options.steps is not None or options.votes is not None
    if fixed and (options.effort is not None or options.sure is not None or not options.symmetries):
        raise AkornError("--steps and --votes fix the effort: leave them out, or --effort, --sure and --no-symmetries")
    if options.prefer_valid and options.sure is not None:
        raise AkornError("--prefer-valid ends the effort with a valid answer, however sure it is: leave out --sure")
    if options.vote == "energy" and not fixed:
        raise AkornError(f"--vote energy compares starts of equal length: add --steps {STEPS} or --votes {VOTES}")
    _effort(options, "cpu")


def _effort(options: Options, device: str) -> Effort | None:
    """The adaptive effort on a device of this type; None for fixed steps and votes."""
    from akorn.sudoku.effort import Effort, usual

    if options.steps is not None or options.votes is not None:
        return None
    effort = usual(device) if options.effort is None else Effort.parse(options.effort)
    return replace(effort, sure=effort.sure if options.sure is None else options.sure, symmetries=options.symmetries)


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


def _solve(solver: Solver, batch: list[BoardLine], options: Options, effort: Effort | None, tally: _Tally) -> None:
    """Solve the readable boards of a batch together, and report on all of them in order."""
    from akorn.runtime.processes import is_main
    from akorn.sudoku.exact import has_solutions

    counts = [None if line.puzzle is None else has_solutions(line.puzzle, NODES) for line in batch]
    refused = [line.puzzle is None or count in _WRONG for line, count in zip(batch, counts, strict=True)]
    puzzles = [line.puzzle for line, out in zip(batch, refused, strict=True) if line.puzzle is not None and not out]
    alone = len(batch) == 1 and not tally.seen  # but not a last batch of one board
    shown = options.puzzle is None and sys.stdout.isatty() and not options.json and solver.can_watch
    watching = options.watch or shown
    if options.watch and not alone and not tally.seen:
        say("akorn: --watch shows a single puzzle; these are several, which are solved together")
    steps, votes = options.steps or STEPS, options.votes or VOTES
    what = f"{len(puzzles) * votes} starts" if effort is None else f"{len(puzzles)} boards"
    with progress_bar(f"solving {what}", wanted=not alone) as progress:
        answers = iter(
            solver.solve(
                puzzles, steps, votes, options.seed,
                prefer_valid=options.prefer_valid, effort=effort, vote=options.vote, progress=progress,
            )
        )  # fmt: skip
    tally.seen += len(batch)
    for line, solutions, out in zip(batch, counts, refused, strict=True):
        if out:
            tally.refuse(line)
            if is_main():
                _refuse(line, solutions, alone, options.json)
            continue
        answer = next(answers)
        tally.add(line, answer)
        if not is_main():
            continue  # all processes have the same answers, and one prints them
        if alone and watching:
            _watch(solver, line, answer)
        if options.json:
            print_json(_as_json(line, answer))
        else:
            _show(line, answer, alone)
        _tell(line, answer, alone, effort, options.json)
        if options.gif is not None and not tally.drawn:
            _animate(solver, line, answer, options)
            tally.drawn = True


def _refuse(line: BoardLine, solutions: Solutions, alone: bool, as_json: bool) -> None:
    """Say why a board gets no answer."""
    reason = line.error if line.puzzle is None else _WRONG[solutions]
    error = reason if alone and line.puzzle is not None else f"line {line.number}: {reason}"
    say(f"akorn: {error}")
    if as_json:
        counted = {} if line.puzzle is None else {"solutions": solutions}
        print_json({"puzzle": line.text, **counted, "error": error})


def _as_json(line: BoardLine, answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {
        "puzzle": answer.puzzle,
        "solution": answer.board,
        "valid": answer.valid,
        "energy": answer.energy,
        "confidence": answer.confidence,
        "starts": answer.votes,
        "steps": answer.steps,
        "effort": answer.effort,
    }
    if line.solution is not None:
        found["correct"] = _correct(line, answer)
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


def _tell(line: BoardLine, answer: Answer, alone: bool, effort: Effort | None, as_json: bool) -> None:
    """Say on stderr, unless the JSON output does, what is wrong with the answer and what it took."""
    where = "" if alone else f"line {line.number}: "
    if not answer.valid and not as_json:
        named = [str(conflict) for conflict in answer.conflicts[:3]]
        if len(answer.conflicts) > 3:
            named.append(f"and {len(answer.conflicts) - 3} more clashes")
        if effort is None:
            hint = "try more --steps or --votes, or neither of them"
        elif answer.at_limit:
            hint = f"try a higher limit, such as --effort {2 * effort.starts}x{2 * effort.steps}"
        else:
            hint = "the answer was sure and wrong: try --prefer-valid or a higher --sure"
        say(f"akorn: {where}not solved; in the best attempt {'; '.join(named)}; {hint}")
    if alone and effort is not None and not as_json:
        steps = f"{answer.effort:,} steps"
        took = f"1 start, {steps}" if answer.votes == 1 else f"{answer.votes} starts, {steps} in all"
        say(f"effort: {took} ({'the limit was reached' if answer.at_limit else f'limit: {_limit(effort)}'})")


def _limit(effort: Effort) -> str:
    return f"{effort.starts} start{'s' * (effort.starts > 1)} of {effort.steps:,} steps"


def _replayed(solver: Solver, line: BoardLine, answer: Answer) -> Iterator[Frame]:
    """The steps of the winning start."""
    assert line.puzzle is not None
    return solver.watch(
        line.puzzle, answer.steps, answer.seed, answer.start,
        symmetries=answer.symmetries, round_steps=answer.round_steps,
    )  # fmt: skip


def _watch(solver: Solver, line: BoardLine, answer: Answer) -> None:
    """Show the digits of the winning start step by step, in place."""
    import time

    from rich.console import Console
    from rich.live import Live

    from akorn.sudoku.terminal import BoardView

    assert line.puzzle is not None
    console = Console()
    with Live(console=console, transient=True, auto_refresh=False) as live:
        summed: float | None = 0.0  # ends as the value that the vote compared
        for frame in _replayed(solver, line, answer):
            title = f"step {frame.step} of {answer.steps}"
            summed = None if frame.energy is None or summed is None else summed + frame.energy
            live.update(BoardView(frame.digits, line.puzzle, summed, title, ENERGY), refresh=True)
            time.sleep(min(0.05, 4.0 / answer.steps) if console.is_terminal else 0)


def _animate(solver: Solver, line: BoardLine, answer: Answer, options: Options) -> None:
    """Write the winning start as a GIF."""
    import numpy as np

    from akorn.sudoku.terminal import animate

    assert options.gif is not None
    assert line.puzzle is not None
    frames = list(_replayed(solver, line, answer))
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

    def __init__(self, effort: Effort | None = None) -> None:
        self.seen = self.unreadable = self.known = self.correct = self.answered = self.valid = 0
        self.ambiguous = 0  # boards without a solution, or with several
        self.drawn = False  # whether the animation has been written
        self.effort = effort
        self.used = self.at_limit = 0  # the steps of all starts, and the boards that reached the limit

    def refuse(self, line: BoardLine) -> None:
        """Count a board without an answer."""
        self.unreadable += line.puzzle is None
        self.ambiguous += line.puzzle is not None

    def add(self, line: BoardLine, answer: Answer) -> None:
        """Count an answer."""
        self.answered += 1
        self.valid += answer.valid
        self.used += answer.effort
        self.at_limit += answer.at_limit
        if line.solution is not None:
            self.known += 1
            self.correct += _correct(line, answer)

    def tell(self) -> None:
        """Sum up."""
        if self.answered > 1:
            say(f"valid: {self.valid} of {self.answered} boards")
        if self.known:
            say(f"board accuracy: {100 * self.correct / self.known:.2f} % ({self.correct} of {self.known})")
        if self.effort is not None and self.answered > 1:
            mean = f"{self.used / self.answered:,.0f} steps per board on average, over all its starts"
            some = f"{self.at_limit} of {self.answered} boards" if self.at_limit else "no board"
            say(f"effort: {mean}; {some} reached the limit of {_limit(self.effort)}")
        if self.unreadable:
            say(f"akorn: {self.unreadable} board{'s' * (self.unreadable > 1)} could not be read")
        if self.ambiguous and self.seen > 1:
            many = self.ambiguous > 1
            say(f"akorn: {self.ambiguous} board{'s' * many} {'do' if many else 'does'} not have exactly one solution")
