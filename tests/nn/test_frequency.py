"""Natural frequencies are antisymmetric, whatever is learned, and turn an oscillator at their rate."""

import math

import pytest
import torch

from akorn import nn as ann
from akorn import oscillators as osc


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("oscillators", [None, 3])
def test_any_antisymmetric_matrix(n: int, oscillators: int | None) -> None:
    omega = ann.NaturalFrequency(n, oscillators).double()
    assert omega.matrix.shape == ((n, n) if oscillators is None else (oscillators, n, n))
    torch.testing.assert_close(omega.matrix, -omega.matrix.mT)
    assert omega.entries.numel() == n * (n - 1) // 2 * (oscillators or 1)
    again = ann.NaturalFrequency.from_matrix(omega.matrix.detach())
    torch.testing.assert_close(again.matrix, omega.matrix)
    x = torch.randn(2, 3, n, dtype=torch.float64)
    torch.testing.assert_close(omega(x, -1), osc.rotate(x, omega.matrix, -1))
    omega(x, -1).square().sum().backward()
    assert omega.entries.grad.abs().min() > 0


@pytest.mark.parametrize("oscillators", [None, 3])
def test_pairs_have_their_matrix(oscillators: int | None) -> None:
    omega = ann.PairwiseFrequency(4, oscillators, init=0.5).double()
    omega.rate.data.uniform_(0.1, 1)
    torch.testing.assert_close(omega.matrix, -omega.matrix.mT)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(omega(x, -1), osc.rotate(x, omega.matrix, -1))


def test_fixed_frequencies_are_saved_but_not_learned() -> None:
    for omega in (ann.NaturalFrequency(3, learn=False), ann.PairwiseFrequency(4, learn=False)):
        assert not list(omega.parameters())
        assert len(omega.state_dict()) == 1


def test_an_oscillator_alone_turns_at_its_rate() -> None:
    """dx/dt = Ωx has the period 2π/ω; Euler steps of 1e-3 get round to within their error."""
    omega = ann.PairwiseFrequency(2, init=2.0, learn=False).double()
    layer = ann.KuramotoLayer(2, 2, torch.nn.Identity(), omega=omega, gamma=1e-3).double()
    steps = round(math.pi / 2.0 / 1e-3)  # half a period
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(layer(x, torch.zeros_like(x), steps), -x, atol=2e-3, rtol=0)


def test_built_on_the_meta_device_and_given_its_values() -> None:
    source = ann.NaturalFrequency(3, 2)
    with torch.device("meta"):
        assigned, filled = ann.NaturalFrequency(3, 2), ann.NaturalFrequency(3, 2)
    assigned.load_state_dict(source.state_dict(), assign=True)
    filled.to_empty(device="cpu").load_state_dict(source.state_dict())
    for omega in (assigned, filled):
        assert torch.equal(omega.matrix, source.matrix)


BAD = {
    "half a dimension": (lambda: ann.NaturalFrequency(4.0), "n must be a whole number, got 4.0"),
    "pairs of a fraction": (lambda: ann.PairwiseFrequency(4.0), "n must be a whole number, got 4.0"),
    "no oscillators": (lambda: ann.NaturalFrequency(4, 0), "oscillators must be at least 1, got 0"),
    "odd pairs": (lambda: ann.PairwiseFrequency(3), "even number.*n=3"),
    "n below 2": (lambda: ann.NaturalFrequency(1), "at least 2"),
    "symmetric": (lambda: ann.NaturalFrequency.from_matrix(torch.ones(3, 3)), "antisymmetric"),
    "no matrix": (lambda: ann.NaturalFrequency.from_matrix(torch.ones(3)), r"\[N, N\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
