"""What a layer asks of its parts and of the arrays it is given."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def check_part(name: str, part: nn.Module | None, channels: int, n: int) -> None:
    """A coupling or Ω that says for which channels, oscillators or N it was made must fit the layer."""
    its_n, width = getattr(part, "n", n), getattr(part, "channels", channels)
    count = getattr(part, "oscillators", None)
    if its_n != n:
        raise ValueError(f"{name} has n={its_n}, the layer n={n}")
    if width != channels:
        raise ValueError(f"{name} is for {width} channels, the layer has {channels}")
    if count is not None and count != channels // n:
        raise ValueError(f"{name} is for {count} oscillators, {channels} channels of n={n} are {channels // n}")


def can_be_looked_at(x: Tensor) -> bool:
    """Whether values may be read here: it waits for the device, which compiling and recording must not do."""
    if torch.compiler.is_compiling() or x.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())
