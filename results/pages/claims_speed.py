"""Speed: our own claim, not the paper's. Torch-free."""

from __future__ import annotations

from results.pages import speed
from results.pages.figures import Claim, Figure, Section, Verdict

_FUSED = "fused, ms"


def _time(what: str, row: str, heading: str = _FUSED) -> Figure:
    return Figure(what, speed.SPEED, row, heading)


SPEED = Section(
    "Speed",
    "This is our claim, not the paper's. Times are in milliseconds, on one NVIDIA H200 and at the paper's sizes, beside"
    " the published implementation as it ships. Training steps are recorded as CUDA graphs, as `akorn train` does.",
    "results/speed.md",
    (
        Claim(
            "This implementation is several times as fast as the published one",
            Verdict.CONFIRMED,
            "All five kinds of work are more than three times as fast.",
            {
                "sudoku": _time("Sudoku, a training step, TF32", "Sudoku training step, batch 100, T = 16, TF32"),
                "vote": _time(
                    "Sudoku, an energy vote of 100, per board",
                    "energy vote of 100, T = 128, per board in a full batch, bf16",
                ),
                "shapes": _time("Shapes, a training step", "the same, keeping all states"),
                "clevrtex": _time(
                    "CLEVRTex, a training step", "CLEVRTex training step, 2×256 pictures, L = 2, bf16, recomputing"
                ),
                "cifar": _time("CIFAR-10, a training step", "CIFAR-10 AKOrN-conv training step, batch 128, bf16"),
            },
            lambda of: all(each.mean < each.paper_mean / 3 for each in of.values()),
        ),
    ),
    ours=True,
)
