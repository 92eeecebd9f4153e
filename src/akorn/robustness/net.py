"""What all CIFAR models have in common: the interface of AKOrN and of the baselines.

Models take pictures [B, 3, H, W] with values from 0 to 1 and give logits [B, classes]. So an attack that works on
pictures needs no scaling of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from akorn.hub import HubModel
from akorn.robustness.config import ModelConfig
from akorn.settings import as_json


class CifarNet(HubModel):
    """What all CIFAR models have in common: 2·pixel − 1, features, pooling, and a linear map to the classes.

    Args:
        config: the model's settings, already checked.
        channels: number of channels of the features.

    """

    task: ClassVar[str] = "robustness"

    def __init__(self, config: ModelConfig, channels: int) -> None:
        super().__init__()
        self.config = config
        self.fixed_start: int | None = None
        """The seed of the one start that all pictures get; None for a new random start for each."""
        self._drawn: tuple[object, Tensor] | None = None  # the last start that a seed drew
        self.head: nn.Module
        if config.head == "classes":
            self.head = nn.Linear(channels, config.classes)
        else:  # SimCLR's: thrown away after pre-training
            self.head = nn.Sequential(nn.Linear(channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, channels))

    @property
    def random_start(self) -> bool:
        """Whether two calls with the same pictures may differ."""
        return False

    def fix_start(self, seed: int | None) -> None:
        """Give all pictures the one start that `seed` draws, so that the model is a function; None undoes it."""
        if seed is not None and not 0 <= seed < 2**63:
            raise ValueError(f"a seed is a whole number from 0 to 2⁶³ − 1, got {seed}")
        self.fixed_start = seed

    def settings(self) -> dict[str, Any]:
        """The config as JSON values, for config.json."""
        return as_json(self.config)

    def forward(
        self, images: Tensor, generator: torch.Generator | None = None, start_seed: int | None = None
    ) -> Tensor:
        """Logits [B, classes], float32, of pictures [B, 3, H, W] with values from 0 to 1.

        generator: draws the starts, one per picture. start_seed: draws one start for all pictures instead.
        """
        return self.head(self.embed(images, generator, start_seed)).float()

    def embed(self, images: Tensor, generator: torch.Generator | None = None, start_seed: int | None = None) -> Tensor:
        """[B, C]: the input of the head, the features' mean over all positions (their maximum for SimCLR's head)."""
        c = self.features(images, generator, start_seed)  # [B, C, h, w]
        return c.mean((2, 3)) if self.config.head == "classes" else c.amax((2, 3))

    def features(
        self, images: Tensor, generator: torch.Generator | None = None, start_seed: int | None = None
    ) -> Tensor:
        """[B, C, h, w]: what the last block gives for pictures [B, 3, H, W] with values from 0 to 1."""
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise ValueError(f"pictures are [B, 3, H, W] from 0 to 1, got {images.dtype} {list(images.shape)}")
        return self._look(2 * images - 1, generator, start_seed if start_seed is not None else self.fixed_start)

    @abstractmethod
    def _look(self, pixels: Tensor, generator: torch.Generator | None, seed: int | None) -> Tensor:
        """[B, 3, H, W] with values from −1 to 1 → [B, C, h, w]."""

    def _one_start(self, like: Tensor, seed: int, draw: Callable[[Tensor, torch.Generator], Tensor]) -> Tensor:
        """What a seed draws, on the CPU: the same on every device and for every picture of the batch `like`."""
        key = (seed, like.shape[1:], like.device, like.dtype)
        if self._drawn is None or self._drawn[0] != key:
            drawn = draw(torch.empty(1, *like.shape[1:]), torch.Generator().manual_seed(seed))
            self._drawn = (key, drawn.to(like))
        return self._drawn[1].expand_as(like)

    def compile_step(self, **options: object) -> None:
        """Compile what is worth compiling, with options of `torch.compile`: by default the whole model."""
        self.compile(**options)
