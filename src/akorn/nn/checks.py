"""Checks of a layer's settings, parts and input arrays."""

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
    "check_tensor",
    "described",
    "explained",
    "hooked",
    "one_number",
    "whole_number",
    "whole_steps",
]


class NotFiniteError(ValueError):
    """An input array of a layer has NaN or infinite values."""


def check_module(name: str, part: object, wanted: str, *, optional: bool = False) -> None:
    """ValueError unless a part is callable, as modules are; a class must be instantiated first."""
    if isinstance(part, type) or not (callable(part) or (optional and part is None)):
        raise ValueError(f"{name} must be {wanted}{' or None' if optional else ''}, got {described(part)}")


def described(value: object) -> str:
    """A short description of an unexpected value."""
    if isinstance(value, type):
        return f"the class {value.__name__}: instantiate it, {value.__name__}(…)"
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return repr(value) if value is None or isinstance(value, int | float | str) else type(value).__name__


def check_part(name: str, part: nn.Module | None, channels: int, n: int) -> None:
    """A coupling or Ω that declares its channels, oscillators or N must match the layer."""
    its_n, width = getattr(part, "n", n), getattr(part, "channels", channels)
    count = getattr(part, "oscillators", None)
    if its_n != n:
        raise ValueError(f"{name} has n={its_n}, but the layer has n={n}")
    if width != channels:
        raise ValueError(f"{name} is for {width} channels, but the layer has {channels}")
    if count is not None and count != channels // n:
        raise ValueError(f"{name} is for {count} oscillators, but {channels} channels with n={n} are {channels // n}")


def check_tensor(name: str, value: object) -> None:
    """ValueError unless it is a tensor."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor, got {described(value)}")


def explained(error: RuntimeError, x: Tensor, module: nn.Module) -> str | None:
    """What a torch error means if x has another type, or is on another device, than the weights; None if not."""
    weight = next((weight for weight in module.parameters() if weight.is_floating_point()), None)
    if weight is None:
        return None
    told = str(error)
    place = x.device.type
    autocast = torch.amp.is_autocast_available(place) and torch.is_autocast_enabled(place)
    kind, found, wanted = "type", str(x.dtype), str(weight.dtype)
    fitting = x.dtype == weight.dtype or autocast or "type" not in told
    if fitting:
        kind, found, wanted = "device", str(x.device), str(weight.device)
        fitting = x.device == weight.device or "device" not in told
    if fitting:
        return None
    moved = f".to({wanted})" if kind == "type" else f'.to("{wanted}")'
    return f"x has the {kind} {found}, but the weights have {wanted}: convert one of them, as x{moved} does"


def can_be_looked_at(x: Tensor) -> bool:
    """Whether values may be read here: it waits for the device, which is forbidden while compiling or recording."""
    if torch.compiler.is_compiling() or x.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def hooked(module: nn.Module) -> bool:
    """Whether a part of the module has forward or backward hooks, which run only in the plain form."""
    return any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        for part in module.modules()
    )


def whole_steps(steps: object) -> int:
    """A number of steps as a plain int; ValueError unless it is a whole number of at least 1."""
    return whole_number("steps", steps)


def one_number(name: str, value: object) -> Tensor:
    """A single finite number as a new tensor (a given tensor keeps its shape and precision); otherwise ValueError."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"{name} must be a single number, got {described(value)}")
        plain = type(value) in (Tensor, nn.Parameter) and can_be_looked_at(value)
        if plain and not value.isfinite().all():
            raise ValueError(f"{name} must be finite, got {value.item()}")
        return value.detach().clone()
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a single number, got {described(value)}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return torch.tensor(number)


def check_finite(**arrays: object) -> None:
    """NotFiniteError with the name of the first array that has NaN or infinite values, if values may be read.

    Checking their sum takes one pass per array and one wait for the device. Values are counted only if it is not
    finite.
    """
    seen = {name: a.detach() for name, a in arrays.items() if isinstance(a, Tensor) and can_be_looked_at(a)}
    sums = [array.sum(dtype=torch.promote_types(array.dtype, torch.float32)) for array in seen.values()]
    if not sums or sum(sums[1:], sums[0]).isfinite():
        return
    for name, array in seen.items():
        if count := int((~array.isfinite()).sum()):  # none if the sum of large values has overflowed
            raise NotFiniteError(f"{name} of shape {list(array.shape)} has {count} NaN or infinite values")
