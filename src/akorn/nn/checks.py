"""What a layer asks of its parts and of the arrays it is given."""

from __future__ import annotations

from operator import index

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


def whole_steps(steps: object) -> int:
    """A number of steps as a plain int; ValueError unless it is a whole number of at least 1."""
    try:
        count = index(steps)  # type: ignore[arg-type]  # takes NumPy's whole numbers too, and no fractions
    except TypeError:
        raise ValueError(f"steps must be a whole number, got {steps!r}") from None
    if isinstance(steps, bool):
        raise ValueError(f"steps must be a whole number, got {steps!r}")
    if count < 1:
        raise ValueError(f"steps must be at least 1, got {count}")
    return count


def check_finite(**arrays: object) -> None:
    """ValueError that names the first of these arrays with NaN or infinite values, of those that can be looked at.

    Their sum tells: one pass an array and one wait for the device. Values are counted only where it is not finite.
    """
    seen = {name: a.detach() for name, a in arrays.items() if isinstance(a, Tensor) and can_be_looked_at(a)}
    sums = [array.sum(dtype=torch.promote_types(array.dtype, torch.float32)) for array in seen.values()]
    if not sums or sum(sums[1:], sums[0]).isfinite():
        return
    for name, array in seen.items():
        if count := int((~array.isfinite()).sum()):  # none where the sum of large values has overflowed
            raise ValueError(f"{name} of shape {list(array.shape)} has {count} NaN or infinite values")
