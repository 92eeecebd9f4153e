"""Small classifiers and pictures for the tests: templates of random signs, so that an attack has something to find."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from akorn.robustness.config import AkornConfig

SIDE = 8
TINY = AkornConfig(channels=(8, 8, 16), kernels=(3, 3, 3), steps=(1, 2, 1))


class Templates(nn.Module):
    """Logits are the correlations of a picture with ten templates, one of which it contains; `blur` adds random noise,
    and `rough` waves of this height that are shorter than a grey level.
    """

    def __init__(self, blur: float = 0.0, hide: bool = False, side: int = SIDE, rough: float = 0.0) -> None:
        super().__init__()
        drawn = torch.rand(10, 3, side, side, generator=torch.Generator().manual_seed(7))
        self.templates = nn.Parameter((drawn - 0.5).sign())
        self.blur, self.hide, self.rough = blur, hide, rough
        self.fixed: int | None = None

    @property
    def random_start(self) -> bool:
        return self.blur > 0 and self.fixed is None

    def fix_start(self, seed: int | None) -> None:
        self.fixed = seed

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if self.hide:  # rounding has no gradient: the defence that is none
            images = (images * 64).round() / 64
        if self.rough:
            images = images + self.rough * (2000 * images).sin()
        if self.blur:
            if self.fixed is not None:  # the same noise for all pictures
                noise = torch.randn(images.shape[1:], generator=torch.Generator().manual_seed(self.fixed))
            else:
                noise = torch.randn(images.shape, generator=generator)
            images = images + self.blur * noise
        return 40 * torch.einsum("bchw,kchw->bk", images - 0.5, self.templates) / self.templates[0].numel()


def template_pictures(count: int, low: float = 0.01, high: float = 0.06, side: int = SIDE) -> tuple[Tensor, Tensor]:
    """Pictures of the templates with contrasts from low to high, so that ε changes the answer for some: bytes."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % 10
    contrast = torch.linspace(low, high, count)[torch.randperm(count, generator=generator)]
    pictures = 0.5 + contrast[:, None, None, None] * Templates(side=side).templates.detach()[labels]
    return (255 * pictures).round().to(torch.uint8), labels


def write_cifar(folder: Path, train: int = 20, test: int = 12) -> Path:
    """A folder like CIFAR-10's: pictures of ten colours, which are their classes."""
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for number in range(1, 6):
        _write(place / f"data_batch_{number}", train, number)
    _write(place / "test_batch", test, 9)
    names = [f"class{k}" for k in range(10)]
    (place / "batches.meta").write_bytes(pickle.dumps({"label_names": names}))
    return place


def _write(path: Path, count: int, seed: int) -> None:
    colours = np.random.default_rng(0).random((10, 3))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(count) % 10
    pictures = colours[labels][:, :, None, None] + rng.normal(0, 0.1, (count, 3, 32, 32))
    pixels = (255 * pictures.clip(0, 1)).astype(np.uint8)
    path.write_bytes(pickle.dumps({b"data": pixels.reshape(count, -1), b"labels": labels.tolist()}))
