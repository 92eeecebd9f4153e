"""The table of Lyapunov exponents, from records of `benchmarks/lyapunov.py`. Torch-free."""

from __future__ import annotations

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
    " which drive the layer, and over 100 steps after the first 50. Above 0 a layer is chaotic: a small difference, and"
    " so a gradient, grows by exp(λ) in every step. The model was trained with γ = 1; it takes three steps in each"
    " layer.",
)
