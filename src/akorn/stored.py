"""How a model's tensors are stored in its file: in 16 or 32 bits, or the large ones in 8 bits with a scale per row.

In `int8`, a large matrix or kernel w becomes whole numbers q from −127 to 127, and one scale s for each row, that is,
for each output (the first axis):

    s_i = max_j |w_ij| / 127,    q_ij = round(w_ij / s_i),    w_ij ≈ s_i q_ij

so that no number is off by more than half its scale. A kernel has one scale for each output channel, and GTA's matrices
have one for each token. In the file, q has the tensor's own name; that of its scales ends in `.int8_scale`. Scales are
bfloat16: with their 8 significant bits all products s q are exact in float32, so writing what was read gives the same
file. Vectors and small tensors are float16.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.settings import StoredType

__all__ = ["SCALE", "WORTH", "dequantise", "from_stored", "quantise", "to_stored"]

SCALE = ".int8_scale"
"""What follows a tensor's name in the name of its scales."""

WORTH = 2**14
"""The fewest numbers for which 8 bits are worth it, as in 128 × 128; smaller tensors would save next to nothing."""

_LARGEST = 127
_ROW = 16  # numbers in a row, so that scales are a small part


def to_stored(state: Mapping[str, Tensor], dtype: StoredType) -> dict[str, Tensor]:
    """The tensors as they are stored; AkornError for values that are not finite or too large."""
    if dtype not in get_args(StoredType):
        raise ValueError(f"dtype is {dtype!r}, expected one of {', '.join(get_args(StoredType))}")
    stored: dict[str, Tensor] = {}
    for name, tensor in state.items():
        value = tensor.detach().cpu()
        if dtype == "int8" and _pays(name, value):
            _check_finite(name, value, dtype)
            stored[name], stored[name + SCALE] = quantise(value)
        else:
            stored[name] = _narrow(name, value, "float16" if dtype == "int8" else dtype)
    return stored


def from_stored(stored: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    """What `to_stored` was given, up to rounding: floating point again. AkornError says what is wrong with scales."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        base = name.removesuffix(SCALE)
        if base != name:
            if base not in stored or stored[base].dtype != torch.int8:
                raise AkornError(f"{file}: {name!r} is a scale, but there is no tensor {base!r} of 8-bit integers")
        elif tensor.dtype == torch.int8:
            _check_scale(name, tensor, stored.get(name + SCALE), file)
            tensors[name] = dequantise(tensor, stored[name + SCALE])
        else:
            tensors[name] = tensor
    return tensors


def quantise(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers q, of the tensor's shape, and scales s, one for each index of its first axis.

    A row of zeros has the scale 0, and so has one whose scale would be too small for a normal number (1e-38).
    """
    rows = tensor.double().flatten(1)  # [rows, numbers]: no error from the division
    scale = (rows.abs().amax(1) / _LARGEST).bfloat16()
    scale[scale < torch.finfo(torch.bfloat16).tiny] = 0
    divisor = torch.where(scale > 0, scale, torch.inf).double()  # zeros come out of the latter
    whole = (rows / divisor[:, None]).round().clamp(-_LARGEST, _LARGEST)
    return whole.to(torch.int8).reshape(tensor.shape), scale


def dequantise(whole: Tensor, scale: Tensor) -> Tensor:
    """s q in float32."""
    return whole.float() * scale.float().reshape(*scale.shape, *[1] * (whole.ndim - scale.ndim))


def _pays(name: str, tensor: Tensor) -> bool:
    """Whether 8 bits are for this tensor: a large one with rows, no statistic."""
    large = tensor.ndim >= 2 and tensor.numel() >= max(WORTH, _ROW * len(tensor))
    return large and tensor.is_floating_point() and not _statistic(name)


def _narrow(name: str, tensor: Tensor, dtype: Literal["float16", "bfloat16", "float32"]) -> Tensor:
    """Floating point in `dtype`, everything else unchanged.

    BatchNorm's statistics also stay unchanged: a variance may be too large for 16 bits.
    """
    if not tensor.is_floating_point() or _statistic(name):
        return tensor.contiguous()
    narrow = tensor.to(getattr(torch, dtype)).contiguous()
    _check_finite(name, narrow, dtype)
    return narrow


def _statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var")


def _check_finite(name: str, tensor: Tensor, dtype: StoredType) -> None:
    if not bool(tensor.isfinite().all()):
        raise AkornError(f"tensor {name!r} has values that are not finite, or overflow in {dtype}: nothing was written")


def _check_scale(name: str, tensor: Tensor, scale: Tensor | None, file: Path) -> None:
    """One line if a tensor of 8-bit integers cannot be scaled."""
    if scale is None:
        raise AkornError(f"{file}: tensor {name!r} is stored in 8 bits, but its scale {name + SCALE!r} is missing")
    rows, found = list(tensor.shape[:1]), list(scale.shape)
    if found != rows or not scale.is_floating_point():
        kind = str(scale.dtype).removeprefix("torch.")
        raise AkornError(
            f"{file}: {name + SCALE!r} is {kind} {found}, expected one floating-point scale per row, {rows}"
        )
    if not bool((scale.isfinite() & (scale >= 0)).all()):
        raise AkornError(f"{file}: {name + SCALE!r} has scales that are negative or not finite")
