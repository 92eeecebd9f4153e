"""What 8 bits cost: a model with its own weights and with them rounded to int8, on the same data from the same starts.

    python benchmarks/stored_weights.py FOLDER --data PATH [--count N] [--record results]

FOLDER holds a model with weights in 16 or 32 bits. For models that ship in 8 bits, git's history has those in 16. PATH
is CIFAR-10's folder for a classifier, which is scored on the validation pictures, and a CSV file of boards for Sudoku.
A model of objects needs none: pictures of its own kind are generated. The standard error is that of the difference,
over the samples, each of which counts with its mean over the starts. Chaotic states differ after any rounding, so the
agreement of 8 with 16 bits is shown beside that of two starts of the same model.
"""

import argparse
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.hub import HubModel, read_config, read_folder
from akorn.ledger import write_record
from akorn.models import load_model
from akorn.objects import generate
from akorn.objects.evaluate import evaluate as evaluate_objects
from akorn.robustness.calibration import expected_calibration_error
from akorn.robustness.data import load_split
from akorn.robustness.evaluate import EvalSettings
from akorn.robustness.evaluate import score as score_pictures
from akorn.stored import from_stored, to_stored
from akorn.sudoku.board_files import load_csv
from akorn.sudoku.evaluate import evaluate as evaluate_boards

Floats = NDArray[np.float64]
COUNTS = {"robustness": 1000, "sudoku": 300, "objects": 320}


@dataclass
class Asked:
    """What a model answered from one start."""

    scores: dict[str, Floats]
    """Name → scores [N] in percent; NaN where a sample has no score."""
    answers: NDArray[Any] | None = None
    """[N, ...], to see how often two sets of answers agree."""
    probabilities: torch.Tensor | None = None
    """[N, classes], for a classifier."""


Ask = Callable[[HubModel, int], Asked]
"""(model, seed of the start) → what it answers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", choices=("valid", "test"), default="valid", help="which of CIFAR-10's pictures")
    parser.add_argument("--count", type=int, help="how many pictures or boards")
    parser.add_argument("--starts", type=int, default=2, help="how many starts, at least 2")
    parser.add_argument("--steps", type=int, default=32, help="Kuramoto steps T, for Sudoku")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    began = time.monotonic()
    if words.starts < 2:
        raise AkornError(f"--starts must be at least 2, got {words.starts}")
    folder: Path = words.folder
    name = folder.resolve().name
    stored = read_folder(folder)
    before, after = load_model(folder), load_model(folder)
    packed = to_stored(before.stored_state(), "int8")
    after.load_state_dict({**after.state_dict(), **from_stored(packed, folder)})
    rounded = errors(before, after)
    if not rounded:
        raise AkornError(
            f"{folder}: its weights are in 8 bits already, or too small for them: there is nothing to compare"
        )
    count = words.count if words.count is not None else COUNTS[stored.task]
    ask, truth, fingerprint = asking(stored.task, name, count, words)
    answers = {
        bits: [ask(model, seed) for seed in range(words.starts)]
        for bits, model in (("16 bits", before), ("8 bits", after))
    }
    found = compared(answers["16 bits"], answers["8 bits"])
    if truth is not None:
        for bits, asked in answers.items():
            found |= calibrated(asked, truth, bits)
    for metric, value in found.items():
        print(f"{value:8.3f}  {metric}", flush=True)
    if words.record is not None:
        settings = {"model": name, "count": count, "starts": words.starts, "dtype": "int8"}
        boards = {"steps": words.steps, "file": words.data.name} if stored.task == "sudoku" else {"split": words.split}
        path = write_record(
            "bench", f"stored-weights-{name}", found, config=settings | boards, seed=0, data_fingerprint=fingerprint,
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
            extra={"weights_sha256": read_config(folder).sha256, "weights": rounded, "bytes": sizes(packed, before)},
        )  # fmt: skip
        print(f"recorded in {path}")


def asking(task: str, name: str, count: int, words: argparse.Namespace) -> tuple[Ask, torch.Tensor | None, str]:
    """How to ask a model of a task, the labels if the pictures have some, and the data's fingerprint."""
    if task != "objects" and words.data is None:
        raise AkornError("--data is needed: CIFAR-10's folder, or a file of boards")
    if task == "robustness":
        pictures = load_split(words.data, words.split)
        pictures = pictures.take(torch.linspace(0, len(pictures) - 1, count).long())

        def classify(model: HubModel, seed: int) -> Asked:
            found = score_pictures(model, pictures.images, pictures.labels, EvalSettings(seed=seed, batch_size=100))
            chance = found.probabilities
            right = chance[torch.arange(count), pictures.labels]
            scores = {"accuracy": 100 * found.correct, "confidence": 100 * chance.amax(1), "log loss": -right.log()}
            return Asked(
                {key: value.double().numpy() for key, value in scores.items()}, chance.argmax(1).numpy(), chance
            )

        return classify, pictures.labels, pictures.fingerprint()
    if task == "sudoku":
        boards, solutions = load_csv(words.data)
        chosen = np.linspace(0, len(boards) - 1, count).astype(int)
        boards, solutions = boards[chosen], solutions[chosen]

        def solve(model: HubModel, seed: int) -> Asked:
            found = evaluate_boards(model, boards, solutions, steps=words.steps, seed=seed)  # type: ignore[arg-type]
            return Asked({"board accuracy": 100.0 * found.solved}, found.answers)

        return solve, None, hashlib.sha256(boards.tobytes()).hexdigest()
    scenes = generate(name, words.split, count)

    def segment(model: HubModel, seed: int) -> Asked:
        found = evaluate_objects(model, scenes, seed=seed)  # type: ignore[arg-type]
        return Asked({"FG-ARI": found.per_picture["fg_ari"], "MBO": found.per_picture["mbo"]})

    return segment, None, scenes.fingerprint()


