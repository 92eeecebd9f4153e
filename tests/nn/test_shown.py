"""What print() shows of a module: its settings."""

import pytest
import torch
from torch import nn

from akorn import nn as ann

EDGES = torch.tensor([[0], [1]])


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        (ann.NaturalFrequency(4), "NaturalFrequency(n=4, shared, learned)"),
        (ann.NaturalFrequency(4, 3, learn=False), "NaturalFrequency(n=4, oscillators=3, fixed)"),
        (ann.PairwiseFrequency(2), "PairwiseFrequency(n=2, shared, learned)"),
        (ann.DenseCoupling(8), "DenseCoupling(8, symmetric=False)"),
        (ann.ScalarCoupling(3, 2, symmetric=True), "ScalarCoupling(oscillators=3, n=2, symmetric=True)"),
        (ann.SparseCoupling(EDGES, 2, 4, torch.ones(1)), "SparseCoupling(nodes=2, edges=1, n=4, symmetric=False)"),
        (ann.Position((5,)), "Position(grid=(5,))"),
        (ann.AbsolutePosition((2, 3), 8), "AbsolutePosition(grid=(2, 3), channels=8, learn=True)"),
        (ann.RotaryPosition((5,), 4), "RotaryPosition(grid=(5,), head_dim=4, learn=False, symmetric=True)"),
        (ann.GTA((2, 3), 8), "GTA(grid=(2, 3), head_dim=8, symmetric=False)"),
        (ann.RandomStart(4), "RandomStart(n=4)"),
        (ann.LearnedStart(2, 6), "LearnedStart(n=2, channels=6)"),
        (ann.ChannelAffine(6), "ChannelAffine(6)"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, nn.Module) else "",
)
def test_settings_are_shown(module: nn.Module, shown: str) -> None:
    assert repr(module) == shown


def test_a_layer_shows_its_parts() -> None:
    coupling = ann.AttentionCoupling(16, heads=4, grid=(2, 2))
    shown = repr(ann.KuramotoLayer(16, 4, coupling, omega=ann.NaturalFrequency(4)))
    for part in ("channels=16, n=4", "heads=4", "GTA(grid=(2, 2), head_dim=4", "NaturalFrequency(n=4, shared"):
        assert part in shown
