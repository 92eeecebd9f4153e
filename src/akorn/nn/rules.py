"""Update rules: the next state from the state, the force on it and its natural rotation.

The paper's ablations are other rules, not options of the layer. All arrays here are grouped oscillators with
their N components at axis `dim`; `force` is Jx + c and `rotation` is Ωx, or None without natural frequencies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from akorn import oscillators as osc


class UpdateRule(ABC):
    """One explicit step x → x′ of size γ."""

    on_sphere = False
    """Whether every state after a step is certainly on the sphere, so that the next layer need not normalise it."""

    def start(self, x: Tensor, dim: int) -> Tensor:
        """Bring a given state to where the rule expects it: on the sphere, unless a rule says otherwise."""
        return osc.normalize(x, dim)

    @abstractmethod
    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state."""


class Kuramoto(UpdateRule):
    """x′ = Π[x + γ (Ωx + Proj_x(Jx + c))], Eq. 4–5."""

    on_sphere = True

    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state, on the sphere."""
        delta = osc.project(force, x, dim)
        return osc.normalize(x + gamma * _plus(delta, rotation), dim)


class WithoutProjection(UpdateRule):
    """x′ = Π[x + γ (Ωx + Jx + c)]: the paper's ablation of Proj (Table 5)."""

    on_sphere = True

    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state, on the sphere."""
        return osc.normalize(x + gamma * _plus(force, rotation), dim)


class Residual(UpdateRule):
    """x′ = x + γ (Ωx + Jx + c): the conventional residual update, without Proj and Π (Table 6)."""

    def start(self, x: Tensor, dim: int) -> Tensor:
        """The state unchanged: this rule has no sphere."""
        return x

    def step(self, x: Tensor, force: Tensor, rotation: Tensor | None, gamma: Tensor | float, dim: int) -> Tensor:
        """The next state, anywhere."""
        return x + gamma * _plus(force, rotation)


def _plus(force: Tensor, rotation: Tensor | None) -> Tensor:
    return force if rotation is None else force + rotation
