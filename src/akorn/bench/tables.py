"""The table of speeds in RESULTS.md: whole work at the paper's sizes, beside the published code. Torch-free."""

from __future__ import annotations

from akorn.ledger.tables import Cell, Row, Table

_GPU = "NVIDIA H200"


def _row(
    label: str, key: str, precision: str, time: str, memory: str, *, variant: str = "graph", recompute: bool = False
) -> Row:
    """Plain loop, fused kernels and their memory, without graphs, first call: newest record, published code beside."""
    config = {"config.precision": precision, "config.recompute": recompute}
    match = {"kind": "bench", "name": "kernels", "hardware.gpu": _GPU, **config}
    return Row(
        label,
        (
            Cell(f"{key}/plain/ms", match, time),
            Cell(f"{key}/{variant}/ms", match, time),
            Cell(f"{key}/{variant}/mib", match, memory),
            Cell(f"{key}/fused/ms", match),
            Cell(f"{key}/fused/first_s", match),
        ),
    )


SPEED = Table(
    f"Speed on one {_GPU}, at the paper's sizes",
    ("plain loop, ms", "fused, ms", "fused, peak MiB", "fused, no graph, ms", "first call, s"),
    (
        _row(
            "Sudoku training step, batch 100, T = 16, TF32",
            "sudoku/training-step/batch-100/T16/training", "tf32", "61", "5,900",
        ),
        _row(
            "the same in float32", "sudoku/training-step/batch-100/T16/training", "float32", "61", "5,900",
        ),
        _row(
            "energy vote of 100, T = 128, a board in a full batch, bf16",
            "vote/K=100,-a-board/40-boards/T128/forward", "bf16", "160", "–", variant="fused",
        ),
        _row(
            "Shapes training step, 2×256 pictures, L = 3, bf16, recomputing",
            "shapes/training-step/2×256,-L=3/T4/training", "bf16", "484", "38,800", recompute=True,
        ),
        _row(
            "the same, keeping all states",
            "shapes/training-step/2×256,-L=3/T4/training", "bf16", "484", "38,800",
        ),
        _row(
            "CLEVRTex training step, 2×256 pictures, L = 2, bf16, recomputing",
            "clevrtex/training-step/2×256,-L=2/T8/training", "bf16", "322", "28,100", recompute=True,
        ),
        _row(
            "CIFAR-10 AKOrN-conv training step, batch 128, bf16",
            "cifar/training-step/batch-128/T3/training", "bf16", "32", "2,500",
        ),
    ),
    note="Medians. Training steps are forward, backward and Adam, as CUDA graphs; memory is the allocator's peak beyond"
    " weights and optimiser while the graph is recorded and run. Beside them the published implementation as it ships,"
    " measured on the same kind of GPU. The first call, with empty caches, compiles kernels and tries out how to cut"
    " the work; both are kept on disk for the next run.",
    beside="published",
)  # fmt: skip

TABLES = (SPEED,)
