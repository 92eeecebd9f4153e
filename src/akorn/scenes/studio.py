"""Batches of random scenes as pictures: drawn, checked for visibility and rendered, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.errors import AkornError
from akorn.scenes import layout as at
from akorn.scenes.draws import key_of, uniform
from akorn.scenes.families import Family
from akorn.scenes.placing import Drafts, draw_scenes, first_attempts
from akorn.scenes.render import (
    BOUNCES,
    CELL_COUNT,
    SAMPLES,
    colours,
    cropped_view,
    geometry,
    labels,
    to_levels,
    whole_view,
)  # fmt: skip
from akorn.scenes.scene import Arrays, as_arrays

_STREAM = 60  # the stream of the number that makes a scene's noise differ


@dataclass(frozen=True)
class Shots:
    """Pictures of some scenes."""

    images: Tensor  # bytes [B, 3, S, S]
    labels: Tensor | None  # bytes [B, S, S]: 0 the ground, 1.. the objects
    depth: Tensor | None  # [B, S, S]
    normals: Tensor | None  # [B, 3, S, S]
    drafts: Drafts


class Studio:
    """Renders the scenes of a family by their numbers: scene i of a seed and split is always the same.

        studio = Studio(family_of("clevr"), "train", seed=0, device="cuda")
        shots = studio.shots(range(256))

    Args:
        family: how scenes are drawn.
        split: a name that keeps sets apart; two splits have no scenes in common.
        seed: the seed.
        device: where they are rendered.
        size: the side of pictures, after the benchmark's crop.
        samples: rays per pixel.

    """

    def __init__(
        self,
        family: Family,
        split: str = "train",
        seed: int = 0,
        device: torch.device | str = "cpu",
        size: int = 128,
        samples: int = SAMPLES,
    ) -> None:
        self.family, self.device, self.samples = family, torch.device(device), samples
        if self.device.type == "mps":  # it has no float64
            raise AkornError("scenes cannot be rendered on an Apple GPU; use the CPU (--device cpu)")
        self.view = cropped_view(size)
        self.key = key_of("akorn scenes", family.name, split, seed)
        self.together = 4 if self.device.type == "cuda" else 1  # fewer queries to a GPU

    @property
    def at_once(self) -> int:
        """How many scenes make a good batch."""
        return 256 if self.device.type == "cuda" else 8

    @staticmethod
    def _checked(numbers: Sequence[int] | NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Numbers of scenes; AkornError if there are none, or if they are not whole numbers from 0."""
        given = list(numbers)
        if not given:
            raise AkornError("there is no scene to render")
        for number in given:
            if not isinstance(number, int | np.integer) or not 0 <= number < 2**64:
                raise AkornError(f"the number of a scene is {number}, expected a whole number from 0")
        return np.array(given, np.uint64)

    def begin(self, numbers: Sequence[int] | NDArray[np.uint64]) -> Drafts:
        """The part of the work that needs no renderer; pass the result to `shots`."""
        return first_attempts(self.family, self.key, self._checked(numbers), self.together)

    def drafts(self, numbers: Sequence[int] | NDArray[np.uint64], begun: Drafts | None = None) -> Drafts:
        """The scenes of these numbers."""
        return draw_scenes(self.family, self.key, self._checked(numbers), self._seen, self.together, begun)

    @torch.no_grad()
    def shots(
        self,
        numbers: Sequence[int] | NDArray[np.uint64],
        *,
        with_labels: bool = True,
        with_geometry: bool = False,
        begun: Drafts | None = None,
    ) -> Shots:
        """Pictures of the scenes of these numbers."""
        drafts = self.drafts(numbers, begun)
        scenes = self.arrays(drafts)
        turns = (uniform(self.key, drafts.numbers, _STREAM) * CELL_COUNT).astype(np.int32)
        light = colours(scenes, self.view, self.samples, BOUNCES, torch.from_numpy(turns).to(self.device))
        found = depth = normals = None
        if with_geometry:
            found, depth, normals = geometry(scenes, self.view)
        elif with_labels:
            found = labels(scenes, self.view)
        return Shots(to_levels(light), found, depth, normals, drafts)

    def arrays(self, drafts: Drafts) -> Arrays:
        """Drafts as arrays on the device."""
        return as_arrays(drafts.rows(), drafts.count, drafts.camera, drafts.lamps, self.device, torch.float32)

    @torch.no_grad()
    def _seen(self, drafts: Drafts) -> NDArray[np.int64]:
        """How many pixels of 320 × 240 each object shows."""
        counts = np.empty((len(drafts), at.MOST), np.int64)
        for low in range(0, len(drafts), 1024):
            part = drafts.taken(np.arange(low, min(low + 1024, len(drafts))))
            found = labels(self.arrays(part), whole_view()).flatten(1)
            sums = torch.stack([(found == k + 1).sum(1) for k in range(at.MOST)], 1)
            counts[low : low + 1024] = sums.cpu().numpy()
        return counts
