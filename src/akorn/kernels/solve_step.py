"""The tensors of a Kuramoto step with attention, for the two forms of solving (`solve` and `solve_cpu`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from akorn.kernels import untransformed


@dataclass(frozen=True)
class Mlp:
    """What follows the attention y at every token: y ↦ y + W₂ gelu(W₁ LayerNorm(x + y) + b)."""

    scale: Tensor
    """Of the LayerNorm: [C]."""
    shift: Tensor
    """Of the LayerNorm: [C]."""
    eps: float
    expand: Tensor
    """W₁: [H, C]."""
    bias: Tensor
    """b: [H]."""
    contract: Tensor
    """W₂: [C, H]."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of its weights."""
        return self.scale, self.shift, self.expand, self.bias, self.contract


@dataclass(frozen=True)
class AttentiveStep:
    """x′ = Π[x + γ (Ωx + Proj_x(Jx + c))] where Jx is attention over the tokens, with free maps and no mask.

    An MLP may follow the attention at every token, and Proj may be missing.
    """

    qkv: Tensor
    """W^Q, W^K and W^V: [3C, C]."""
    bias: Tensor | None
    """Their bias: [3C]."""
    output: Tensor
    """W^O: [C, C]."""
    heads: int
    """Number of heads; D = C / heads."""
    matrices: tuple[Tensor, ...]
    """Positions as 2×2 matrices, [tokens, D/2, 2, 2]: none, on queries and keys, or also on values and outputs."""
    gamma: Tensor
    """γ, one value."""
    omega: Tensor | None
    """Ω of all oscillators: one rate for all pairs of components, [1], or a matrix [N, N]; None for no rotation."""
    n: int
    """Rotating dimensions N."""
    projects: bool
    """Whether there is Proj."""
    mlp: Mlp | None = None
    """Part of J, behind the attention."""

    @property
    def channels(self) -> int:
        """C."""
        return self.output.shape[0]


def not_plain(x: Tensor, c: object, weights: Iterable[Tensor], dtypes: Collection[torch.dtype]) -> str | None:
    """What no fast path supports in these arrays, in words, or None; dtypes: those allowed for state and weights."""
    if not isinstance(c, Tensor) or c.shape != x.shape:
        return "c changes from step to step"
    if not (untransformed(x) and untransformed(c)):
        return "function transforms are at work, or the state is not a plain array"
    for name, arrays in {"a state": [x], "a stimulus": [c], "weights": weights}.items():
        for array in arrays:
            if array.dtype not in dtypes or array.device != x.device:
                return f"{name} of {array.dtype} on {array.device}"
    return None
