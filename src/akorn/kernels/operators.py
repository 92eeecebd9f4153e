"""Kernels as torch operators.

`operator` is `torch.library.custom_op`, which `torch.compile` treats as one piece, with a shortcut for eager calls. A
custom operator passes torch's dispatcher several times, each time through Python: that takes some 0.1 ms, longer than
most kernels here. Eager calls on plain arrays go to the function itself, as a `torch.autograd.Function` if gradients
are needed. Both ways run the same code and give the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]
Setup = Callable[..., None]


class Operator:
    """A function of tensors that is registered as a torch operator; see `operator`."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.function = function
        self.custom = torch.library.custom_op(name, function, mutates_args=())
        self._differentiable: type[torch.autograd.Function] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        """The function's results, differentiable if gradients were registered."""
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            return self.custom(*arguments)
        if self._differentiable is not None and torch.is_grad_enabled() and _wants_gradients(arguments):
            return self._differentiable.apply(*arguments)
        return self.function(*arguments)

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function that computes the shapes and types of the results."""
        return self.custom.register_fake(function)

    def register_autograd(self, backward: Backward, *, setup_context: Setup | None = None) -> None:
        """Register the gradients, as for `torch.library.custom_op`."""
        self.custom.register_autograd(backward, setup_context=setup_context)
        keep: Setup = setup_context if setup_context is not None else _keep_nothing
        parts = {
            "forward": staticmethod(self.function),
            "setup_context": staticmethod(keep),
            "backward": staticmethod(backward),
        }
        self._differentiable = type(f"{self.__name__}_function", (torch.autograd.Function,), parts)


def operator(name: str) -> Callable[[Callable[..., Any]], Operator]:
    """Register a function of tensors, which must not change them, as the operator of this name, "akorn::…"."""
    return lambda function: Operator(name, function)


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _wants_gradients(arguments: tuple[Any, ...]) -> bool:
    for argument in arguments:
        if isinstance(argument, Tensor):
            if argument.requires_grad:
                return True
        elif isinstance(argument, list | tuple) and _wants_gradients(tuple(argument)):
            return True
    return False
