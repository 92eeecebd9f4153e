"""The baselines: the Energy Transformer's closed-form gradient, and how ItrSA and Transformer are related."""

from __future__ import annotations

import pytest
import torch

from akorn.baselines import EnergyTransformer, ItrSA, Transformer
from akorn.baselines.attention import PositionName

GRID = (3, 3)


@pytest.mark.parametrize("seed", range(3))
def test_energy_gradient_is_that_of_autograd(seed: int) -> None:
    torch.manual_seed(seed)
    model = EnergyTransformer(12, heads=3, memories=20).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))  # far from the small start, so that softmax bends
    g = torch.randn(2, 9, 12, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(model.energy(g).sum(), g)
    torch.testing.assert_close(model.gradient(g), expected, rtol=1e-10, atol=1e-10)


def test_energy_falls_with_small_steps() -> None:
    torch.manual_seed(0)
    model = EnergyTransformer(16, heads=2, grid=GRID, alpha=0.01).double()
    with torch.no_grad():
        model.scale.fill_(1.5)
        for weight in (model.query, model.key, model.memory):
            weight.mul_(10)
    x = model.prepare(torch.randn(4, 9, 16, dtype=torch.float64))
    energies = []
    with torch.no_grad():
        for _ in range(30):
            energies.append(model.energy(model.normalize(x)))
            x = model.iterate(x)
    steps = torch.stack(energies).diff(dim=0)
    assert (steps < 0).all()


def test_transformer_is_itrsa_with_one_step() -> None:
    torch.manual_seed(0)
    transformer = Transformer(16, 2, grid=GRID, blocks=3)
    itrsa = ItrSA(16, 2, grid=GRID, blocks=3)
    itrsa.load_state_dict(transformer.state_dict())
    x = torch.randn(2, 9, 16)
    torch.testing.assert_close(transformer(x), itrsa(x, 1))
    assert not torch.allclose(itrsa(x, 2), itrsa(x, 1))


def test_itrsa_iterates_attention_but_not_the_mlp() -> None:
    torch.manual_seed(0)
    model = ItrSA(16, 2, grid=GRID)
    block = model.blocks[0]
    with torch.no_grad():  # without attention nothing but one MLP is left, whatever the number of steps
        block.attention.maps.output.weight.zero_()
    x = torch.randn(2, 9, 16)
    placed = model.prepare(x)
    expected = model.norm(placed + block.mlp(block.mlp_norm(placed)))
    torch.testing.assert_close(model(x, 1), expected)
    torch.testing.assert_close(model(x, 5), expected)


def test_an_mlp_in_the_steps_of_itrsa_starts_as_none_and_acts_at_every_step() -> None:
    torch.manual_seed(0)
    plain, model = ItrSA(16, 2, grid=GRID), ItrSA(16, 2, grid=GRID, inner=3)
    _, unexpected = model.load_state_dict(
        {name.replace(".attention.", ".attention.coupling."): value for name, value in plain.state_dict().items()},
        strict=False,
    )
    assert not unexpected
    x = torch.randn(2, 9, 16)
    torch.testing.assert_close(model(x, 3), plain(x, 3))

    inner = model.blocks[0].attention
    assert inner.expand.weight.shape == (48, 16)
    with torch.no_grad():
        inner.contract.weight.normal_()
    block, state = model.blocks[0], model.prepare(x)
    for _ in range(2):
        seen = block.norm(state)
        y = inner.coupling(seen)
        hidden = torch.nn.functional.gelu(inner.expand(inner.norm(seen + y)), approximate="tanh")
        state = state + y + hidden @ inner.contract.weight.T
    torch.testing.assert_close(model(x, 2), model.norm(block.finish(state)))


def test_itrsa_ends_in_a_norm_over_the_channels() -> None:
    torch.manual_seed(0)
    y = ItrSA(16, 2, grid=GRID)(torch.randn(2, 9, 16), 2)
    torch.testing.assert_close(y.mean(-1), torch.zeros(2, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.std(-1, correction=0), torch.ones(2, 9), atol=1e-3, rtol=0)
    without = ItrSA(16, 2, grid=GRID, norm=False)
    assert not any(name.startswith("norm") for name in without.state_dict())


@pytest.mark.parametrize("position", ["absolute", "gta", "rotary", "learned-rotary"])
def test_positions_break_the_symmetry_of_the_tokens(position: PositionName) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 9, 16)
    order = torch.randperm(9)
    model = ItrSA(16, 2, grid=GRID, position=position)
    assert not torch.allclose(model(x, 2)[:, order], model(x[:, order], 2), atol=1e-4)
    plain = ItrSA(16, 2, position="none")
    torch.testing.assert_close(plain(x, 2)[:, order], plain(x[:, order], 2))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a grid"):
        ItrSA(16, 2)
    with pytest.raises(ValueError, match="expected one of absolute, gta"):
        ItrSA(16, 2, grid=GRID, position="polar")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="16 channels cannot be split into 3 heads"):
        EnergyTransformer(16, 3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Transformer(16, 2, grid=GRID)(torch.zeros(1, 9, 16), 0)
    with pytest.raises(ValueError, match="alpha"):
        EnergyTransformer(16, 2, alpha=0.0)
