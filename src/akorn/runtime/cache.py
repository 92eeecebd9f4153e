"""Where files are kept that can be made again. Torch-free."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path | None:
    """$AKORN_CACHE, or else akorn's part of the user's cache folder; None, for nowhere, where AKORN_CACHE is empty."""
    told = os.environ.get("AKORN_CACHE")
    if told is not None:
        return Path(told) if told else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "akorn"
