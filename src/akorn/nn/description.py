"""Describes a layer's parts for `akorn.execution`: as functions and tensors instead of modules.

Fast forms rely on exact knowledge of the parts, so only our own classes without hooks are described here: a subclass
or a hook may do anything.
"""

from __future__ import annotations

from torch import Tensor, nn

from akorn.execution.solve import AttentiveStep, Mlp, Unknown
from akorn.execution.step import Rotation
from akorn.nn.attention import AttentionCoupling, _FreeMaps
from akorn.nn.checks import hooked
from akorn.nn.coupling import ConvCoupling, DenseCoupling, ScalarCoupling
from akorn.nn.feed_forward import FeedForwardCoupling
from akorn.nn.frequency import NaturalFrequency, PairwiseFrequency
from akorn.nn.norm import LayerNorm
from akorn.nn.position import GTA, Position, RotaryPosition
from akorn.nn.rules import Kuramoto, UpdateRule, WithoutProjection

_ON_HEADS = (type(None), Position, GTA, RotaryPosition)
"""Positions that do not change x."""


def rotation(omega: nn.Module | None) -> Rotation | None:
    """Ω of a layer."""
    if omega is None:
        return None
    known = type(omega) in (NaturalFrequency, PairwiseFrequency)
    return Rotation(
        omega, (lambda: _values(omega)) if known and not hooked(omega) else None, known, type(omega).__name__
    )


def _values(omega: nn.Module) -> Tensor:
    """Rates of pairs, or matrices."""
    values = omega.rate if isinstance(omega, PairwiseFrequency) else omega.matrix
    assert isinstance(values, Tensor)
    return values


def projects(rule: UpdateRule) -> bool | None:
    """Whether a rule has Proj; None for a rule that no fast form knows."""
    return {Kuramoto: True, WithoutProjection: False}.get(type(rule))


def multiplies(coupling: nn.Module) -> bool:
    """Whether a coupling uses x only in a single product."""
    if hooked(coupling):
        return False
    if type(coupling) is AttentionCoupling:
        free = type(coupling.maps) is _FreeMaps and type(coupling.maps.qkv) is nn.Linear
        return free and type(coupling.position) in _ON_HEADS
    if type(coupling) is ConvCoupling:
        return not coupling.periodic
    return type(coupling) in (DenseCoupling, ScalarCoupling)


def attentive(
    coupling: nn.Module, omega: nn.Module | None, rule: UpdateRule, gamma: Tensor, n: int
) -> AttentiveStep | Unknown:
    """A step as the tensors that it reads, if every part is known: attention, with or without an MLP behind it."""
    mlp: Mlp | None = None
    if type(coupling) is FeedForwardCoupling:
        mlp = _mlp(coupling)
        if mlp is None:
            return Unknown("parts of the coupling's MLP were replaced by others")
        coupling = coupling.coupling
    if type(coupling) is not AttentionCoupling or type(coupling.maps) is not _FreeMaps:
        return Unknown(f"the coupling is not an AttentionCoupling with unconstrained maps: {type(coupling).__name__}")
    qkv, output = coupling.maps.qkv, coupling.maps.output
    if type(qkv) is not nn.Linear or type(output) is not nn.Linear:
        return Unknown("the coupling's maps were replaced by others")
    if coupling.mask is not None:
        return Unknown("the attention is masked")
    matrices = coupling.matrices() if type(coupling.position) in _ON_HEADS else None
    if matrices is None:
        return Unknown(f"positions of another kind: {type(coupling.position).__name__}")
    if (proj := projects(rule)) is None:
        return Unknown(f"another update rule: {type(rule).__name__}")
    if omega is not None and (
        type(omega) not in (NaturalFrequency, PairwiseFrequency) or getattr(omega, "oscillators", None) is not None
    ):
        return Unknown(f"natural frequencies other than one for all oscillators: {type(omega).__name__}")
    omega_values = None if omega is None else _values(omega)
    maps = (qkv.weight, qkv.bias, output.weight)
    return AttentiveStep(*maps, coupling.heads, matrices, gamma, omega_values, n, proj, mlp)


def _mlp(coupling: FeedForwardCoupling) -> Mlp | None:
    """The tensors of a coupling's MLP; None if its parts are not those that it was made with."""
    norm, expand, contract = (getattr(coupling, name) for name in ("norm", "expand", "contract"))
    if (type(norm), type(expand), type(contract)) != (LayerNorm, nn.Linear, nn.Linear):
        return None
    if expand.bias is None or contract.bias is not None:
        return None
    return Mlp(norm.weight, norm.bias, norm.eps, expand.weight, expand.bias, contract.weight)
