"""Exponents of systems whose exponents are known, and of layers that settle, turn or are chaotic."""

import math

import pytest
import torch
from torch import Tensor, nn

from akorn.lyapunov import layer_exponent, lyapunov_exponent
from akorn.nn import AttentionCoupling, ConvCoupling, DenseCoupling, GroupNorm, KuramotoLayer, NaturalFrequency


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_of_the_logistic_map_it_is_the_logarithm_of_two() -> None:
    x0 = torch.rand(20, generator=generator(), dtype=torch.float64)
    found = lyapunov_exponent(lambda x: 4 * x * (1 - x), x0, 2000, discard=100)
    assert found.shape == (20,)
    assert found.dtype == torch.float64
    assert float(found.mean()) == pytest.approx(math.log(2), abs=0.005)
    # At r = 3.2 it ends in a cycle of two: half the logarithm of the product of its slopes, |4 + 2r − r²| = 0.16.
    cycle = lyapunov_exponent(lambda x: 3.2 * x * (1 - x), x0, 200, discard=1000)
    torch.testing.assert_close(cycle, torch.full_like(cycle, math.log(0.16) / 2), rtol=1e-6, atol=1e-6)


def test_of_a_linear_map_it_is_the_logarithm_of_the_largest_eigenvalue() -> None:
    matrix = torch.randn(6, 6, generator=generator(1), dtype=torch.float64)
    matrix = matrix @ torch.diag(torch.tensor([1.0, 2, 3, 4, 5, 6], dtype=torch.float64)) @ matrix.inverse() / 7
    x0 = torch.randn(3, 2, 3, generator=generator(2), dtype=torch.float64)
    found = lyapunov_exponent(lambda x: (x.flatten(1) @ matrix.mT).view_as(x), x0, 50, discard=200)
    torch.testing.assert_close(found, torch.full((3,), math.log(6 / 7), dtype=torch.float64), rtol=1e-6, atol=1e-6)
    # A shear has eigenvalues of 1 and singular values that are larger: differences grow, but not exponentially.
    shear = torch.tensor([[1.0, 3.0], [0.0, 1.0]], dtype=torch.float64)
    found = lyapunov_exponent(lambda x: x @ shear.mT, torch.ones(1, 2, dtype=torch.float64), 3000, discard=1000)
    assert 0 <= float(found) < 1e-3


def test_samples_have_exponents_of_their_own() -> None:
    rates = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    found = lyapunov_exponent(lambda x: rates[:, None] * x, torch.zeros(3, 4, dtype=torch.float64), 5)
    torch.testing.assert_close(found, rates.log())
    assert lyapunov_exponent(lambda x: 0 * x, torch.ones(1, 4), 3).tolist() == [-math.inf]


def test_a_layer_that_descends_an_energy_settles() -> None:
    torch.manual_seed(0)
    layer = KuramotoLayer(24, 2, DenseCoupling(24, symmetric=True), gamma=0.1)
    x, c = (torch.randn(4, 24, generator=generator(seed)) for seed in (1, 2))
    found = layer_exponent(layer, x, c, 200, discard=2000)
    assert found.shape == (4,)
    assert (found < -1e-3).all()
    # Without c all oscillators may turn together, which nothing brings back.
    free = KuramotoLayer(24, 2, turning(24), gamma=0.1)
    found = layer_exponent(free, x, torch.zeros_like(c), 200, discard=4000)
    torch.testing.assert_close(found, torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-6)


def turning(channels: int) -> nn.Module:
    """J = k ⊗ I with a symmetric k: a rotation of all oscillators at once changes nothing."""
    k = torch.randn(channels // 2, channels // 2, generator=generator(5), dtype=torch.float64)

    class Turning(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            pairs = x.unflatten(1, (-1, 2))
            return torch.einsum("ij,bja->bia", (k + k.mT).to(x) / channels, pairs).flatten(1)

    return Turning()


def test_a_natural_rotation_alone_keeps_distances() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 0 * x

    layer = KuramotoLayer(12, 3, Nothing(), omega=NaturalFrequency(3), gamma=0.5)
    x = torch.randn(2, 12, generator=generator())
    found = layer_exponent(layer, x, torch.zeros_like(x), 400, discard=100)
    assert (found.abs() < 0.01).all()


def test_large_steps_are_chaotic_and_small_ones_are_not() -> None:
    torch.manual_seed(0)
    layer = KuramotoLayer(16, 2, ConvCoupling(16, 5), gamma=1.0, stimulus=GroupNorm(8, 16), bias=True)
    with torch.no_grad():
        for parameter in layer.coupling.parameters():
            parameter.mul_(6)
    x, c = (torch.randn(3, 16, 6, 6, generator=generator(seed)) for seed in (1, 2))
    chaotic = layer_exponent(layer, x, c, 100, discard=50)
    assert (chaotic > 0.1).all()
    assert (layer_exponent(layer, x, c, 100, discard=50, gamma=0.02) < chaotic / 5).all()
    assert float(layer.gamma) == 1.0  # the layer stays as it is
    assert layer.gamma.dtype == torch.float32
    # So do two states part that are very near, until they are not.
    twin, drive = layer.double(), c.double()
    with torch.no_grad():
        state = twin(x.double(), drive, 50)
        other = state + 1e-13 * torch.randn(state.shape, generator=generator(3), dtype=torch.float64)
        begun, ended = (
            (twin(state, drive, steps) - twin(other, drive, steps)).flatten(1).norm(dim=1) for steps in (5, 20)
        )
    assert (ended < 0.01).all()
    torch.testing.assert_close((ended / begun).log() / 15, chaotic, rtol=0.4, atol=0)


def test_attention_has_one_too() -> None:
    torch.manual_seed(0)
    layer = KuramotoLayer(16, 4, AttentionCoupling(16, 2), gamma=0.5)
    x, c = (torch.randn(2, 9, 16, generator=generator(seed)) for seed in (1, 2))
    found = layer_exponent(layer, x, c, 50, discard=50)
    assert found.isfinite().all()
    assert (found < 0).all()  # small attention and a strong stimulus


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"discard": -1}, "discard must be a whole number of at least 0, got -1"),
        ({"x0": torch.ones(2, dtype=torch.int64)}, "floating-point"),
        ({"x0": torch.tensor(1.0)}, r"states \[B, …\]"),
        ({"step": lambda x: x[:1]}, r"shape \[2, 3\] to \[1, 3\]"),
        ({"step": lambda x: x * math.inf}, "not finite"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], words: str) -> None:
    options: dict[str, object] = {"step": lambda x: 2 * x, "x0": torch.ones(2, 3), "steps": 3, **changes}
    with pytest.raises(ValueError, match=words):
        lyapunov_exponent(**options)  # type: ignore[arg-type]


def test_a_layer_says_what_it_cannot_take() -> None:
    layer = KuramotoLayer(8, 2, DenseCoupling(8))
    x = torch.randn(2, 8)
    with pytest.raises(ValueError, match="c must be constant in time"):
        layer_exponent(layer, x, torch.randn(3, 2, 8), 3)
    with pytest.raises(ValueError, match="gamma must be above 0, got -1"):
        layer_exponent(layer, x, x, 3, gamma=-1)
    with pytest.raises(ValueError, match="8 channels"):
        layer_exponent(layer, torch.randn(2, 6), torch.randn(2, 6), 3)
