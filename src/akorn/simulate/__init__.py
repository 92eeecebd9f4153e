"""Oscillators without learning: a fish, travelling waves, and the classical Kuramoto model.

from akorn.simulate import simulate

result = simulate("fish", steps=200, seed=1)
result.energies, result.order, result.frames
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Callable(ModuleType):
    """`akorn.simulate` is this package and the function in it: otherwise importing one would hide the other."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.simulate(*args, **options)


sys.modules[__name__].__class__ = _Callable
