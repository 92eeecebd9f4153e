"""Whether kernels keep what their gradients could compute again. Needs no Triton to import.

A pass forward keeps little, since all that it keeps stays until the backward pass. Code that goes backward right after
going forward, such as `akorn.execution.recompute` one step at a time, has room to keep more, and says so here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()  # backward passes of several devices run in threads of their own
_inside = 0


@contextmanager
def keeping() -> Iterator[None]:
    """What runs inside may keep more for its backward pass, which follows at once."""
    global _inside
    with _lock:
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1


def kept() -> bool:
    """Whether the code runs inside `keeping`."""
    return _inside > 0
