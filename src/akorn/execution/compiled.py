"""Compiles a layer's step, with a separate code object for each layer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import FunctionType
from typing import Any

import torch

_copies = count()


def compiled_alone(function: Callable[..., Any], **options: object) -> Callable[..., Any]:
    """A copy of a function, compiled as one graph.

    The compiler counts how often a code object was compiled, up to `torch._dynamo.config.recompile_limit`, and which
    sizes it saw: with its own code object, a layer shares neither with the other layers of a network.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_copies)}")
    alone = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    alone.__kwdefaults__ = function.__kwdefaults__
    return torch.compile(alone, fullgraph=True, **options)  # type: ignore[call-overload]
