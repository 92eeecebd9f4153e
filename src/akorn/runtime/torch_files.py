"""Files of `torch.save` that a user brings: only their tensors are ever loaded."""

from __future__ import annotations

from pathlib import Path

from torch.serialization import get_unsafe_globals_in_checkpoint


def foreign_objects(path: Path) -> list[str]:
    """Names of the classes and functions in a file for whose sake `torch.load(…, weights_only=True)` refuses it.

    None where the file is damaged, not of `torch.save`, or in its format of before 2020, which torch does not look
    into.
    """
    try:
        return sorted(get_unsafe_globals_in_checkpoint(path))
    except Exception:  # any bytes may be taken for a pickle, and fail in their own way
        return []
