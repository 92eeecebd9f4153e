"""LayerNorm of the baselines: without a GPU it is torch's own, under the same names."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from akorn import nn as ann
from akorn.baselines import ItrSA
from akorn.baselines.vit import ViT


def results(layer: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = layer(x)
    return [y.detach(), *torch.autograd.grad(y.float().pow(3).sum(), [x, *layer.parameters()])]


def pair(channels: int, narrow: bool) -> tuple[ann.LayerNorm, nn.LayerNorm]:
    """Ours and torch's, with the weights of torch's."""
    torch.manual_seed(0)
    plain = nn.LayerNorm(channels)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.normal_()
    ours = ann.LayerNorm(channels, narrow=narrow)
    ours.load_state_dict(plain.state_dict())
    return ours, plain


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("shape", [(12,), (5, 12), (2, 5, 12), (2, 3, 4, 12), (0, 12)])
def test_on_the_cpu_it_is_torchs(shape: tuple[int, ...], narrow: bool) -> None:
    ours, plain = pair(12, narrow)
    x = torch.randn(shape)
    for autocast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found, expected = results(ours, x), results(plain, x)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)


def test_names_are_torchs() -> None:
    ours, plain = ann.LayerNorm(12), nn.LayerNorm(12)
    assert isinstance(ours, nn.LayerNorm)
    assert list(ours.state_dict()) == list(plain.state_dict()) == ["weight", "bias"]
    assert ours.eps == plain.eps
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_wrong_number_of_channels_is_refused() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        ann.LayerNorm(12)(torch.randn(2, 11))


def test_baselines_say_where_products_follow() -> None:
    """The last norm of a ViT is its result, the others are for products."""
    model = ViT(8, 2, 16, 2, blocks=2)
    wide = [name for name, part in model.named_modules() if isinstance(part, ann.LayerNorm) and not part.narrow]
    assert wide == ["norm"]
    assert sum(type(part) is nn.LayerNorm for part in model.modules()) == 0


@pytest.mark.parametrize("position", ["absolute", "none"])
def test_tokens_of_pictures_are_brought_in_order_once(position: str) -> None:
    """An array with channels first must not stay so: each sum and each norm of every block would be slower."""
    model = ItrSA(16, 2, grid=(3, 3), blocks=2, position=position)  # type: ignore[arg-type]
    orders: list[bool] = []
    for part in model.modules():
        if isinstance(part, ann.LayerNorm):
            part.register_forward_pre_hook(lambda _, inputs: orders.append(inputs[0].is_contiguous()))
    tokens = torch.randn(2, 16, 9).transpose(1, 2)
    found = model(tokens, 2)
    assert orders == [True] * 7
    assert torch.equal(found, model(tokens.contiguous(), 2))
