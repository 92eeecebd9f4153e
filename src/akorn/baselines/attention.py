"""Iterative self-attention (ItrSA) and the Transformer, its special case with one step and several blocks."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from akorn.baselines.iterated import IteratedBlock
from akorn.nn import (
    GTA,
    AbsolutePosition,
    AttentionCoupling,
    FeedForwardCoupling,
    LayerNorm,
    Position,
    RotaryPosition,
)
from akorn.nn.position import Grid

PositionName = Literal["absolute", "gta", "rotary", "learned-rotary", "none"]


class ItrSABlock(IteratedBlock):
    """T times x ← x + attention(LayerNorm(x)), then once x ← x + MLP(LayerNorm(x)).

    The attention of all T steps has the same weights; the MLP has one hidden layer of `expansion` · C with GELU.
    `inner` puts another MLP behind the attention of every step (`FeedForwardCoupling`), with a hidden layer of
    `inner` · C: the paper's baseline has none.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        position: Position | None = None,
        expansion: int = 2,
        inner: int | None = None,
    ) -> None:
        super().__init__()
        self.norm = LayerNorm(channels, narrow=True)
        self.attention: nn.Module = AttentionCoupling(channels, heads, position=position)
        if inner is not None:
            self.attention = FeedForwardCoupling(self.attention, channels, expansion=inner)
        self.mlp_norm = LayerNorm(channels, narrow=True)
        self.mlp = nn.Sequential(
            nn.Linear(channels, expansion * channels), nn.GELU(), nn.Linear(expansion * channels, channels)
        )

    def _iterate(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm(x))


class ItrSA(nn.Module):
    """Iterative self-attention: AKOrN without the Kuramoto update.

    Args:
        channels: number of channels C.
        heads: heads of the attention.
        grid: the layout of the tokens; needed for every position but "none".
        blocks: number of blocks L, each with its own weights.
        position: "absolute" (learned from sines and cosines, added to the input), "gta", "rotary" or
            "learned-rotary" (all in the attention of every block), or "none".
        norm: end with a LayerNorm over the channels, as the published baselines do.
        inner: put an MLP with a hidden layer of inner · C behind the attention of every step; None for no such MLP.

    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        grid: Grid | None = None,
        blocks: int = 1,
        position: PositionName = "absolute",
        norm: bool = True,
        inner: int | None = None,
    ) -> None:
        super().__init__()
        if blocks < 1:
            raise ValueError(f"at least one block is needed, got blocks={blocks}")
        if heads < 1 or channels % heads:
            raise ValueError(f"{channels} channels cannot be split into {heads} heads")
        self.place = _input_position(position, grid, channels)
        self.blocks = nn.ModuleList(
            ItrSABlock(channels, heads, position=_attention_position(position, grid, channels // heads), inner=inner)
            for _ in range(blocks)
        )
        self.norm = LayerNorm(channels) if norm else nn.Identity()

    def forward(self, x: Tensor, steps: int) -> Tensor:
        """[B, tokens, C] → the same shape, with `steps` steps of attention in each block."""
        x = self.prepare(x)
        for block in self.blocks:
            x = block(x, steps)
        return self.norm(x)

    def prepare(self, x: Tensor) -> Tensor:
        """The input of the first block: the tokens, with absolute positions if the model has them."""
        # Tokens from a picture are stored channel by channel. Every sum x + … would keep that order, and every norm
        # would have to convert it.
        x = x.contiguous()
        return x if self.place is None else self.place(x)


class Transformer(ItrSA):
    """The conventional Transformer (or ViT): `blocks` blocks of one attention and one MLP each."""

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        grid: Grid | None = None,
        blocks: int = 8,
        position: PositionName = "absolute",
        norm: bool = True,
    ) -> None:
        super().__init__(channels, heads, grid=grid, blocks=blocks, position=position, norm=norm)

    def forward(self, x: Tensor, steps: int = 1) -> Tensor:
        """[B, tokens, C] → the same shape; more than one step makes it an ItrSA."""
        return super().forward(x, steps)


def _input_position(name: PositionName, grid: Grid | None, channels: int) -> AbsolutePosition | None:
    if name not in get_args(PositionName):
        raise ValueError(f"position is {name!r}, expected one of {', '.join(get_args(PositionName))}")
    if name != "none" and grid is None:
        raise ValueError(f"the position {name!r} needs a grid")
    return AbsolutePosition(grid, channels) if name == "absolute" and grid is not None else None


def _attention_position(name: PositionName, grid: Grid | None, head_dim: int) -> Position | None:
    if name == "gta" and grid is not None:
        return GTA(grid, head_dim)
    if name in ("rotary", "learned-rotary") and grid is not None:
        return RotaryPosition(grid, head_dim, learn=name == "learned-rotary")
    return None
