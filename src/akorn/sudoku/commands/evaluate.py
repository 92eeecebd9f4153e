"""`akorn eval` for Sudoku models: board accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from akorn.cli.common import LEDGER, CommonOptions, check_ledger, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import make_folder

if TYPE_CHECKING:
    from akorn.sudoku.board_files import Boards
    from akorn.sudoku.evaluate import Evaluation
    from akorn.sudoku.net import SudokuNet


@dataclass(frozen=True)
class Options(CommonOptions):
    """Score a Sudoku model: the share of boards it solves, with any number of steps and votes.

    Models of other tasks have other options: `akorn eval tetrominoes --help`, `akorn eval cifar10-conv --help`.
    """

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WEIGHTS|NAME")] = "sudoku"
    """Shipped weights by name (akorn models), or a model's folder."""
    data: Path | None = None
    """A CSV file of `puzzle,solution` lines, or a SATNet folder. By default 500 boards are generated."""
    limit: int | None = None
    """The largest number of boards to score, spread evenly over the data."""
    steps: int | None = None
    """Number of Kuramoto steps T. The default is that of training, 16 for the shipped models, as in the paper's
    comparison of models; `akorn solve` uses 64, which solves more boards."""
    votes: int = 1
    """Number of random starts K per board. The default, one start, scores the model without a vote; `akorn solve`
    uses 8."""
    vote: Literal["sum", "last", "majority", "average", "first"] | None = None
    """How the answer is chosen among the starts: lowest energy, summed over the steps (sum) or at the last one (last),
    most frequent digits, mean probabilities, or the first start. By default sum, or average if there is no energy."""
    energy: Literal["paper", "published"] = "paper"
    """paper is the energy of Eq. 3; published is that of the published code, which lacks the factor ½."""
    early_exit: float | None = None
    """Stop a start early once its digits no longer change and its energy changes by at most this fraction between
    blocks of steps, for example 0.01. By default all starts run T steps."""
    chunk: int | None = None
    """Number of starts that run at once; by default chosen for the device."""
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    """auto is bf16 on CUDA and float32 elsewhere."""
    plots: Path | None = None
    """A folder for plots: energies over steps, energies by correctness, accuracy against the number of votes."""
    against_steps: tuple[int, ...] = ()
    """More numbers of steps, for a plot of accuracy against T (one start each)."""
    results: Path | None = LEDGER
    """Folder for the record of the evaluation; None for no record."""


def run(options: Options) -> int:
    """Evaluate, and print the scores."""
    if options.limit is not None and options.limit < 1:
        raise AkornError(f"--limit must be at least 1, got {options.limit}")
    if options.against_steps and options.plots is None:
        raise AkornError("--against-steps needs --plots, the folder for its plot")
    if options.plots is not None:
        make_folder(options.plots)
    options = replace(options, results=check_ledger(options.results))
    import numpy as np

    from akorn.models import load_model, training_of
    from akorn.runtime.devices import pick_device
    from akorn.runtime.processes import is_main
    from akorn.sudoku.data import SudokuData, load
    from akorn.sudoku.evaluate import evaluate
    from akorn.sudoku.net import SudokuNet

    model = load_model(options.model)
    if not isinstance(model, SudokuNet):
        raise AkornError(f"{options.model}: this is not a Sudoku model but one for {model.task}")
    model.to(pick_device(options.device))
    training_of(options.model)  # goes into the record; a damaged file should fail before any work
    puzzles, solutions = load(options.data, count=500, givens=(31, 42), seed=1_000_003)
    if options.limit is not None and options.limit < len(puzzles):
        chosen = np.linspace(0, len(puzzles) - 1, options.limit).round().astype(int)
        puzzles, solutions = puzzles[chosen], solutions[chosen]
    try:
        found = evaluate(
            model, puzzles, solutions, steps=options.steps, votes=options.votes, vote=options.vote,
            seed=options.seed, chunk=options.chunk, precision=options.precision, energy=options.energy,
            early_exit=options.early_exit, samples=options.plots is not None, progress=True,
        )  # fmt: skip
        by_steps = {
            steps: evaluate(
                model, puzzles, solutions, steps=steps, seed=options.seed, chunk=options.chunk,
                precision=options.precision,
            ).board_accuracy
            for steps in options.against_steps
        }  # fmt: skip
    except AkornError:
        raise
    except ValueError as error:
        raise AkornError(str(error)) from error
    if not is_main():
        return 0
    if options.results is not None:
        fingerprint = SudokuData(puzzles, solutions).fingerprint()
        say(f"recorded in {_record(options, found, fingerprint, str(model.embedding.weight.device))}")
    if options.plots is not None:
        _plot(options, model, found, puzzles, by_steps)
    if options.json:
        print_json(found.as_json())
    else:
        _print(found)
    return 0


