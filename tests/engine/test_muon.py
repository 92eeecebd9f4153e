"""Muon: orthogonal updates for matrices, Adam's for the rest."""

import copy

import pytest
import torch
from torch import nn

from akorn.engine import OptimiserConfig
from akorn.engine.muon import Muon, orthogonal
from akorn.engine.optimiser import build, load_state_tensors, matrices, state_tensors
from akorn.errors import AkornError


@pytest.mark.parametrize("shape", [(48, 48), (64, 48), (48, 64), (3, 40, 80)])
def test_singular_values_come_near_one_and_directions_stay(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonal(a).float()
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.5
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(a, full_matrices=False)
    wanted = u @ v
    cosine = (found * wanted).sum((-2, -1)) / (found.norm(dim=(-2, -1)) * wanted.norm(dim=(-2, -1)))
    assert cosine.min() > 0.95


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(9, 48), nn.Linear(48, 64), nn.Tanh(), nn.LayerNorm(64), nn.Linear(64, 9))


def after(model: nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randint(0, 9, (32,), generator=generator)
        loss = nn.functional.cross_entropy(model(x), (x + 1) % 9)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return [p.detach().clone() for p in model.parameters()]


def test_only_wide_linear_maps_are_orthogonalised() -> None:
    model = net()
    assert [list(p.shape) for p in matrices(model)] == [[64, 48]]  # not the embedding, not the head


def test_the_rest_is_adam() -> None:
    ours, theirs = net(), net()
    mine = after(ours, Muon(ours.parameters(), [], lr=1e-2), 5)
    other = after(theirs, torch.optim.Adam(theirs.parameters(), lr=1e-2), 5)
    for left, right in zip(mine, other, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


def test_a_matrix_moves_by_the_stated_size() -> None:
    model = net()
    weight = model[1].weight
    before = weight.detach().clone()
    after(model, Muon(model.parameters(), [weight], lr=1e-2), 1)
    moved = (weight.detach() - before).norm()
    full = 1e-2 * 0.2 * 64**0.5 * 9**0.5  # nine inputs: nine singular values at 1
    assert 0.6 * full < moved < 1.2 * full


def test_it_learns_and_decays() -> None:
    model = net()
    x = torch.arange(9)
    first = nn.functional.cross_entropy(model(x), (x + 1) % 9)
    after(model, build(OptimiserConfig(name="muon", learning_rate=1e-2), model), 40)
    assert nn.functional.cross_entropy(model(x), (x + 1) % 9) < 0.3 * first
    still = net()
    optimiser = Muon(still.parameters(), matrices(still), lr=0.1, weight_decay=0.5)
    for parameter in still.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = still[1].weight.detach().clone()
    optimiser.step()
    torch.testing.assert_close(still[1].weight.detach(), before * 0.95, rtol=1e-4, atol=1e-4)


def test_its_state_is_saved_and_restored() -> None:
    config = OptimiserConfig(name="muon", learning_rate=1e-2)
    model = net()
    optimiser = build(config, model)
    after(model, optimiser, 3)
    saved = {name: tensor.clone() for name, tensor in state_tensors(optimiser, model).items()}
    twin = copy.deepcopy(model)
    restored = build(config, twin)
    load_state_tensors(restored, twin, saved)
    for left, right in zip(after(model, optimiser, 3), after(twin, restored, 3), strict=True):
        assert torch.equal(left, right)
    lacking = {name: tensor for name, tensor in saved.items() if name != "exp_avg_sq/4.bias"}
    with pytest.raises(AkornError, match=r"lacks 'exp_avg_sq/4\.bias'"):
        load_state_tensors(build(config, twin), twin, lacking)


def test_a_vector_is_refused() -> None:
    model = net()
    with pytest.raises(ValueError, match=r"matrices, got a parameter of shape \[64\]"):
        Muon(model.parameters(), [model[1].bias], lr=1e-2)


def test_restored_step_counts_lie_beside_the_parameters() -> None:
    config = OptimiserConfig(name="muon", learning_rate=1e-2)
    model = net()
    optimiser = build(config, model)
    after(model, optimiser, 2)
    elsewhere = copy.deepcopy(model).to("meta")  # stands in for a GPU: its kernel refuses counts on the CPU
    restored = build(config, elsewhere)
    load_state_tensors(restored, elsewhere, state_tensors(optimiser, model))
    places = {tensor.device.type for state in restored.state.values() for tensor in state.values()}
    assert places == {"meta"}
