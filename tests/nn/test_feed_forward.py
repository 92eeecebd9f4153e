"""An MLP after a coupling."""

import pytest
import torch
from torch import nn

from akorn import nn as ann


def coupling(channels: int = 8, expansion: int = 2) -> ann.FeedForwardCoupling:
    torch.manual_seed(0)
    inner = ann.AttentionCoupling(channels, 2, grid=(2, 3))
    return ann.FeedForwardCoupling(inner, channels, expansion=expansion).double()


def test_it_starts_as_the_coupling_alone() -> None:
    whole = coupling()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    assert torch.equal(whole(x), whole.coupling(x))


def test_the_formula() -> None:
    whole = coupling(expansion=3)
    nn.init.normal_(whole.contract.weight)
    nn.init.normal_(whole.norm.weight)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    y = whole.coupling(x)
    z = x + y
    z = (z - z.mean(-1, keepdim=True)) / (z.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    hidden = (z * whole.norm.weight + whole.norm.bias) @ whole.expand.weight.T + whole.expand.bias
    gelu = 0.5 * hidden * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    torch.testing.assert_close(whole(x), y + gelu @ whole.contract.weight.T)
    assert whole.expand.weight.shape == (24, 8)


def test_in_a_layer_states_stay_on_the_sphere_and_all_weights_learn() -> None:
    whole = coupling()
    nn.init.normal_(whole.contract.weight)
    layer = ann.KuramotoLayer(8, 4, whole, gamma=0.5).double()
    x, c = torch.randn(2, 6, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
    after = layer(x, c, steps=4)
    lengths = after.unflatten(-1, (-1, 4)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    (after * torch.randn_like(after)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in whole.parameters() if p.ndim > 1)


def test_recomputed_gradients_are_the_same() -> None:
    grads = []
    for way in (ann.Store(), ann.Recompute()):
        whole = coupling()
        nn.init.constant_(whole.contract.weight, 0.1)
        layer = ann.KuramotoLayer(8, 4, whole, gamma=0.5, gradients=way).double()
        torch.manual_seed(1)
        x, c = torch.randn(2, 6, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
        layer(x, c, steps=5).square().mul(torch.arange(8)).sum().backward()
        grads.append([p.grad for p in layer.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_pictures_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"expected tokens \[B, tokens, 8\], got shape \[1, 8, 2, 3\]"):
        coupling()(torch.randn(1, 8, 2, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="expansion"):
        ann.FeedForwardCoupling(nn.Identity(), 8, expansion=0)
