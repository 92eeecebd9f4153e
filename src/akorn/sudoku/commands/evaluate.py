"""`akorn eval` for Sudoku models: board accuracy."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import LEDGER, CommonOptions, check_ledger, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import make_folder
from akorn.sudoku.commands.solve import STEPS, VOTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from akorn.sudoku.board_files import Boards
    from akorn.sudoku.effort import Effort
    from akorn.sudoku.evaluate import Evaluation
    from akorn.sudoku.net import SudokuNet
    from akorn.sudoku.samples import SampleVote


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
    comparison of models; `akorn solve` takes as many as a board needs, up to a limit."""
    votes: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 1)")] = None
    """Number of random starts K per board. The default, one start, scores the model without a vote."""
    effort: Annotated[str | None, tyro.conf.arg(metavar="STARTSxSTEPS", help_behavior_hint="(default: off)")] = None
    """Adaptive effort, as in `akorn solve`, up to this limit, such as 64x2048: boards whose answers are not yet sure
    get more steps and more starts, and the most confident answer counts. It takes the place of --steps and --votes."""
    sure: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 0.99)")] = None
    """With --effort: the confidence from which an answer is sure."""
    stop: Literal["confidence", "valid"] = "confidence"
    """With --effort: what ends it for a board. confidence: a sure answer. valid: an answer that follows the rules of
    Sudoku, however sure it is; such figures do not compare with those of others, and the record says so."""
    symmetries: bool = True
    """With --effort: let every start but the first see the board under a random symmetry."""
    as_solve: bool = False
    """Score what `akorn solve` does: adaptive effort up to its limit; with --steps or --votes, that many (64 and 8 by
    default) and the most confident answer."""
    vote: Literal["sum", "last", "confidence", "majority", "average", "first"] | None = None
    """How the answer is chosen among the starts: lowest energy, summed over the steps (sum) or at the last one (last);
    highest confidence (the mean of the highest probability over the blanks); most frequent digits (majority); mean
    probabilities (average); or the first start. By default sum, or average for a model without energy."""
    energy: Literal["paper", "published"] = "paper"
    """paper is the energy of Eq. 3; published is that of the published code, which lacks the factor ½."""
    chunk: int | None = None
    """Number of starts that run at once; by default chosen for the device."""
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    """auto is bf16 on CUDA and on CPUs that are faster with it, otherwise float32."""
    plots: Path | None = None
    """A folder for plots: energies over steps, energies by correctness, accuracy against the number of votes."""
    against_steps: tuple[int, ...] = ()
    """More numbers of steps, for a plot of accuracy against T (one start each)."""
    against_models: tuple[str, ...] = ()
    """Other models, for example one without Ω, whose energies are shown beside this model's in the histogram."""
    results: Path | None = LEDGER
    """Folder for the record of the evaluation; None for no record."""


