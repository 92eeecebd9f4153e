"""docs/sceptic.md: the evidence about AKOrN's adversarial robustness on one page. Torch-free.

The words are in `sceptic_words`, the figures come from the records: `{name}` is what `FIGURES` finds under that name.
Where a record contradicts the words, the page is not rendered; where a figure is still missing, the page says what it
waits for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from akorn.errors import AkornError
from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row, Table, chosen, markdown, summary, value
from results.pages import robustness
from results.pages.chaos import EXPONENTS, GRADIENTS, LAYERS
from results.pages.figures import Figure, Found, look
from results.pages.robustness_trials import STEP_SIZES
from results.pages.sceptic_words import BEFORE, GROWTH, IN_16_BITS, TEXT, WAITS

PAGE = "docs/sceptic.md"

_CLEAN, _ATTACKED, _CORRUPTED, _ECE = robustness.SCRATCH.headings
_PAPER, _SHIPPED = "AKOrN-conv, N = 2", "AKOrN-conv, then a falling rate"
_LAST, _FIXED = "AutoAttack, last Kuramoto steps alone", "AutoAttack `standard`, one start fixed"
_SIGN = robustness.RANDOM_NOISE.headings[0]


def _model(row: str, heading: str) -> Figure:
    return Figure(f"{row}: {heading}", robustness.SCRATCH, row, heading)


def _attack(attack: str, model: str) -> Figure:
    return Figure(f"{model}: {attack}", robustness.ATTACKS[0], attack, model)


def _noise(model: str) -> Figure:
    return Figure(f"{model}: noise", robustness.RANDOM_NOISE, model, _SIGN)


def _starts(model: str, count: int, heading: str) -> Figure:
    table = next(table for table in robustness.STARTS if table.title.endswith(f": {model}"))
    return Figure(f"{model}, K = {count}: {heading}", table, f"K = {count}", heading)


_NOISY = "ResNet-18 with noise of 0.2 in tests too"
_BITS = Table(
    "Weights in 16 and in 8 bits",
    ("16 bits", "8 bits"),
    tuple(
        Row(what, tuple(Cell(f"{what}, {bits} bits", {"kind": "bench", "name": "stored-weights-cifar10-conv"})
                        for bits in (16, 8)))
        for what in ("accuracy",)
    ),
)  # fmt: skip

FIGURES = {
    "clean": _model(_PAPER, _CLEAN),
    "rand": _model(_PAPER, _ATTACKED),
    "last": _attack(_LAST, _PAPER),
    "shipped": _model(_SHIPPED, _ATTACKED),
    "shipped_last": _attack(_LAST, _SHIPPED),
    "fixed": _attack(_FIXED, _SHIPPED),
    "start": _attack("that start, no attack", _SHIPPED),
    "undefended": _model("AKOrN-conv, last step", _ATTACKED),
    "undefended_last": _attack(_LAST, "AKOrN-conv, last step"),
    "bits16": Figure("right answers, weights in 16 bits", _BITS, "accuracy", "16 bits"),
    "bits8": Figure("right answers, weights in 8 bits", _BITS, "accuracy", "8 bits"),
    "noise_resnet": _noise("ResNet-18"),
    "corrupted_resnet": _model("ResNet-18", _CORRUPTED),
    **{
        f"{name}{count}": _starts(model, count, heading)
        for model, of in ((_SHIPPED, ""), (_NOISY, "noisy_"))
        for name, heading in (
            (f"{of}noise", "noise of ±64/255"),
            (f"{of}ece", "ECE on corrupted"),
            (f"{of}right", "corrupted"),
        )
        for count in (1, 16)
    },
}

_MODELS = {
    _SHIPPED: "`cifar10-conv`, which ships (400 + 80 epochs)",
    _PAPER: "AKOrN-conv, the paper's 400 epochs, does not ship",
    "AKOrN-conv, last step": "AKOrN-conv, trained with the last step, does not ship",
    "ResNet-18": "ResNet-18",
}
"""Models of the table of attacks, and what they are called here."""


def _supported(of: Mapping[str, Found]) -> bool:
    """Whether the figures support the words."""
    return (
        min(of["rand"].mean, of["shipped"].mean, of["undefended"].mean) > 50
        and max(of["last"].mean, of["shipped_last"].mean, of["undefended_last"].mean) < 25
        and of["fixed"].mean < 5
        and of["start"].mean > 80
        and of["noise1"].mean > 2 * of["noise_resnet"].mean
        and min(of["noise16"].mean - of["noise1"].mean, of["right16"].mean - of["right1"].mean) > 0
        and abs(of["bits16"].mean - of["bits8"].mean) < 1
        and of["ece16"].mean < of["ece1"].mean / 2
        and of["noisy_ece16"].mean < of["noisy_ece1"].mean / 2
    )


def page(records: Sequence[Record]) -> str:
    """Return the page; AkornError if a figure is missing or does not support its words."""
    found = {name: look(records, figure) for name, figure in FIGURES.items()}
    if not _supported(found):
        raise AkornError(f"{PAGE}: the figures no longer support its words; read them and write it again")
    seconds = {
        f"{name}_seconds": f"{found[name].records[0]['wall_time']:.0f}" for name in ("shipped", "shipped_last", "fixed")
    }
    before = "\n\n" + BEFORE if not all(each.corrected for each in found.values()) else ""
    parts = {
        "before": before,
        "attacks": _table(records, robustness.ATTACKS[0]),
        "steps": _steps(records),
        "exponents": _rows(records, EXPONENTS) or WAITS.format(what="`benchmarks/lyapunov.py`"),
        "growth": _growth(records),
        "in_16_bits": _in_16_bits(found),
        "noise_gain": f"{found['noise16'].mean - found['noise1'].mean:.1f}",
        "right_gain": f"{found['right16'].mean - found['right1'].mean:.1f}",
        "gradients": _rows(records, GRADIENTS) or WAITS.format(what="`benchmarks/gradients.py --untrained`"),
    }
    return TEXT.format(**found, **seconds, **parts)


_ROWS = {
    "PGD, 50 steps": "PGD, 50 steps, all gradients",
    "PGD, last Kuramoto steps alone": "PGD, gradients of the last step",
    "AutoAttack (`rand` for random starts)": "AutoAttack, all gradients, as in the paper",
    "as many tests as AutoAttack's, no attack": "as many tests without an attack",
    _LAST: "AutoAttack, gradients of the last step",
    _FIXED: "AutoAttack `standard`, one start fixed",
    "that start, no attack": "that start without an attack",
}
"""Rows of the table of attacks, and what they are called here."""


def _figures(records: Sequence[Record], table: Table, row: str, headings: Sequence[str]) -> list[str]:
    found = []
    for heading in headings:
        cell = Figure(row, table, row, heading).cell
        values = [value(record, cell.metric) for record in chosen(records, cell)]
        found.append(summary(values, table.digits).partition(" (")[0])
    return found


def _table(records: Sequence[Record], table: Table) -> str:
    rows = [[words, *_figures(records, table, label, list(_MODELS))] for label, words in _ROWS.items()]
    clean = [_figures(records, robustness.SCRATCH, model, [_CLEAN])[0] for model in _MODELS]
    return "\n".join(markdown(["", *_MODELS.values()], [["no attack, all 10,000 pictures", *clean], *rows]))


def _filled(records: Sequence[Record], table: Table) -> dict[str, list[str]]:
    """The rows of a table that have a figure."""
    rows = {row.label: _figures(records, table, row.label, table.headings) for row in table.rows}
    return {label: figures for label, figures in rows.items() if set(figures) != {"–"}}


def _of_all_layers(label: str) -> str:
    """A row's label without the number of its layer: "layer 1, trained" is "trained"."""
    return label.partition(", ")[2] if label.startswith("layer ") else label


