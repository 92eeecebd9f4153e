"""Inside an operator, run code as it would run outside: with gradients, autocast, and the tensors that were passed in.

Torch runs an operator's code below autograd and, in compiled graphs, without autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Thread
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from akorn.execution import launches

Result = TypeVar("Result")


def with_parts(module: nn.Module, parts: list[Tensor], work: Callable[[], Result]) -> Result:
    """Run code while the module has these tensors instead of its own."""
    given = {f"module.{name}": part for (name, _), part in zip(named_parts(module), parts, strict=True)}
    return torch.func.functional_call(_Holder(module), given, (work,))


class _Holder(nn.Module):
    """Makes `functional_call` work with any method of a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[], Result]) -> Result:
        return work()


@contextmanager
def outside(x: Tensor, autocast: torch.dtype | None) -> Iterator[None]:
    """As outside an operator: gradients can be computed, and autocast is as it was when the operator was called."""
    with ExitStack() as stack:
        stack.enter_context(launches.free())  # compiled networks are usually recorded
        if not torch.is_inference_mode_enabled():
            stack.enter_context(torch._C._ForceDispatchKeyGuard(*_usual_keys()))
        kind = x.device.type
        dtype = autocast if autocast is not None else torch.get_autocast_dtype(kind)
        stack.callback(torch.clear_autocast_cache)  # its content must not outlive the recording of a CUDA graph
        stack.enter_context(torch.autocast(kind, dtype, enabled=autocast is not None))
        yield


def leaves(parts: list[Tensor]) -> list[Tensor]:
    """Parameters in the form in which autocast casts each only once."""
    if torch.is_inference_mode_enabled():
        return parts
    return [part.detach().requires_grad_() if part.dtype == torch.float32 else part for part in parts]


@cache
def _usual_keys() -> tuple[Any, Any]:
    """The dispatcher's initial keys of every thread. Inside an operator those of autograd are disabled."""
    found: list[Any] = []

    def ask() -> None:
        found.append((torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()))

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def named_parts(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors that steps may read, by name, without those that compute c, which is an input of the steps."""
    for name, part in (*module.named_parameters(), *module.named_buffers()):
        if name != "bias" and not name.startswith("stimulus."):
            yield name, part
