"""Which records of evaluations fill a cell of robustness's tables, and what else they say. Torch-free."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Metric, Row, Table, chosen
from akorn.robustness.attack_suite import ATTACKS
from akorn.robustness.corruptions.frost_pictures import PROCEDURAL
from akorn.robustness.protocol import ATTACKED, CHECKED, EPSILON
from akorn.robustness.recipes import DataConfig, trained_on
from results.pages.corrections import MARKED, corrected
from results.pages.trials import epochs, is_trial, settings

Fits = Callable[[Record], bool]
Protocol = Literal["first", "common"]
"""The protocol by which a model was trained: see `fits`."""

PICTURES = 10_000
SOURCE = "cifar10_resnet18"
_TRAINED = 50_000  # pictures of an epoch
_CONTINUED = ("cifar10_akorn_conv_falling_rate", "cifar10_resnet18_crop_last_falling_rate")
"""Recipes that continue another recipe's model, also on CIFAR-10: that does not count as pre-training."""


_FREE = ("data.path", "init", "channels_last", "train.precision")
"""Settings that make no trial. A table's note names the models that were trained in another precision."""
_CHOSEN = ("train.optimiser.learning_rate", "train.schedule.name")
"""What the trials of the common protocol choose."""
COMMON_PROTOCOL = tomllib.loads((Path(__file__).parents[1] / "common_protocol.toml").read_text(encoding="utf-8"))


def operations(record: Record) -> str:
    """With how many AugMix operations an evaluated model was trained; the first records, with nine, do not say so."""
    training = record.get("extra", {}).get("training") or {}
    return str({**DataConfig.absent, **training.get("data", {})}["augmix_operations"])


def by_protocol(record: Record, protocol: Protocol, gamma: float | None = None) -> bool:
    """Say whether an evaluated model was trained as its recipe says and by the protocol; see `fits`.

    gamma: it was trained with this step size γ in place of its recipe's.
    """
    training = record.get("extra", {}).get("training") or {}
    if gamma is not None and training.get("overrides", {}).get("model.gamma") != gamma:
        return False
    if protocol == "first" and not corrected(record):
        return operations(record) == "nine" and not is_trial(record, *_FREE)
    if protocol == "first":
        common = training.get("overrides", {}).get("train.epochs") == COMMON_PROTOCOL["final_epochs"]
        return operations(record) == "thirteen" and not common and not is_trial(record, *_FREE)
    return (
        operations(record) == "thirteen"
        and trained_on(training) == "all"
        and training.get("overrides", {}).get("train.epochs") == COMMON_PROTOCOL["final_epochs"]
        and not is_trial(record, *_FREE, *_CHOSEN, *(() if gamma is None else ("model.gamma",)))
    )


def fits(
    name: str, pretrained: bool, protocol: Protocol = "first", gamma: float | None = None, **wanted: float
) -> Fits:
    """Evaluations of a recipe's model on the test set, with or without pre-training, and with these settings.

    protocol: "first", the paper's rates and epochs, before the corrections with nine operations of AugMix and after
    them with thirteen; or "common", the final runs of common_protocol.toml, with thirteen. gamma: trained by the common
    protocol with this γ in place of the recipe's. Numbers may differ in the fourth digit: 0.0314 is 8/255. Models of
    recipes in _CONTINUED do not count as pre-trained, though the first records of them say so.
    """

    def fit(record: Record) -> bool:
        config = record["config"]
        return (
            record["kind"] == "eval"
            and record["name"] == name
            and (bool(config.get("pretrained")) and name not in _CONTINUED) == pretrained
            and config.get("data_split") == "test"
            and by_protocol(record, protocol, gamma)
            and all(math.isclose(config.get(key, math.nan), value, rel_tol=1e-3) for key, value in wanted.items())
        )

    return fit


def at_least(fit: Fits, **least: float) -> Fits:
    """The records with at least these settings, whose gradients were not blurred by 16 bits."""

    def hard(record: Record) -> bool:
        config = record["config"]
        return (
            fit(record)
            and config.get("precision") != "bf16"
            and all(config.get(key, 0) >= value for key, value in least.items())
        )

    return hard


def attacked(
    name: str,
    pretrained: bool,
    attack: str,
    starts: int = 1,
    protocol: Protocol = "first",
    gamma: float | None = None,
) -> Fits:
    """Evaluations under a proper attack: 8/255, enough pictures, and the budget that the attack needs.

    attack: the metric's name. starts: of the answers; AutoAttack and Square ask a single start at a time, whatever the
    other scores are averaged over.
    """
    known = ATTACKS.find(attack.replace("_", "-"))
    asked = {} if known.one_start else {"starts": starts}
    strong = at_least(fits(name, pretrained, protocol, gamma, epsilon=EPSILON, **asked), attacked=ATTACKED)

    def hard(record: Record) -> bool:
        config = record["config"]
        budget = known.budget(bool(config.get("random_start")))
        return (
            strong(record)
            and all(config.get(key, 0) >= value for key, value in budget.items())
            and (not known.transferred or config.get("source") == SOURCE)
        )

    return hard


