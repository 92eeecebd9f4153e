"""ItrConv and ViT: what a block computes, weights shared over steps, and the patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from akorn import kernels
from akorn.baselines import ItrConv, ItrConvBlock, PatchEmbedding, ViT


def test_a_block_is_residual_convolutions_and_one_mlp() -> None:
    torch.manual_seed(0)
    block = ItrConvBlock(8, 3, groups=2)
    x = torch.randn(2, 8, 5, 6)
    expected = x
    for _ in range(3):
        expected = expected + F.conv2d(
            F.group_norm(expected, 2, block.norm.weight, block.norm.bias), block.conv.weight, block.conv.bias, padding=1
        )
    hidden = F.gelu(block.mlp[0](F.group_norm(expected, 2)))
    expected = expected + block.mlp[2](hidden)
    torch.testing.assert_close(block(x, 3), expected)
    assert hidden.shape[1] == 16


def test_a_block_takes_fused_parts_that_leave_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from akorn.kernels import convolution
    from akorn.kernels import group_norm as norm

    device = "cuda" if torch.cuda.is_available() else "cpu"  # there in Triton's interpreter
    torch.manual_seed(0)
    block = ItrConvBlock(8, 3, groups=2).to(device)
    block.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    x = torch.randn(2, 8, 4, 4, device=device).contiguous(memory_format=torch.channels_last)
    expected = block(x.contiguous(), 2)
    called: list[str] = []

    def counted(name: str, fused: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: called.append(name) or fused(*given)  # type: ignore[func-returns-value]

    monkeypatch.setattr(kernels, "_interpreted", True)
    monkeypatch.setattr(norm, "group_norm", counted("norm", norm.group_norm))
    monkeypatch.setattr(convolution, "conv2d", counted("convolution", convolution.conv2d))
    for module in block.modules():
        module.register_forward_hook(lambda *hooked: assert_last(hooked[2]))
    found = block(x.requires_grad_(), 2)
    assert called == 3 * ["norm", "convolution"] + ["convolution"]  # two steps and the MLP's two
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    found.sum().backward()
    assert x.grad is not None
    assert_last(x.grad)


def assert_last(x: torch.Tensor) -> None:
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_steps_share_their_weights_and_blocks_do_not() -> None:
    one, two = ItrConv(12, 5), ItrConv(12, 5, blocks=2)
    assert 2 * sum(p.numel() for p in one.parameters()) == sum(p.numel() for p in two.parameters())
    x = torch.randn(1, 12, 4, 4)
    torch.testing.assert_close(two(x, 2), two.blocks[1](two.blocks[0](x, 2), 2))


def test_a_compiled_step_is_the_step() -> None:
    torch.manual_seed(0)
    block = ItrConvBlock(8, 3)
    x = torch.randn(1, 8, 4, 4)
    expected = block(x, 2)
    block.compile_step(backend="eager")
    torch.testing.assert_close(block(x, 2), expected)


def test_impossible_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="odd size, got 4"):
        ItrConvBlock(8, 4)
    with pytest.raises(ValueError, match="blocks=0"):
        ItrConv(8, 3, blocks=0)
    with pytest.raises(ValueError, match="steps must be"):
        ItrConv(8, 3)(torch.zeros(1, 8, 4, 4), 0)


def test_a_patch_is_mapped_alone() -> None:
    torch.manual_seed(0)
    patches = PatchEmbedding(3, 5, 4)
    images = torch.rand(2, 3, 8, 12)
    found = patches(images)
    assert found.shape == (2, 5, 2, 3)
    other = images.clone()
    other[:, :, :4, 4:8] = 0
    changed = (patches(other) != found).any(1)
    assert changed.nonzero().tolist() == [[0, 0, 1], [1, 0, 1]]
    flat = images[0, :, 4:, :4].flatten()
    torch.testing.assert_close(found[0, :, 1, 0], patches.map.weight.flatten(1) @ flat + patches.map.bias)
    with pytest.raises(ValueError, match="10 × 8 pixels"):
        patches(torch.zeros(1, 3, 10, 8))


@pytest.mark.parametrize("norm", [True, False])
def test_a_vit_gives_a_feature_a_patch(norm: bool) -> None:
    torch.manual_seed(0)
    vit = ViT(8, 2, 16, 4, image_channels=1, blocks=2, norm=norm)
    features = vit(torch.rand(3, 1, 8, 8))
    assert features.shape == (3, 16, 4, 4)
    means = features.mean(1)
    assert (means.abs().max().item() < 1e-5) == norm  # LayerNorm leaves no mean
    with pytest.raises(ValueError, match="patches of 3"):
        ViT(8, 3, 16, 4)
