"""Which layers can be solved by fixed steps: those with plain attention, whose every part is known."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from akorn import kernels
from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.kuramoto import KuramotoLayer
from akorn.nn.position import GTA, Position, RotaryPosition
from akorn.nn.rules import Kuramoto


def not_plain_attention(layer: KuramotoLayer, x: Tensor, c: object) -> str | None:
    """What of the layer no fast path knows, in words, or None; Ω and sizes are each path's own affair."""
    coupling = layer.coupling
    if type(coupling) is not AttentionCoupling or type(coupling.maps) is not _FreeMaps:
        return f"the coupling is no AttentionCoupling with free maps: {type(coupling).__name__}"
    if type(coupling.maps.qkv) is not nn.Linear or type(coupling.maps.output) is not nn.Linear:
        return "the coupling's maps were replaced by others"
    if coupling.mask is not None:
        return "the attention is masked"
    if type(coupling.position) not in (type(None), Position, GTA, RotaryPosition):
        return f"positions of another kind: {type(coupling.position).__name__}"
    if type(layer.rule) is not Kuramoto:
        return f"another update rule: {type(layer.rule).__name__}"
    if not isinstance(c, Tensor) or c.shape != x.shape:
        return "c changes from step to step"
    return None


def not_plain_arrays(layer: KuramotoLayer, x: Tensor, c: Tensor, dtypes: Collection[torch.dtype]) -> str | None:
    """What of the arrays no fast path knows, in words, or None; dtypes: those that state and weights may have."""
    if not (kernels.untransformed(x) and kernels.untransformed(c)):
        return "function transforms are at work, or the state is no plain array"
    weights = [*layer.parameters(), *(buffer for buffer in layer.buffers() if buffer.is_floating_point())]
    for name, arrays in {"a state": [x], "a stimulus": [c], "weights": weights}.items():
        for array in arrays:
            if array.dtype not in dtypes or array.device != x.device:
                return f"{name} of {array.dtype} on {array.device}"
    return None