def run(options: Options) -> int:
    """Evaluate, and print the scores."""
    if options.limit is not None and options.limit < 1:
        raise AkornError(f"--limit must be at least 1, got {options.limit}")
    if options.against_steps and options.plots is None:
        raise AkornError("--against-steps needs --plots, the folder for its plot")
    if options.against_models and options.plots is None:
        raise AkornError("--against-models needs --plots, the folder for the histogram")
    if options.plots is not None:
        make_folder(options.plots)
    _check_effort(options)
    plain = options.steps is None and options.votes is None and not options.as_solve and options.effort is None
    if options.as_solve and options.vote is None:
        options = replace(options, vote="confidence")
    options = replace(options, results=check_ledger(options.results))
    import numpy as np

    from akorn.models import training_of
    from akorn.runtime.processes import is_main
    from akorn.sudoku.commands.tables import print_evaluation
    from akorn.sudoku.data import SudokuData, load
    from akorn.sudoku.difficulty import count_nodes
    from akorn.sudoku.evaluate import evaluate

    model = _load(options.model, options.device)
    others = {name: _load(name, options.device) for name in options.against_models}
    if silent := [name for name, each in {options.model: model, **others}.items() if others and not each.has_energy]:
        raise AkornError(f"{silent[0]}: has no energy, so there is no histogram for --against-models")
    effort = _effort(options, model.device.type)
    steps, votes = _amount(options) if effort is None else (None, 1)
    training_of(options.model)  # goes into the record; a damaged file should fail before any work
    puzzles, solutions = load(options.data, count=500, givens=(31, 42), seed=1_000_003)
    if options.limit is not None and options.limit < len(puzzles):
        chosen = np.linspace(0, len(puzzles) - 1, options.limit).round().astype(int)
        puzzles, solutions = puzzles[chosen], solutions[chosen]
    try:
        found = evaluate(
            model, puzzles, solutions, steps=steps, votes=votes, vote=options.vote,
            seed=options.seed, chunk=options.chunk, precision=options.precision, energy=options.energy,
            samples=effort is None and (votes > 1 or options.plots is not None), effort=effort, progress=True,
        )  # fmt: skip
        by_steps = {
            steps: evaluate(
                model, puzzles, solutions, steps=steps, seed=options.seed, chunk=options.chunk,
                precision=options.precision,
            ).board_accuracy
            for steps in options.against_steps
        }  # fmt: skip
        beside = {
            name: evaluate(
                each, puzzles, solutions, steps=steps, votes=votes, seed=options.seed,
                chunk=options.chunk, precision=options.precision, energy=options.energy, samples=True, progress=True,
            )
            for name, each in others.items()
        }  # fmt: skip
    except AkornError:
        raise
    except ValueError as error:
        raise AkornError(str(error)) from error
    if not is_main():
        return 0
    nodes = count_nodes(puzzles, os.cpu_count() or 1)
    if options.results is not None:
        fingerprint = SudokuData(puzzles, solutions).fingerprint()
        say(f"recorded in {_record(options, found, nodes, fingerprint, str(model.embedding.weight.device))}")
    if options.plots is not None:
        _plot(options, model, found, puzzles, nodes, by_steps, beside)
    if options.json:
        print_json(found.as_json() | _more(found, nodes))
    else:
        print_evaluation(found, nodes)
    if plain and model.has_energy and found.board_accuracy < 100:
        say("akorn solve takes more steps and starts if a board needs them; --as-solve scores that")
    return 0


def _check_effort(options: Options) -> None:
    """Refuse contradictory options, before torch is imported."""
    fixed = options.steps is not None or options.votes is not None
    if options.stop == "valid" and options.sure is not None:
        raise AkornError("--stop valid ends the effort with a valid answer, however sure it is: leave out --sure")
    if options.effort is None:
        changed = options.sure is not None or options.stop != "confidence" or not options.symmetries
        if changed and (fixed or not options.as_solve):
            raise AkornError("--sure, --stop and --no-symmetries belong to --effort, such as --effort 64x2048")
        return
    if fixed:
        raise AkornError("--effort chooses steps and votes by itself: leave out --steps and --votes")
    if options.vote not in (None, "confidence"):
        raise AkornError(f"--effort goes by confidence, got --vote {options.vote}")
    _effort(options, "cpu")


def _effort(options: Options, device: str) -> Effort | None:
    """The adaptive effort to use on a device of this type; None for fixed steps and votes."""
    from akorn.sudoku.effort import SURE, Effort, usual

    sure = SURE if options.sure is None else options.sure
    if options.effort is not None:
        return Effort.parse(options.effort, sure, options.stop, options.symmetries)
    if options.as_solve and options.steps is None and options.votes is None:
        return replace(usual(device), sure=sure, stop=options.stop, symmetries=options.symmetries)
    return None


def _amount(options: Options) -> tuple[int | None, int]:
    """The steps and votes to use; None for the steps of training."""
    steps, votes = (STEPS, VOTES) if options.as_solve else (None, 1)
    return (
        steps if options.steps is None else options.steps,
        votes if options.votes is None else options.votes,
    )


_AUROC: dict[SampleVote, str] = {
    "sum": "auroc",
    "last": "auroc_last",
    "confidence": "auroc_confidence",
    "both": "auroc_both",
}
"""The names in records of the area under the ROC curve, by vote."""


def _more(found: Evaluation, nodes: NDArray[np.int64]) -> dict[str, Any]:
    """Accuracy by search nodes, and all votes over K, as JSON values."""
    import numpy as np

    from akorn.sudoku.difficulty import by_nodes

    groups = by_nodes(nodes, found.solved)
    more: dict[str, Any] = {
        "median_nodes": float(np.median(nodes)),
        "by_nodes": {name: {"accuracy": accuracy, "boards": boards} for name, (accuracy, boards) in groups.items()},
    }
    return more if found.samples is None else more | {"over_votes": found.samples.over_votes()}


