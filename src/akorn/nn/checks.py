"""What a layer asks of its settings, of its parts and of the arrays it is given."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from akorn.execution.checks import whole_number

__all__ = [
    "NotFiniteError",
    "can_be_looked_at",
    "check_finite",
    "check_module",
    "check_part",
    "described",
    "hooked",
    "one_number",
    "whole_number",
    "whole_steps",
]


class NotFiniteError(ValueError):
    """An array that a layer was given has NaN or infinite values."""


def check_module(name: str, part: object, wanted: str, *, optional: bool = False) -> None:
    """ValueError unless a part can be called, as modules can; a class is none until it is made an object."""
    if isinstance(part, type) or not (callable(part) or (optional and part is None)):
        raise ValueError(f"{name} must be {wanted}{' or None' if optional else ''}, got {described(part)}")


def described(value: object) -> str:
    """A value that was not expected, in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__}: make an object of it, {value.__name__}(…)"
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return repr(value) if value is None or isinstance(value, int | float | str) else type(value).__name__


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


def hooked(module: nn.Module) -> bool:
    """Whether someone listens to a part of the module, forward or backward: hooks run in the plain form alone."""
    return any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        for part in module.modules()
    )


def whole_steps(steps: object) -> int:
    """A number of steps as a plain int; ValueError unless it is a whole number of at least 1."""
    return whole_number("steps", steps)


def one_number(name: str, value: object) -> Tensor:
    """A single finite number as an array of its own, a tensor in its shape and precision; ValueError for all else."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"{name} must be a single number, got {described(value)}")
        plain = type(value) in (Tensor, nn.Parameter) and can_be_looked_at(value)
        if plain and not value.isfinite().all():
            raise ValueError(f"{name} must be finite, got {value.item()}")
        return value.detach().clone()
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a single number, got {described(value)}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return torch.tensor(number)


def check_finite(**arrays: object) -> None:
    """NotFiniteError that names the first of these arrays with NaN or infinite values, of those that can be looked at.

    Their sum tells: one pass an array and one wait for the device. Values are counted only where it is not finite.
    """
    seen = {name: a.detach() for name, a in arrays.items() if isinstance(a, Tensor) and can_be_looked_at(a)}
    sums = [array.sum(dtype=torch.promote_types(array.dtype, torch.float32)) for array in seen.values()]
    if not sums or sum(sums[1:], sums[0]).isfinite():
        return
    for name, array in seen.items():
        if count := int((~array.isfinite()).sum()):  # none where the sum of large values has overflowed
            raise NotFiniteError(f"{name} of shape {list(array.shape)} has {count} NaN or infinite values")
