"""Training pictures that are never stored: scenes are rendered while the model trains, and none comes twice."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from akorn.engine.task import Batch
from akorn.objects.data.generated import default_count
from akorn.objects.data.scenes import numbers_of
from akorn.scenes.families import family_of
from akorn.scenes.placing import Drafts
from akorn.scenes.render import SAMPLES
from akorn.scenes.studio import Studio

_AHEAD = 8  # batches whose scenes may be drawn ahead


class EndlessScenes:
    """An endless set; `len` is the length of an epoch. A thread draws places ahead; pictures are rendered on request.

    Args:
        name: a family of scenes.
        seed: the seed.
        device: where they are rendered, and where the batches are.
        size: the side of pictures.
        count: the length of an epoch; None for the training part of the set in the paper.
        samples: rays per pixel.

    """

    def __init__(
        self,
        name: str,
        seed: int = 0,
        device: torch.device | str = "cpu",
        size: int = 128,
        count: int | None = None,
        samples: int = SAMPLES,
    ) -> None:
        self.studio = Studio(family_of(name), "train", seed, device, size, samples)
        self.count = default_count(name, "train") if count is None else count
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="akorn-scenes")
        self._waiting: dict[tuple[int, ...], Future[Drafts]] = {}

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> Batch:
        """Pictures as bytes [B, 3, S, S] on the device, of scenes that no other batch has."""
        key = tuple(indices.tolist())
        begun = self._waiting.pop(key, None)
        numbers = numbers_of(list(key))
        shots = self.studio.shots(numbers, with_labels=False, begun=None if begun is None else begun.result())
        return (shots.images,)

    def expect(self, indices: Tensor) -> None:
        """Start drawing the scenes of a batch that will be requested."""
        key = tuple(indices.tolist())
        if key not in self._waiting and len(self._waiting) < _AHEAD:
            self._waiting[key] = self._pool.submit(self.studio.begin, numbers_of(list(key)))


def endless_fingerprint(name: str, seed: int, count: int | None, size: int, samples: int | None = None) -> str:
    """A digest of what an endless set depends on."""
    said = f"akorn endless scenes 1/{name}/{seed}/{count}/{size}"
    if samples is not None:  # runs without it keep their digest
        said += f"/{samples}"
    return hashlib.sha256(said.encode()).hexdigest()


__all__ = ["EndlessScenes", "endless_fingerprint"]