def _record(options: Options, found: Evaluation, fingerprint: str, device: str) -> Path:
    """Write one record, with the recipe's name and the training seed if the model's folder has them."""
    from akorn.ledger import record_evaluation
    from akorn.models import training_of

    assert options.results is not None
    config = {
        "steps": found.steps, "votes": found.votes, "vote": found.vote, "energy": options.energy,
        "precision": options.precision, "early_exit": options.early_exit,
        "boards": len(found.answers), "start_seed": options.seed,
        "data": options.data.stem if options.data is not None else "generated",
    }  # fmt: skip
    metrics = {"board_accuracy": found.board_accuracy, "seconds": found.seconds, "mean_steps": found.mean_steps}
    metrics |= found.accuracies
    if found.samples is not None and found.energy is not None and not math.isnan(found.samples.auroc()):
        metrics["auroc"] = found.samples.auroc()
    return record_evaluation(
        options.model, metrics, training=training_of(options.model), config=config, data_fingerprint=fingerprint,
        wall_time=found.seconds, device=device, folder=options.results,
        extra={name: found.as_json()[name] for name in ("by_givens", "by_difficulty")},
    )  # fmt: skip


def _plot(options: Options, model: SudokuNet, found: Evaluation, puzzles: Boards, by_steps: dict[int, float]) -> None:
    from akorn.sudoku import plots
    from akorn.sudoku.evaluate import energy_over_steps

    assert options.plots is not None
    name = options.data.stem if options.data is not None else "generated boards"
    written = []
    if found.samples is not None and model.has_energy:
        few = puzzles[:: max(1, len(puzzles) // 64)]
        curves = {name: energy_over_steps(model, few, found.steps, seed=options.seed, energy=options.energy)}
        written.append(
            plots.plot_energy_over_steps(curves, options.plots / "energy.png", trained_steps=model.config.steps)
        )
        sets = {name: (found.samples.energy(), found.samples.correct)}
        written.append(
            plots.plot_energy_histogram(sets, options.plots / "histogram.png", name="energy summed over steps")
        )
        counts = [2**k for k in range(found.votes.bit_length()) if 2**k <= found.votes]
        by_votes = {kind: found.samples.accuracy_against_votes(counts, kind) for kind in ("sum", "last")}
        written.append(plots.plot_accuracy(by_votes, options.plots / "votes.png", against="votes K"))
        say(f"AUROC of low energy for correct answers, within each board: {found.samples.auroc():.3f}")
    if by_steps:
        written.append(plots.plot_accuracy({name: by_steps}, options.plots / "steps.png"))
    for path in written:
        say(f"wrote {path}")


def _print(found: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for first, groups in (("givens", found.by_givens), ("difficulty", found.by_difficulty)):
        table = Table(box=None, header_style="bold")
        for heading in (first, "boards", "accuracy %"):
            table.add_column(heading, justify="right")
        for name, (accuracy, boards) in groups.items():
            table.add_row(str(name), str(boards), f"{accuracy:.1f}")
        console.print(table)
    votes = ", ".join(f"{name} {value:.2f}" for name, value in found.accuracies.items())
    starts = "1 vote" if found.votes == 1 else f"{found.votes} votes"
    console.print(f"board accuracy {found.board_accuracy:.2f} % (T = {found.steps}, {starts}, {found.vote})")
    console.print(f"by vote: {votes}; {found.seconds:.1f} s")
