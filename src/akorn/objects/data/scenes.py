"""Sets whose pictures are rendered: CLEVR's scenes, and textured ones modelled on CLEVRTex. Torch-free until one is
rendered.

Scene i of a split and seed is the same in files, in memory and for evaluation, whatever else is rendered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from akorn.objects.data.picture_sets import Image, Mask
from akorn.objects.data.sets import Wanted

if TYPE_CHECKING:
    import torch

    from akorn.scenes.studio import Shots, Studio


def rendered(name: str) -> Callable[[Wanted], tuple[Image, Mask | None]]:
    """The function that renders pictures of a set into memory."""

    def render(wanted: Wanted) -> tuple[Image, Mask | None]:
        from akorn.scenes.families import family_of
        from akorn.scenes.render import SAMPLES
        from akorn.scenes.studio import Studio

        on_cpu = wanted.device.startswith("mps")  # a model may be on an Apple GPU, which cannot render
        device = renderer_device("cpu" if on_cpu else wanted.device)
        samples = SAMPLES if wanted.samples is None else wanted.samples
        studio = Studio(family_of(name), wanted.split, wanted.seed, device, samples=samples)
        side = len(studio.view.rows)
        images = np.empty((wanted.count, 3, side, side), np.uint8)
        masks = np.empty((wanted.count, side, side), np.int16) if wanted.labels else None
        for low, shots in batches(studio, wanted.start, wanted.count, labels=wanted.labels):
            high = low + len(shots.images)
            images[low:high] = shots.images.cpu().numpy()
            if masks is not None and shots.labels is not None:
                masks[low:high] = shots.labels.cpu().numpy()
            if wanted.progress is not None:
                wanted.progress(high, wanted.count)
        return images, masks

    return render


def batches(
    studio: Studio, start: int, count: int, *, labels: bool = True, geometry: bool = False
) -> Iterator[tuple[int, Shots]]:
    """Scenes `start` to `start + count` in batches, each with the number of scenes before it."""
    for low in range(0, count, studio.at_once):
        numbers = np.arange(start + low, start + min(low + studio.at_once, count), dtype=np.uint64)
        yield low, studio.shots(numbers, with_labels=labels, with_geometry=geometry)


def numbers_of(indices: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Numbers of scenes that belong to a batch of an endless set: new ones for every batch of every epoch.

    An epoch's batches are slices of its own permutation, so the digest of a batch's indices identifies it. A run that
    resumes from a checkpoint continues with the same scenes.
    """
    digest = hashlib.sha256(np.asarray(indices, np.int64).tobytes()).digest()
    first = np.uint64(int.from_bytes(digest[:8], "big") >> 1)
    return first + np.arange(len(indices), dtype=np.uint64)


def renderer_device(name: str = "auto") -> torch.device:
    """The device to render on; auto takes the CPU instead of an Apple GPU, which lacks float64."""
    import torch

    from akorn.runtime.devices import pick_device

    device = pick_device(name)
    return torch.device("cpu") if name == "auto" and device.type == "mps" else device
