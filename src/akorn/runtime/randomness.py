"""The random states of a process, as tensors that can be saved and restored."""

import hashlib
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def derive_seed(*parts: int | str) -> int:
    """Return a seed of 63 bits that depends on all parts: close seeds give unrelated streams."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_everything(*parts: int | str) -> None:
    """Seed Python, NumPy and torch (CPU and every device) from the parts."""
    seed = derive_seed(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (libraries that a task uses may draw from the global one)
    torch.manual_seed(seed)


def capture(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the global generators: Python, NumPy, torch's CPU and torch's `device`."""
    _, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    states = {
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor(math.nan if gauss is None else gauss, dtype=torch.float64),
        "numpy": torch.tensor([*map(int, keys), int(position), int(has_gauss)], dtype=torch.int64),
        "numpy_gauss": torch.tensor(float(cached), dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        states["device"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["device"] = torch.mps.get_rng_state()
    return states


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore what `capture` returned."""
    gauss = float(states["python_gauss"])
    random.setstate((3, tuple(states["python"].tolist()), None if math.isnan(gauss) else gauss))
    *keys, position, has_gauss = states["numpy"].tolist()
    cached = float(states["numpy_gauss"])
    state = ("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, cached)
    np.random.set_state(state)  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["device"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(states["device"])


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Restore the global generators after the block, whatever random numbers it draws."""
    states = capture(device)
    try:
        yield
    finally:
        restore(states, device)