def compared(before: list[Asked], after: list[Asked]) -> dict[str, float]:
    """The scores of both models, their difference and its standard error, and how often answers agree."""
    found: dict[str, float] = {}
    for name in before[0].scores:
        one, other = (np.mean([asked.scores[name] for asked in each], 0) for each in (before, after))
        found |= {f"{name}, 16 bits": float(np.nanmean(one)), f"{name}, 8 bits": float(np.nanmean(other))}
        starts = before[1].scores[name] - before[0].scores[name]
        for what, change in (("8 bits less 16", other - one), ("second start less the first, 16 bits", starts)):
            found[f"{name}, {what}"], found[f"{name}, {what}, standard error"] = paired(change)
    if before[0].answers is not None:
        pairs = list(zip(before, after, strict=True))
        found["agreement, 16 and 8 bits"] = float(np.mean([agreement(*pair) for pair in pairs]))
        found["agreement, two starts in 16 bits"] = agreement(before[0], before[1])
    return found


def paired(difference: Floats) -> tuple[float, float]:
    """Mean and standard error."""
    values = difference[~np.isnan(difference)]
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


def agreement(one: Asked, other: Asked) -> float:
    """How often two sets of answers are the same, in percent of the samples."""
    assert one.answers is not None
    same = one.answers == other.answers
    return 100.0 * float(same.reshape(len(same), -1).all(1).mean())


def calibrated(asked: list[Asked], labels: torch.Tensor, bits: str) -> dict[str, float]:
    """A classifier's calibration error from one start, and accuracy and error of the mean over the starts."""
    each = [one.probabilities for one in asked if one.probabilities is not None]
    mean = torch.stack(each).mean(0)
    return {
        f"ECE, {bits}": float(np.mean([expected_calibration_error(chance, labels) for chance in each])),
        f"accuracy, mean over starts, {bits}": 100.0 * float((mean.argmax(1) == labels).double().mean()),
        f"ECE, mean over starts, {bits}": expected_calibration_error(mean, labels),
    }


def errors(before: HubModel, after: HubModel) -> dict[str, float]:
    """How far rounding has moved each tensor, in percent of its norm."""
    now = after.state_dict()
    changed = {name: (tensor, now[name] - tensor) for name, tensor in before.state_dict().items()}
    return {
        name: round(100 * float(error.norm() / tensor.norm()), 3)
        for name, (tensor, error) in changed.items()
        if bool(error.any())
    }


def sizes(packed: dict[str, torch.Tensor], model: HubModel) -> dict[str, int]:
    """Bytes of all tensors, in 16 and in 8 bits."""
    halves = to_stored(model.stored_state(), "float16")
    return {key: sum(t.nbytes for t in each.values()) for key, each in (("16 bits", halves), ("8 bits", packed))}


if __name__ == "__main__":
    main()
