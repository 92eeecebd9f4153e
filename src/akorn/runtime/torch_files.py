"""Users' files from `torch.save`: only their tensors are ever loaded."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint

from akorn.errors import AkornError


def foreign_objects(path: Path) -> list[str]:
    """Names of the classes and functions because of which `torch.load(…, weights_only=True)` refuses a file.

    None if the file is damaged, not from `torch.save`, or in its format from before 2020, which torch cannot
    inspect.
    """
    try:
        return sorted(get_unsafe_globals_in_checkpoint(path))
    except Exception:  # any bytes may look like a pickle, and errors differ
        return []


def check_dense(tensor: Tensor, path: Path) -> None:
    """AkornError for a tensor that is sparse, quantised, complex or without values."""
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
