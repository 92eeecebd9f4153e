"""Whether kernels keep what their gradients could recompute. Does not need Triton.

A forward pass keeps little, since everything it keeps stays until the backward pass. Code that runs the backward pass
right after the forward pass, such as `akorn.execution.recompute` step by step, has memory to keep more, and says so
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()  # backward passes of several devices run in separate threads
_inside = 0


@contextmanager
def keeping() -> Iterator[None]:
    """A context in which kernels may keep more for the backward pass, which follows immediately."""
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