def corrupted(name: str, pretrained: bool, starts: int = 1, protocol: Protocol = "first") -> Fits:
    """Evaluations on all pictures of our own corruptions, at severity 5.

    Their frost is a procedural texture for models from before the corrections, and has the published photographs
    for others.
    """
    fit = fits(name, pretrained, protocol, starts=starts, severity=5, corrupted_pictures=PICTURES)

    def ours(record: Record) -> bool:
        config = record["config"]
        texture = config.get("frost", PROCEDURAL) == PROCEDURAL
        return config.get("corruptions_by") == "akorn" and texture == (protocol == "first" and not corrected(record))

    return lambda record: fit(record) and ours(record)


def checked(name: str) -> Fits:
    """Evaluations with the checks of a defence, at 8/255 on 200 pictures, of answers from a single start."""
    return at_least(fits(name, False, starts=1, check_epsilon=EPSILON), checked=CHECKED)


def of_corruption(corruption: str, what: str) -> Metric:
    """What a record has for a single corruption: its "accuracy" or "ece"."""

    def look(record: Record) -> Any:
        return record.get("extra", {}).get("corrupted", {}).get(corruption, {}).get(what)

    return look


def of_noise(kind: str) -> Metric:
    """Accuracy under "sign" noise, ±ε on every value, or under "uniform" noise.

    In the first records, which do not name the kind, `noise` is uniform and `noise_sign` is not.
    """

    def look(record: Record) -> Any:
        default = record["config"].get("noise_kind", "uniform")
        return record["metrics"].get("noise" if kind == default else f"noise_{kind}")

    return look


def of_check(check: str, figures: bool) -> Metric:
    """A check's verdict in a record, or its figures, in words."""

    def look(record: Record) -> str | None:
        for found in record.get("extra", {}).get("checks", ()):
            if found["name"] == check and figures:
                return ", ".join(f"{label}: {value:.1f}" for label, value in found["accuracies"].items()) or None
            if found["name"] == check:
                return "holds" if found["passed"] else f"**fails**: {found['reason']}"
        return None

    return look


def trained_for(record: Record) -> float:
    """For how many epochs an evaluated model was trained, by its steps; 0 if the record does not say."""
    return round(epochs(record, _TRAINED) or 0.0, 1)


def trained_in(record: Record) -> str:
    """The precision of an evaluated model's training: "bf16", "tf32" and so on, "" if the record does not say."""
    return str((record.get("extra", {}).get("training") or {}).get("precision", ""))


def cell(metric: Metric, match: Fits, paper: str = "–") -> Cell:
    """A cell for which, of several models of one seed, the one that was trained longest counts."""
    return Cell(metric, match, paper, trained_for, corrected)


def table(
    title: str,
    headings: tuple[str, ...],
    rows: tuple[Row, ...],
    note: str,
    *,
    models_are_rows: bool = True,
    beside: str = "paper",
    always: bool = False,
) -> Table:
    """A table whose note says which models were trained for fewer epochs or in another precision than their recipes."""
    told = partial(_note, note, headings, rows, models_are_rows)
    return Table(title, headings, rows, told, beside=beside, marked=MARKED, always=always)


def _note(
    text: str, headings: tuple[str, ...], rows: tuple[Row, ...], models_are_rows: bool, records: Sequence[Record]
) -> str:
    found: dict[str, dict[float, list[str]]] = {}  # by recipe and epochs, which figures
    within: dict[str, dict[str, list[str]]] = {}  # by recipe and precision
    for row in rows:
        for heading, each in zip(headings, row.cells, strict=True):
            for record in chosen(records, each):
                label = heading if models_are_rows else row.label
                _noted(found.setdefault(record["name"], {}), trained_for(record), label)
                _noted(within.setdefault(record["name"], {}), trained_in(record), label)
    fewer = [
        f"`{name}` {f'{count:g}' if count else 'unknown'} of {whole}"
        + (f" ({', '.join(labels)})" if len(by) > 1 else "")
        for name, by in found.items()
        for whole in [settings(name).get("train.epochs", 0)]
        for count, labels in sorted(by.items())
        if count < whole
    ]
    other = [
        f"`{name}` in {precision}" + (f" ({', '.join(labels)})" if len(by) > 1 else "")
        for name, by in within.items()
        for precision, labels in sorted(by.items())
        if precision and precision != settings(name).get("train.precision")
    ]
    text += " Of several models of one seed, the one trained longest counts."
    text += f" **Trained in another precision than the recipe's: {'; '.join(other)}.**" if other else ""
    return text + (f" **Trained for fewer epochs than the recipe has: {'; '.join(fewer)}.**" if fewer else "")


def _noted(by: dict[Any, list[str]], key: Any, label: str) -> None:
    labels = by.setdefault(key, [])
    if label not in labels:
        labels.append(label)
