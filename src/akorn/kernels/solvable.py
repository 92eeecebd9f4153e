"""Which layers can be solved by fixed steps: those with plain attention, whose every part is known."""

from __future__ import annotations

from torch import Tensor, nn

from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.kuramoto import KuramotoLayer
from akorn.nn.position import GTA, Position, RotaryPosition
from akorn.nn.rules import Kuramoto


def not_plain_attention(layer: KuramotoLayer, x: Tensor, c: object) -> str | None:
    """What of the layer no fast path knows, in words, or None; Ω, sizes and types are each path's own affair."""
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
