"""Chaos in the classifier's layers: Lyapunov exponents, and how far gradients are valid. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table, chosen

_GAMMAS = ("1", "0.5", "0.1")
LAYERS = (1, 2, 3)
_LYAPUNOV = {"kind": "bench", "name": "lyapunov"}
_SHIPPED = {**_LYAPUNOV, "config.model": "cifar10-conv"}
_NO_PROJ = {**_LYAPUNOV, "config.recipe": "cifar10_akorn_conv_no_proj"}
_KINDS = {
    "trained": ("trained", _SHIPPED),
    "trained, without Proj": ("trained", _NO_PROJ),
    "untrained": ("untrained", _SHIPPED),
    "untrained, without Proj": ("untrained without Proj", _SHIPPED),
}
"""What a row is called, the kind in the record, and which records."""


def _note(records: Sequence[Record]) -> str:
    found = [record for row in EXPONENTS.rows for cell in row.cells for record in chosen(records, cell)]
    numbers = sorted({int(record["config"]["pictures"]) for record in found})
    pictures = " to ".join(str(number) for number in sorted({numbers[0], numbers[-1]})) if numbers else "some"
    return (
        "The largest Lyapunov exponent λ per Kuramoto step of each layer of `cifar10-conv`, and of the same layers"
        " untrained, with and without Proj (`akorn.lyapunov.layer_exponent`, `benchmarks/lyapunov.py`): the mean over"
        f" {pictures} validation pictures, which drive the layer, and over 100 steps after the first 50. If λ is above"
        " 0, the layer is chaotic: a small difference, and so a gradient, grows by a factor of exp(λ) in every step."
        " The model was trained with γ = 1; it takes three steps in each layer."
    )


EXPONENTS = Table(
    "Are the Kuramoto layers chaotic?",
    tuple(f"γ = {gamma}" for gamma in _GAMMAS),
    tuple(
        Row(f"layer {layer}, {label}", tuple(Cell(f"{kind}/layer {layer}, γ = {gamma}", match) for gamma in _GAMMAS))
        for label, (kind, match) in _KINDS.items()
        for layer in LAYERS
    ),
    digits=2,
    note=_note,
)

_SEEDS = 3


def _cosine(model: str) -> Cell:
    """The mean over untrained models of three seeds."""

    def mean(record: Record) -> float | None:
        values = [record["metrics"].get(f"untrained/{model}/seed {seed}") for seed in range(_SEEDS)]
        numbers = [value for value in values if is_number(value)]
        return fmean(numbers) if len(numbers) == _SEEDS else None

    return Cell(mean, {"kind": "bench", "name": "gradients-untrained"})


def _gradients(label: str, model: str) -> Row:
    return Row(label, tuple(_cosine(model + ("" if gamma == "1" else f", γ = {gamma}")) for gamma in _GAMMAS))


GRADIENTS = Table(
    "Do gradients of untrained models hold?",
    tuple(f"γ = {gamma}" for gamma in _GAMMAS),
    (
        _gradients("AKOrN-conv", "AKOrN-conv"),
        _gradients("AKOrN-conv without Proj", "AKOrN-conv without Proj"),
        *(
            Row(model, (_cosine(model), *(Cell("none", {"kind": "none"}) for _ in _GAMMAS[1:])))
            for model in ("ItrConv", "ResNet-18")
        ),
    ),
    note="The cosine, in percent, between the gradients at two pictures a quarter of a grey level apart, from the same"
    f" start: the mean over 20 test pictures and {_SEEDS} seeds of the weights (`benchmarks/gradients.py --untrained`)."
    " 100 means the same direction, 0 that they have nothing in common. ItrConv and ResNet-18 have no γ.",
)
