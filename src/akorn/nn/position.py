"""Positions for attention: absolute, rotary, and GTA with learned matrices.

`AttentionCoupling` calls a position at up to five places: on the tokens before queries and keys are computed, on
queries, keys and values, and on the output. Each kind overrides the places where it acts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.nn.checks import described, whole_number

Grid = tuple[int, ...]
"""The layout of the tokens: (length,) or (height, width), row by row."""


def as_grid(grid: Iterable[int]) -> Grid:
    """A grid as a tuple of plain numbers; ValueError if it is not valid."""
    sizes = tuple(grid) if isinstance(grid, Iterable) else ()
    try:
        whole = tuple(whole_number("size", size) for size in sizes)
    except ValueError:
        whole = ()
    if len(whole) not in (1, 2):
        got = sizes or described(grid)
        raise ValueError(f"a grid must be (length,) or (height, width), whole numbers of at least 1; got {got}")
    return whole


def grid_tokens(grid: Grid) -> int:
    """The number of tokens on a grid; ValueError if it is not valid."""
    return math.prod(as_grid(grid))


class Position(nn.Module):
    """No position: every method returns its argument. Queries, keys, values, outputs are [B, heads, tokens, D].

    A kind that is made for one size declares it: `head_dim` for heads, `channels` for tokens.
    """

    head_dim: int | None = None
    channels: int | None = None

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.grid = as_grid(grid)
        self.tokens = grid_tokens(self.grid)

    def on_tokens(self, x: Tensor) -> Tensor:
        """[B, tokens, C], before queries and keys are computed."""
        return x

    def on_query(self, q: Tensor) -> Tensor:
        """On the queries."""
        return q

    def on_key(self, k: Tensor) -> Tensor:
        """On the keys."""
        return k

    def on_value(self, v: Tensor) -> Tensor:
        """On the values."""
        return v

    def on_output(self, o: Tensor) -> Tensor:
        """On what attention returns, before the output map."""
        return o

    def renew(self, device: torch.device) -> None:
        """Recreate, on this device, what is not saved with the weights: it may be uninitialised."""

    def check(self, tokens: int) -> None:
        """ValueError unless the grid has this many tokens."""
        if tokens != self.tokens:
            raise ValueError(f"the grid {self.grid} has {self.tokens} tokens, but the state has {tokens}")

    def extra_repr(self) -> str:
        """What print() shows of the positions."""
        return f"grid={self.grid}"


def sine_cosine(grid: Grid, channels: int) -> Tensor:
    """[tokens, channels]: for each axis of the grid, sines and cosines of place · 10000^(−i/F)."""
    grid = as_grid(grid)
    per_axis, rest = divmod(channels, 2 * len(grid))
    if rest:
        raise ValueError(f"there are {channels} channels, but sines and cosines of {_on_a_grid(grid)}")
    places = _places(grid)  # [tokens, axes]
    angles = places[:, :, None] * _frequencies(per_axis)  # [tokens, axes, F]
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()


class AbsolutePosition(Position):
    """Absolute positions, added to the tokens before queries and keys; they start as sines and cosines.

    Values are not changed, so the coupling stays linear in the values: positions only steer the attention.
    Called as a module it adds the positions to any tokens, for use before a network.
    """

    embedding: Tensor

    def __init__(self, grid: Grid, channels: int, *, learn: bool = True) -> None:
        super().__init__(grid)
        self.channels = channels
        embedding = sine_cosine(grid, channels)
        if learn:
            self.embedding = nn.Parameter(embedding)
        else:
            self.register_buffer("embedding", embedding)

    def forward(self, x: Tensor) -> Tensor:
        """[B, tokens, C] + positions."""
        self.check(x.shape[1])
        return x + self.embedding

    def on_tokens(self, x: Tensor) -> Tensor:
        """[B, tokens, C] + positions."""
        return x + self.embedding

    def extra_repr(self) -> str:
        """What print() shows of the positions."""
        return f"grid={self.grid}, channels={self.channels}, learn={isinstance(self.embedding, nn.Parameter)}"


class RotaryPosition(Position):
    """Rotary positions: pairs of query and key components rotate with the place, row and column in turn.

    Args:
        grid: how the tokens lie.
        head_dim: components of a head, a multiple of twice the number of the grid's axes.
        learn: rotations are where the matrices start; they are then free and learned, as the paper's variant is.
        symmetric: keys share the queries' matrices, for a symmetric coupling.

    """

    matrices: Tensor
    query: Tensor
    key: Tensor

    def __init__(self, grid: Grid, head_dim: int, *, learn: bool = False, symmetric: bool = False) -> None:
        super().__init__(grid)
        self.head_dim = head_dim
        self.learn, self.symmetric = learn, symmetric or not learn
        start = rotary_matrices(grid, head_dim)
        if not learn:
            self.register_buffer("matrices", start, persistent=False)
            return
        self.query = nn.Parameter(start)
        if not symmetric:
            self.key = nn.Parameter(start.clone())

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        """The matrices of queries and of keys: [tokens, head_dim/2, 2, 2] each."""
        if not self.learn:
            return self.matrices, self.matrices
        return self.query, self.query if self.symmetric else self.key

    def renew(self, device: torch.device) -> None:
        """Make the matrices anew, in place unless they are elsewhere; learned ones are saved."""
        if self.learn:
            return
        with torch.device("cpu"):
            start = rotary_matrices(self.grid, self.matrices.shape[1] * 2)
        if self.matrices.device == device:
            self.matrices.copy_(start)
        else:
            self.matrices = start.to(device, self.matrices.dtype)

    def on_query(self, q: Tensor) -> Tensor:
        """Rotate the queries."""
        return apply_pairs(self.pair[0], q)

    def on_key(self, k: Tensor) -> Tensor:
        """Rotate the keys."""
        return apply_pairs(self.pair[1], k)

    @torch.no_grad()
    def resize(self, grid: Grid) -> RotaryPosition:
        """The same positions for another grid: learned ones by linear interpolation, others counted on."""
        assert self.head_dim is not None
        resized = RotaryPosition(grid, self.head_dim, learn=self.learn, symmetric=self.symmetric).to(self.pair[0])
        for name, matrices in self.named_parameters():
            resized.get_parameter(name).copy_(_interpolated(matrices, self.grid, resized.grid))
        return resized

    def extra_repr(self) -> str:
        """What print() shows of the positions."""
        return f"grid={self.grid}, head_dim={self.head_dim}, learn={self.learn}, symmetric={self.symmetric}"


class GTA(Position):
    """Geometric transform attention: a free 2×2 matrix per token and pair of components, for q, k, v and output.

    All start as rotary matrices, the output's as their transpose (the inverse rotation), and are then learned.

    Args:
        grid: the layout of the tokens.
        head_dim: components of a head, a multiple of twice the number of the grid's axes.
        symmetric: keys share the queries' matrices and outputs use the values' transposed, for a symmetric coupling.

    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    def __init__(self, grid: Grid, head_dim: int, *, symmetric: bool = False) -> None:
        super().__init__(grid)
        start = rotary_matrices(grid, head_dim)
        self._set(start, start, None if symmetric else start, None if symmetric else start.mT)

    @classmethod
    def from_matrices(
        cls, grid: Grid, query: Tensor, value: Tensor, key: Tensor | None = None, output: Tensor | None = None
    ) -> GTA:
        """Positions with given matrices, [tokens, head_dim/2, 2, 2] each; without `key` and `output`, symmetric."""
        self = cls.__new__(cls)
        Position.__init__(self, grid)
        if (key is None) != (output is None):
            raise ValueError("key and output must be given together, or neither for a symmetric coupling")
        for matrices in (query, value, key, output):
            if matrices is not None and (matrices.shape != query.shape or query.shape[1:] != (*query.shape[1:2], 2, 2)):
                raise ValueError(f"the matrices must be [tokens, head_dim/2, 2, 2], got {list(matrices.shape)}")
        self.check(query.shape[0])
        self._set(query, value, key, output)
        return self

    def _set(self, query: Tensor, value: Tensor, key: Tensor | None, output: Tensor | None) -> None:
        self.head_dim = 2 * query.shape[1]
        self.symmetric = key is None
        for name, start in (("query", query), ("value", value), ("key", key), ("output", output)):
            if start is not None:
                setattr(self, name, nn.Parameter(start.detach().clone(memory_format=torch.contiguous_format)))

    def on_query(self, q: Tensor) -> Tensor:
        """The queries' matrices on the queries."""
        return apply_pairs(self.query, q)

    def on_key(self, k: Tensor) -> Tensor:
        """The keys' matrices on the keys."""
        return apply_pairs(self.query if self.symmetric else self.key, k)

    def on_value(self, v: Tensor) -> Tensor:
        """The values' matrices on the values."""
        return apply_pairs(self.value, v)

    def on_output(self, o: Tensor) -> Tensor:
        """The outputs' matrices on the output."""
        return apply_pairs(self.value.mT if self.symmetric else self.output, o)

    @torch.no_grad()
    def resize(self, grid: Grid) -> GTA:
        """The same positions for another grid of as many axes, by linear interpolation of the learned matrices."""
        resized = {name: _interpolated(matrices, self.grid, grid) for name, matrices in self.named_parameters()}
        return GTA.from_matrices(grid, **resized)

    def extra_repr(self) -> str:
        """What print() shows of the positions."""
        return f"grid={self.grid}, head_dim={self.head_dim}, symmetric={self.symmetric}"


