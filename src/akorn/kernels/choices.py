"""What was chosen by timing, stored on disk, so that a machine always uses the same forms, with the same rounding.

There is one JSON file per kind of GPU, versions of torch and Triton, and state of the kernels' sources, in
$AKORN_CACHE, or else in the user's cache folder. AKORN_CACHE="" keeps nothing. A file that cannot be read or written is
ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

from akorn._version import __version__
from akorn.errors import AkornError
from akorn.runtime.cache import folder
from akorn.runtime.files import replacing

Choice = TypeVar("Choice", bound=Hashable)


def recall(key: Hashable, choices: Sequence[Choice]) -> Choice | None:
    """The choice of an earlier process, if it is still valid."""
    path = _file()
    stored = _read(str(path)).get(repr(key)) if path is not None else None
    return next((choice for choice in choices if repr(choice) == stored), None)


def remember(key: Hashable, chosen: Hashable) -> None:
    """Store a choice for later processes."""
    path = _file()
    if path is None:
        return
    _read(str(path))[repr(key)] = repr(chosen)
    with contextlib.suppress(OSError, AkornError):
        path.parent.mkdir(parents=True, exist_ok=True)
        everything = {**_load(path), **_read(str(path))}  # another process may have added choices
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def _file() -> Path | None:
    where = folder()
    return where / f"choices-{_machine()}.json" if where is not None else None


@cache
def _machine() -> str:
    """The GPU, the versions and the kernels that a choice is valid for, as part of a file name."""
    import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    versions = f"torch{torch.__version__}-triton{triton.__version__}-akorn{__version__}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{name}-{versions}-{_digest(Path(__file__).parent)}")


def _digest(package: Path) -> str:
    """A few digits that change with the sources of the kernels: unlike a version number, nobody has to remember to
    increase it.

    If the sources are not available as files, only akorn's version distinguishes kernels.
    """
    digest = hashlib.sha256()
    for path in sorted(package.glob("*.py")):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _read(path: str) -> dict[str, str]:
    """The file's content when it was first needed, and the choices made since."""
    return _load(Path(path))


def _load(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
