"""Chaos in the classifier's layers: Lyapunov exponents, and how far gradients are valid. Torch-free."""

from __future__ import annotations

from statistics import fmean

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table

_GAMMAS = ("1", "0.5", "0.1")
_RECORD = {"kind": "bench", "name": "lyapunov", "config.model": "cifar10-conv"}

EXPONENTS = Table(
    "Are the Kuramoto layers chaotic?",
    tuple(f"γ = {gamma}" for gamma in _GAMMAS),
    tuple(
        Row(f"layer {layer}, {kind}", tuple(Cell(f"{kind}/layer {layer}, γ = {gamma}", _RECORD) for gamma in _GAMMAS))
        for kind in ("trained", "untrained")
        for layer in (1, 2, 3)
    ),
    digits=2,
    note="The largest Lyapunov exponent λ per Kuramoto step of each layer of `cifar10-conv`, and of the same layers"
    " untrained (`akorn.lyapunov.layer_exponent`, `benchmarks/lyapunov.py`): the mean over four validation pictures,"
    " which drive the layer, and over 100 steps after the first 50. If λ is above 0, the layer is chaotic: a small"
    " difference, and so a gradient, grows by a factor of exp(λ) in every step. The model was trained with γ = 1; it"
    " takes three steps in each layer.",
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