def _record(options: Options, found: Evaluation, nodes: NDArray[np.int64], fingerprint: str, device: str) -> Path:
    """Write one record, under the model's name and, where its folder has it, the seed of its training."""
    from akorn.ledger import record_evaluation
    from akorn.models import training_of

    assert options.results is not None
    config: dict[str, Any] = {
        "steps": found.steps, "votes": found.votes, "vote": found.vote, "energy": options.energy,
        "precision": options.precision,
        "boards": len(found.answers), "start_seed": options.seed,
        "data": options.data.stem if options.data is not None else "generated",
    }  # fmt: skip
    metrics = {"board_accuracy": found.board_accuracy, "seconds": found.seconds}
    metrics |= found.accuracies
    extra = {name: value for name, value in found.as_json().items() if name in ("by_givens", "by_difficulty", "effort")}
    if found.spent is not None:
        limit = found.spent.limit
        config |= {"effort": str(limit), "sure": limit.sure, "stop": limit.stop, "symmetries": limit.symmetries}
        metrics["sample_steps_per_board"] = found.spent.mean
    extra |= _more(found, nodes)
    for vote in found.samples.votes if found.samples is not None else ():
        assert found.samples is not None
        area = found.samples.auroc(vote)
        metrics |= {} if math.isnan(area) else {_AUROC[vote]: area}
    return record_evaluation(
        options.model, metrics, training=training_of(options.model), config=config, data_fingerprint=fingerprint,
        wall_time=found.seconds, device=device, folder=options.results,
        extra=extra,
    )  # fmt: skip


def _load(name: str, device: str) -> SudokuNet:
    """A Sudoku model on its device; AkornError for others."""
    from akorn.models import load_model
    from akorn.runtime.devices import pick_device
    from akorn.sudoku.net import SudokuNet

    model = load_model(name)
    if not isinstance(model, SudokuNet):
        raise AkornError(f"{name}: this is not a Sudoku model but one for {model.task}")
    return model.to(pick_device(device))


def _label(name: str) -> str:
    """What a plot calls a model: its name, or that of the run's folder it is in."""
    path = Path(name)
    return path.parent.name if path.name.startswith("model") and path.parent.name else path.name


def _plot(
    options: Options,
    model: SudokuNet,
    found: Evaluation,
    puzzles: Boards,
    nodes: NDArray[np.int64],
    by_steps: dict[int, float],
    beside: dict[str, Evaluation],
) -> None:
    from akorn.sudoku import plots
    from akorn.sudoku.difficulty import by_nodes
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
        sets = {_label(options.model) if beside else name: (found.samples.energy(), found.samples.correct)}
        for other, each in beside.items():
            assert each.samples is not None
            sets[_label(other) if _label(other) not in sets else other] = (each.samples.energy(), each.samples.correct)
        written.append(
            plots.plot_energy_histogram(sets, options.plots / "histogram.png", name="energy summed over steps")
        )
    if found.samples is not None:
        told = found.samples.over_votes()
        names = {"sum": "energy, summed", "last": "last energy", "both": "energy and confidence", "any": "any start"}
        by_votes = {
            names.get(kind, kind): dict(zip(told["votes"], told[kind], strict=True))
            for kind in (*found.samples.votes, "any")
        }
        written.append(plots.plot_accuracy(by_votes, options.plots / "votes.png", against="votes K"))
        areas = ", ".join(f"{kind} {found.samples.auroc(kind):.3f}" for kind in found.samples.votes)
        say(f"AUROC of right against wrong answers to the same board: {areas}")
    groups = {_label(options.model): by_nodes(nodes, found.solved)}
    groups |= {_label(other): by_nodes(nodes, each.solved) for other, each in beside.items()}
    written.append(plots.plot_by_nodes(groups, options.plots / "difficulty.png"))
    if by_steps:
        written.append(plots.plot_accuracy({name: by_steps}, options.plots / "steps.png"))
    for path in written:
        say(f"wrote {path}")
