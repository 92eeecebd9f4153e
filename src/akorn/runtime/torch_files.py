"""Files of `torch.save` that a user brings: only their tensors are ever loaded."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint

from akorn.errors import AkornError


def foreign_objects(path: Path) -> list[str]:
    """Names of the classes and functions in a file for whose sake `torch.load(…, weights_only=True)` refuses it.

    None where the file is damaged, not of `torch.save`, or in its format of before 2020, which torch does not look
    into.
    """
    try:
        return sorted(get_unsafe_globals_in_checkpoint(path))
    except Exception:  # any bytes may be taken for a pickle, and fail in their own way
        return []


def check_dense(tensor: Tensor, path: Path) -> None:
    """AkornError for a tensor that is sparse, quantised, complex or without values: no plain numbers."""
    kind = None
    if tensor.is_meta:
        kind = "without values (meta)"
    elif tensor.layout != torch.strided:
        kind = "sparse"
    elif tensor.is_quantized:
        kind = "quantised"
    elif tensor.is_complex():
        kind = "complex"
    if kind is not None:
        raise AkornError(f"{path} holds a tensor that is {kind}, expected a dense one of plain numbers")
