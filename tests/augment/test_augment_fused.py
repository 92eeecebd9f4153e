"""The fused kernel makes the same views as the plain forms from the same random numbers; and when it is used."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from akorn import kernels
from akorn.augment import AugmentConfig, augment, two_views

if find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

from akorn.augment import fused

pytestmark = pytest.mark.usefixtures("poisoned")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # there tests/conftest.py has turned the interpreter on
CIFAR = AugmentConfig(scale=(0.2, 1.0), flip=0.5, jitter=1.0, grey=0.0)
COUNT = 6
WHOLE = replace(CIFAR, scale=(1, 1), ratio=(1, 1))


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(count: int, channels: int, height: int, width: int, *, small: bool) -> Tensor:
    numbers = torch.rand(count, channels, height, width, generator=generator())
    return (255 * numbers).to(torch.uint8) if small else numbers


@pytest.mark.parametrize(
    ("config", "channels", "own", "size"),
    [
        (CIFAR, 3, (32, 32), (32, 32)),
        (AugmentConfig(), 3, (32, 32), (32, 32)),
        (AugmentConfig(), 1, (20, 20), (20, 20)),
        (AugmentConfig(flip=0.5), 3, (40, 40), (40, 40)),  # more pixels than a program has at once
        (AugmentConfig(flip=1.0), 3, (32, 24), (16, 16)),  # shrunk
        (replace(CIFAR, scale=(0.8, 1.0)), 3, (10, 40), (12, 12)),  # often no try fits
        (replace(CIFAR, scale=(1, 1), ratio=(1, 1)), 3, (10, 41), (12, 12)),  # never, and the middle is no whole number
        (WHOLE, 3, (9, 13), (9, 13)),  # no crop
        (replace(WHOLE, flip=0.0, hue=0.0, grey=0.5), 3, (8, 8), (8, 8)),
        (replace(AugmentConfig(), jitter=0.0, grey=0.0), 3, (8, 8), (8, 8)),
        (replace(WHOLE, brightness=1.0, contrast=1.0, saturation=1.0, hue=0.5), 3, (8, 8), (8, 8)),
    ],
)
@pytest.mark.parametrize("small", [True, False], ids=["bytes", "floats"])
def test_same_views_as_the_plain_forms(config, channels, own, size, small) -> None:
    images = pictures(COUNT, channels, *own, small=small)
    wanted = two_views(images, config, generator(), size=size)
    crop = config.scale != (1, 1) or config.ratio != (1, 1) or own != size
    options = {"crop": crop, "jitter": config.jitter > 0}
    numbers = torch.rand(2 * COUNT * fused.columns(config, **options), generator=generator()).to(DEVICE)
    found = fused.fused_views(images.to(DEVICE), numbers, config, size, 2, **options)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=1e-5)
    assert not torch.equal(found[:COUNT], found[COUNT:])


def test_pictures_that_are_gapped_in_memory() -> None:
    images = pictures(4, 3, 8, 8, small=False)
    numbers = torch.rand(4 * fused.columns(CIFAR, crop=True, jitter=True), generator=generator()).to(DEVICE)
    made = [
        fused.fused_views(array, numbers, CIFAR, (8, 8), 1, crop=True, jitter=True)
        for array in (images.to(DEVICE), images.to(DEVICE).contiguous(memory_format=torch.channels_last))
    ]
    assert torch.equal(*made)


def test_augment_takes_it_where_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_interpreted", True)
    calls: list[tuple[int, ...]] = []
    make = fused.fused_views

    def spy(images: Tensor, *args: object, **options: object) -> Tensor:
        calls.append(tuple(images.shape))
        return make(images, *args, **options)

    monkeypatch.setattr(fused, "fused_views", spy)
    images = pictures(3, 3, 8, 8, small=True).to(DEVICE)
    noisy = augment(images, replace(CIFAR, noise=0.5), torch.Generator(DEVICE).manual_seed(0))
    clean = augment(images, CIFAR, torch.Generator(DEVICE).manual_seed(0))
    assert calls == [(3, 3, 8, 8)] * 2
    assert (noisy - clean).std() > 0.1
    assert two_views(images, CIFAR, size=(4, 4)).shape == (6, 3, 4, 4)
    assert len(calls) == 3

    augment(images.double() / 255, CIFAR)  # neither bytes nor float32
    augment(images, CIFAR, size=(1, 1))  # shrunk by more than it knows
    augment(images, replace(WHOLE, jitter=0.0))  # a flip alone
    kernels.enable(False)
    try:
        augment(images, CIFAR)
    finally:
        kernels.enable(True)
    assert len(calls) == 3


def test_impossible_crops_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_interpreted", True)
    with pytest.raises(ValueError, match="scale must be"):
        augment(pictures(2, 3, 8, 8, small=True).to(DEVICE), replace(CIFAR, scale=(0.5, 1.5)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_records_it() -> None:
    images = pictures(64, 3, 32, 32, small=True).cuda()
    draws = torch.Generator("cuda").manual_seed(0)
    two_views(images, AugmentConfig(), draws)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(draws)
    with torch.cuda.graph(graph):
        recorded = two_views(images, AugmentConfig(), draws)
    draws.manual_seed(7)
    graph.replay()
    one = recorded.clone()
    graph.replay()
    assert not torch.equal(one, recorded)  # the generator goes on
    assert torch.equal(one, two_views(images, AugmentConfig(), torch.Generator("cuda").manual_seed(7)))