def _rows(records: Sequence[Record], table: Table) -> str:
    """The rows of a table that have a figure, and which have none; nothing if none has."""
    filled = _filled(records, table)
    missing = dict.fromkeys(_of_all_layers(row.label) for row in table.rows if row.label not in filled)
    lines = markdown(["", *table.headings], [[label, *figures] for label, figures in filled.items()])
    lines += ["", f"*Pending: {'; '.join(missing)}.*"] if missing else []
    return "\n".join(lines) if filled else ""


def _steps(records: Sequence[Record]) -> str:
    """Attacks with and without Proj and with smaller steps, and what is pending."""
    rows = _rows(records, STEP_SIZES)
    return rows or f"*Pending, with no figures yet: {'; '.join(row.label for row in STEP_SIZES.rows)}.*"


def _growth(records: Sequence[Record]) -> str:
    """By how much a difference grows over all steps of the shipped model, from the exponents on the page."""
    cells = [Figure("", EXPONENTS, f"layer {layer}, trained", "γ = 1") for layer in LAYERS]
    if not all(chosen(records, figure.cell) for figure in cells):
        return ""
    exponents = [str(look(records, figure)) for figure in cells]
    factor = math.exp(3 * sum(map(float, exponents)))  # of the figures as they are shown
    return "\n\n" + GROWTH.format(each=" + ".join(exponents), factor=f"{factor:.0f}")


def _in_16_bits(found: Mapping[str, Found]) -> str:
    """Words about the weights behind the shipped model's figures, if these are the weights in 16 bits."""
    compared = {record["extra"]["weights_sha256"] for record in found["bits16"].records}
    behind = {
        record["extra"]["training"].get("weights_sha256")
        for name in ("shipped", "shipped_last", "fixed", "noise1", "noise16", "right1", "right16")
        for record in found[name].records
    }
    return IN_16_BITS.format(**found) if behind == compared else ""