def _interpolated(matrices: Tensor, old: Grid, new: Grid) -> Tensor:
    """Matrices [tokens, F, 2, 2] of one grid on another of as many axes."""
    if len(new) != len(old):
        raise ValueError(f"cannot resize positions of the grid {old} to {new}: another number of axes")
    flat = matrices.flatten(1).T.reshape(1, -1, *old)  # [1, F·4, H, W]
    flat = F.interpolate(flat, size=new, mode="bilinear" if len(new) == 2 else "linear", align_corners=False)
    return flat.flatten(2)[0].T.reshape(-1, *matrices.shape[1:])


def apply_pairs(matrices: Tensor, x: Tensor) -> Tensor:
    """Apply 2×2 matrices [tokens, D/2, 2, 2] to the pairs of components of x [B, heads, tokens, D]."""
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)  # [B, heads, tokens, D/2] each
    m = matrices.to(x.dtype)
    rows = (m[..., i, 0] * first + m[..., i, 1] * second for i in range(2))
    return torch.stack(tuple(rows), -1).flatten(-2)


def rotary_matrices(grid: Grid, head_dim: int) -> Tensor:
    """Rotations by place · 10000^(−i/F), the grid's axes in turn: [tokens, head_dim/2, 2, 2], F = head_dim/2/axes."""
    per_axis, rest = divmod(head_dim, 2 * len(grid))
    if rest or not per_axis:
        raise ValueError(f"head_dim is {head_dim}, but {_on_a_grid(grid)}")
    angles = _places(grid)[:, None, :] * _frequencies(per_axis)[:, None]  # [tokens, F, axes]
    angles = angles.flatten(1)  # pair 2i is for the row, pair 2i + 1 for the column
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2).float()


def _on_a_grid(grid: Grid) -> str:
    """What a width must be for positions with two components for each axis."""
    return f"positions on a {len(grid)}-D grid need a multiple of {2 * len(grid)}"


def _frequencies(count: int) -> Tensor:
    return 10000.0 ** (-torch.arange(count, dtype=torch.float64) / count)


def _places(grid: Grid) -> Tensor:
    """[tokens, axes]: the coordinates of each token, as float64."""
    grid_tokens(grid)
    axes = [torch.arange(size, dtype=torch.float64) for size in grid]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
