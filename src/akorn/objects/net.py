"""What all object-discovery models have in common: the interface of AKOrN and of the baselines.

Models take pictures [B, C, H, W], floats in 0–1 or bytes, and return features [B, K, h, w], one for each patch: C^(L)
for AKOrN, the last block's output for the baselines. For training, a small network turns the features' maximum over all
patches into an embedding. Pictures of other sizes than in training work too: positions are then resized. Colour is
converted for models of grey pictures, and grey for models of colour pictures.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.augment.colour import to_grey
from akorn.augment.image_batch import as_float
from akorn.baselines.vit import PatchEmbedding
from akorn.hub import HubModel
from akorn.nn import GTA, AbsolutePosition, Position, RotaryPosition
from akorn.nn.checks import whole_steps
from akorn.nn.position import Grid
from akorn.objects.config import ModelConfig, check
from akorn.settings import as_json

States = list[list[Tensor]]
"""The states of each block, first to last: at its start and after each step."""
Change = Callable[[Tensor], Tensor]
"""A change of the embedded patches [B, C, h, w]."""


class ObjectsNet(HubModel):
    """What all object-discovery models have in common."""

    task: ClassVar[str] = "objects"
    besides: ClassVar[tuple[str, ...]] = ("extras.",)
    random_start: ClassVar[bool] = False
    """Whether the features depend on a random start."""
    compiled = False
    """Whether `compile_step` was called."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check(config)
        self.config = config
        channels, side = config.channels, config.image_size // config.patch
        self.grid = (side, side)
        self.patches = PatchEmbedding(config.image_channels, channels, config.patch)
        self.head = nn.Sequential(nn.Linear(channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, channels))
        self.extras: nn.Module | None = None
        """What a loss learns besides the model; it is not saved with it."""

    def settings(self) -> dict[str, Any]:
        """The config as JSON values, for config.json."""
        return as_json(self.config)

    def forward(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """The embedding that SimCLR trains, [B, C], float32: an MLP of the features' maximum over all patches."""
        return self.head(self.embed(images, steps, generator)).float()

    def embed(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """[B, C]: the input of the head, the maximum of `features` over all patches."""
        return self.features(images, steps, generator).amax((2, 3))

    def features(
        self,
        images: Tensor,
        steps: int | None = None,
        generator: torch.Generator | None = None,
        change: Change | None = None,
    ) -> Tensor:
        """[B, image channels, H, W] → features [B, C, H/patch, W/patch], float32, after `steps` steps per block.

        steps: by default as many as in training. generator: draws the start, if it is random. change: what is done to
        the embedded patches [B, C, h, w] before anything else, such as hiding some of them.
        """
        return self._look(images, steps, generator, None, change)

    def trajectory(
        self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """The states of every block on the way to the features: [T + 1, B, C, h, w] each, first block first."""
        states: States = []
        self._look(images, steps, generator, states)
        grid = (images.shape[2] // self.config.patch, images.shape[3] // self.config.patch)
        return [torch.stack([as_picture(state, grid) for state in block]).float() for block in states]

    def states(
        self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """The features, and the last block's state x after its last step: [B, C, h, w] each."""
        states: States = []
        features = self._look(images, steps, generator, states)
        grid = (images.shape[2] // self.config.patch, images.shape[3] // self.config.patch)
        return features, as_picture(states[-1][-1], grid).float()

    @abstractmethod
    def compile_step(self, **options: object) -> None:
        """Compile one step of each block, with options of `torch.compile`."""

    @abstractmethod
    def _run(self, c: Tensor, steps: int, generator: torch.Generator | None, states: States | None) -> Tensor:
        """Patches [B, C, h, w] → the last block's output, as a picture or as tokens; appends states to `states`."""

    def resized(self, height: int, width: int) -> Self:
        """The same model for pictures of another size in pixels: it shares all weights, and positions are resized.

        It is for inference; to train at another size, start a run from these weights (`init` of a recipe).
        """
        patch = self.config.patch
        if height < patch or width < patch or height % patch or width % patch:
            raise ValueError(f"pictures of {height} × {width} pixels cannot be cut into patches of {patch}")
        shared: dict[int, Any] = {id(tensor): tensor for tensor in (*self.parameters(), *self.buffers())}
        other = copy.deepcopy(self, shared)
        other.grid = (height // patch, width // patch)
        for module in list(other.modules()):
            if "_compiled" in module.__dict__:
                module._compiled = None  # type: ignore[assignment]  # it was compiled for the positions of this model
            for name, part in list(module.named_children()):
                if isinstance(part, Position):
                    setattr(module, name, resized_position(part, other.grid))
        return other

    def _look(
        self,
        images: Tensor,
        steps: int | None,
        generator: torch.Generator | None,
        states: States | None,
        change: Change | None = None,
    ) -> Tensor:
        images = as_float(images)
        if images.shape[1] != self.config.image_channels:  # colours seen as grey, or grey as a colour
            images = to_grey(images) if self.config.image_channels == 1 else images.expand(-1, 3, -1, -1)
        if tuple(side // self.config.patch for side in images.shape[2:]) != self.grid:
            if self.training and any(isinstance(module, Position) for module in self.modules()):
                raise ValueError(
                    f"positions are learned for pictures of {self.config.image_size} pixels: pictures of"
                    f" {list(images.shape[2:])} can be used in eval mode, not for training"
                )
            return self.resized(*images.shape[2:])._look(images, steps, generator, states, change)
        steps = self.config.steps if steps is None else whole_steps(steps)
        c = self.patches(2 * images - 1)  # [B, C, h, w]
        # Under autocast the patches have 16 bits; states that are carried from step to step must not.
        c = c.to(torch.promote_types(c.dtype, torch.float32))
        c = c if change is None else change(c)
        return as_picture(self._run(c, steps, generator, states), self.grid).float()


def as_tokens(c: Tensor) -> Tensor:
    """[B, C, h, w] → [B, h·w, C]."""
    return c.flatten(2).transpose(1, 2)


def as_picture(x: Tensor, grid: Grid) -> Tensor:
    """Tokens [B, h·w, C] as a picture [B, C, h, w]; a picture stays as it is."""
    return x if x.ndim == 4 else x.transpose(1, 2).unflatten(2, grid)


@torch.no_grad()
def resized_position(position: Position, grid: Grid) -> Position:
    """The same positions on another grid: learned ones are interpolated bilinearly, fixed rotary ones count further."""
    if isinstance(position, GTA | RotaryPosition):
        return position.resize(grid)
    if isinstance(position, AbsolutePosition):
        old = position.embedding  # [tokens, C]
        resized = AbsolutePosition(grid, old.shape[1], learn=isinstance(old, nn.Parameter)).to(old)
        flat = F.interpolate(old.T.reshape(1, -1, *position.grid), size=grid, mode="bilinear", align_corners=False)
        resized.embedding.copy_(flat.flatten(2)[0].T)
        return resized
    raise ValueError(f"positions of the kind {type(position).__name__} cannot be resized")
