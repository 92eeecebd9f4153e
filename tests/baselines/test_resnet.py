"""ResNet-18 for small pictures: its shape, its size, and what a residual block is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from akorn.baselines.resnet import ResidualBlock, ResNet


def test_resnet18_has_the_known_number_of_parameters() -> None:
    model = ResNet()
    count = sum(p.numel() for p in model.parameters()) + 10 * (model.out_channels + 1)  # with a head for ten classes
    assert count == 11_173_962  # the CIFAR form of ResNet-18
    assert sum(isinstance(m, torch.nn.Conv2d) for m in model.modules()) == 17 + 3  # 18 layers with the head; shortcuts
    assert not any(isinstance(m, torch.nn.MaxPool2d) for m in model.modules())


def test_stages_halve_the_resolution() -> None:
    model = ResNet(4, (1, 1, 1)).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 16, 8, 8)
        assert model.stem(torch.zeros(2, 3, 32, 32)).shape == (2, 4, 32, 32)


def test_a_block_without_its_convolutions_is_a_relu() -> None:
    block = ResidualBlock(4, 4).eval()
    with torch.no_grad():
        block.norm2.weight.zero_()
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(block(x), F.relu(x))


def test_a_resnet_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ResNet(4, ())
