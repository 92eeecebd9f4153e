"""An attack adapted to AKOrN: it uses gradients of the last Kuramoto step of each layer only.

With steps as large as γ = 1 the states are chaotic: a gradient through several steps is valid over far less than a grey
level (`attacks.gradient_agreement`), and for one start only. But a picture acts on every layer through C, which drives
all its steps. How the last step responds to C, with the state before it held fixed, is smooth and carries much the same
information. So only that step counts in the backward pass. The forward pass does not change: an adversarial picture
found with these gradients fools the model as it is (the backward-pass approximation of Athalye et al.).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from akorn import nn as akn
from akorn.errors import AkornError


def adaptable(model: nn.Module) -> bool:
    """Whether the model has Kuramoto layers that C drives; without C no gradient would be left."""
    return getattr(getattr(model, "config", None), "wiring", None) == "two-streams"


def check_adaptable(model: nn.Module) -> None:
    """AkornError unless the model can be attacked in this way."""
    if not adaptable(model):
        raise AkornError("adaptive attacks are for AKOrN: the model has no Kuramoto layers, or none that C drives")


@contextmanager
def last_steps(model: nn.Module) -> Iterator[None]:
    """Inside the context, the model's gradients go through the last step of each Kuramoto layer only."""
    check_adaptable(model)
    layers = [module for module in model.modules() if isinstance(module, akn.KuramotoLayer)]
    hooks = [layer.register_forward_pre_hook(_all_but_one, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _all_but_one(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Run all steps but the last without gradients, and leave the last one to the layer."""
    assert isinstance(layer, akn.KuramotoLayer)

    def run(x: Tensor, c: Tensor, steps: int, on_sphere: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if steps == 1:
            return (x.detach(), c, 1), {"on_sphere": on_sphere}
        with torch.no_grad():
            x = layer.evolve(x, c, steps - 1, on_sphere=on_sphere).x
        return (x, c, 1), {"on_sphere": True}

    return run(*args, **kwargs)
