"""The Energy Transformer (Hoover et al. 2024): attention and a Hopfield network as the gradient of one energy."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.baselines.iterated import check_steps
from akorn.execution.compiled import compiled_alone
from akorn.nn import AbsolutePosition
from akorn.nn.checks import whole_number
from akorn.nn.position import Grid


class EnergyTransformer(nn.Module):
    """Token states x that descend an energy of g = LayerNorm(x):

        E(g) = −(1/β) Σ_h Σ_C log Σ_B exp(β ⟨K_hB, Q_hC⟩) − ½ Σ_B ‖relu(ξ g_B)‖²,    x ← x − α ∂E/∂g

    with keys K_hB = W^K_h g_B and queries Q_hC = W^Q_h g_C. LayerNorm has one scale for all channels, so that it is
    the gradient of a convex function of x and the energy cannot rise as α → 0.

    Args:
        channels: number of channels.
        heads: heads of the attention.
        grid: the layout of the tokens; it adds learned absolute positions to the input.
        memories: number of the Hopfield network's memories, by default 4 · channels.
        alpha: step size α.
        beta: inverse temperature β, by default 1/√head_dim.

    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        grid: Grid | None = None,
        memories: int | None = None,
        alpha: float = 0.1,
        beta: float | None = None,
    ) -> None:
        super().__init__()
        channels, heads = whole_number("channels", channels), whole_number("heads", heads)
        if channels % heads:
            raise ValueError(f"{channels} channels cannot be split into {heads} heads")
        if not alpha > 0 or (beta is not None and not beta > 0):
            raise ValueError(f"alpha and beta must be above 0, got alpha={alpha} and beta={beta}")
        head_dim = channels // heads
        self.channels, self.heads, self.alpha = channels, heads, alpha
        self.beta = 1 / math.sqrt(head_dim) if beta is None else beta
        self.place = AbsolutePosition(grid, channels) if grid is not None else None
        self.query = nn.Parameter(torch.empty(channels, channels).normal_(std=0.02))  # rows: heads · head_dim
        self.key = nn.Parameter(torch.empty(channels, channels).normal_(std=0.02))
        self.memory = nn.Parameter(torch.empty(memories or 4 * channels, channels).normal_(std=0.02))
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(channels))
        self._compiled: Callable[[nn.Module, Tensor], Tensor] | None = None

    def forward(self, x: Tensor, steps: int) -> Tensor:
        """[B, tokens, C] → g after `steps` steps, the same shape."""
        check_steps(steps)
        x = self.prepare(x)
        for _ in range(steps):
            x = self.iterate(x)
        return self.normalize(x)

    def prepare(self, x: Tensor) -> Tensor:
        """The first state: the tokens with their positions."""
        return x if self.place is None else self.place(x)

    def iterate(self, x: Tensor) -> Tensor:
        """One step, x − α ∂E/∂g."""
        return self._iterate(x) if self._compiled is None else self._compiled(self, x)

    def compile_step(self, **options: object) -> None:
        """Compile a single step instead of the loop: the same speed for a fraction of the compile time."""
        self._compiled = compiled_alone(type(self)._iterate, **options)

    def _iterate(self, x: Tensor) -> Tensor:
        return x - self.alpha * self.gradient(self.normalize(x))

    def normalize(self, x: Tensor) -> Tensor:
        """g, the LayerNorm of x with one scale for all channels."""
        return self.scale * F.layer_norm(x, (self.channels,)) + self.shift

    def energy(self, g: Tensor) -> Tensor:
        """E(g), one value per sample: [B]; summed in float32 or wider."""
        scores = self._scores(*self._heads(g))  # [B, heads, C, B]
        wide = torch.promote_types(g.dtype, torch.float32)
        attention = scores.to(wide).logsumexp(-1).flatten(1).sum(1) / self.beta
        hopfield = F.relu(F.linear(g, self.memory)).to(wide).square().flatten(1).sum(1)
        return -attention - 0.5 * hopfield

    def gradient(self, g: Tensor) -> Tensor:
        """∂E/∂g = −(W^Q)ᵀ A K − (W^K)ᵀ AᵀQ − ξᵀ relu(ξ g), with A = softmax_B(β ⟨K_B, Q_C⟩); the shape of g."""
        q, k = self._heads(g)  # [B, heads, tokens, D]
        a = self._scores(q, k).softmax(-1)  # [B, heads, C, B]
        to_query = (a @ k).transpose(1, 2).flatten(2) @ self.query  # [B, tokens, C]
        to_key = (a.mT @ q).transpose(1, 2).flatten(2) @ self.key
        hopfield = F.relu(F.linear(g, self.memory)) @ self.memory
        return -(to_query + to_key + hopfield)

    def _heads(self, g: Tensor) -> tuple[Tensor, Tensor]:
        q, k = (
            F.linear(g, weight).unflatten(-1, (self.heads, -1)).transpose(1, 2) for weight in (self.query, self.key)
        )
        return q, k

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """β ⟨K_B, Q_C⟩: [B, heads, C, B]."""
        return self.beta * q @ k.mT

    def extra_repr(self) -> str:
        """What print() shows for the model."""
        return f"{self.channels}, heads={self.heads}, memories={len(self.memory)}, alpha={self.alpha}"
