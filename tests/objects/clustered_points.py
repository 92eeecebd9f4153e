"""Points that have clusters, and whether two partitions of them are the same."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def blobs(pictures: int, points: int, spread: float, seed: int = 0, width: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(pictures, 6, width, generator=generator, dtype=torch.float64)
    which = torch.randint(6, (pictures, points), generator=generator)
    noise = torch.randn(pictures, points, width, generator=generator, dtype=torch.float64)
    return means.gather(1, which[:, :, None].expand_as(noise)) + spread * noise


def same(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> bool:
    pairs = np.unique(np.stack((ours, theirs)), axis=1).shape[1]
    return pairs == len(np.unique(ours)) == len(np.unique(theirs))
