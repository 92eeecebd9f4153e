"""The attentive coupling: J is computed from the state at every step."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from akorn.execution import ops
from akorn.nn.checks import described, hooked, whole_number
from akorn.nn.position import GTA, AbsolutePosition, Grid, Position, RotaryPosition, as_grid


class AttentionCoupling(nn.Module):
    """Multi-head self-attention over the tokens as coupling:

        y_l = Σ_h W^O_h Σ_m A_h(l, m) W^V_h x_m,    A_h(l, ·) = softmax(⟨W^Q_h x_l, W^K_h x_·⟩ / √D)

    Args:
        channels: number of channels C.
        heads: number of heads; D = C / heads.
        grid: the layout of the tokens, (length,) or (height, width); it implies GTA unless `position` says otherwise.
            GTA needs D to be a multiple of 2 on a line, and of 4 on a plane.
        position: the module for positions; None without a grid means that the tokens are a set.
        mask: boolean, broadcastable to [tokens, tokens]: where True, the row's token attends to the column's.
        bias: whether queries, keys and values have a bias.
        symmetric: queries and keys share their weights and every head's value map is a symmetric matrix. (Only
            the softmax, which normalises the rows of A, remains asymmetric.)

    On a CUDA device with Triton, unconstrained maps without a mask run fused (`akorn.execution.ops`).

    """

    mask: Tensor | None

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        grid: Grid | None = None,
        position: Position | None = None,
        mask: Tensor | None = None,
        bias: bool = True,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        channels, heads = whole_number("channels", channels), whole_number("heads", heads)
        if channels % heads:
            raise ValueError(f"{channels} channels cannot be split into {heads} heads")
        grid = None if grid is None else as_grid(grid)
        if position is not None and not isinstance(position, Position):
            raise ValueError(f"position must be a Position or None, got {described(position)}")
        if position is not None and grid is not None and position.grid != grid:
            raise ValueError(f"the position is for the grid {position.grid}, not {grid}")
        if position is not None and position.head_dim not in (None, channels // heads):
            raise ValueError(f"the position is for heads of {position.head_dim} components, not {channels // heads}")
        if position is not None and position.channels not in (None, channels):
            raise ValueError(f"the position is for {position.channels} channels, not {channels}")
        if symmetric and isinstance(position, GTA | RotaryPosition) and not position.symmetric:
            kind = type(position).__name__
            raise ValueError(f"a symmetric coupling needs symmetric positions: {kind}(…, symmetric=True)")
        if position is None and grid is not None:
            if channels // heads % (2 * len(grid)):
                raise ValueError(
                    f"channels / heads is {channels // heads}, but positions on a {len(grid)}-D grid need a multiple of"
                    f" {2 * len(grid)}: take fewer heads or more channels, or leave out grid="
                )
            position = GTA(grid, channels // heads, symmetric=symmetric)
        if mask is not None:
            _check_mask(mask, None if position is None else position.tokens)
            mask = torch.atleast_2d(mask)  # a single row applies to all tokens
        self.channels = channels
        self.heads = heads
        self.position = position
        self.maps: _FreeMaps | _SymmetricMaps
        self.maps = _SymmetricMaps(channels, heads, bias) if symmetric else _FreeMaps(channels, bias)
        self.register_buffer("mask", mask)
        self.register_load_state_dict_post_hook(_renew_position)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """[B, tokens, C], or [B, C, H, W] with one token per pixel, → the same shape."""
        if x.ndim == 4:
            grid = self.position.grid if self.position is not None else ()
            if len(grid) == 2 and tuple(x.shape[2:]) != grid:
                raise ValueError(f"the positions are for the grid {grid}, but the state has {tuple(x.shape[2:])}")
            y = self._attend(x.flatten(2).transpose(1, 2))
            return y.transpose(1, 2).unflatten(2, x.shape[2:])
        if x.ndim != 3:
            raise ValueError(f"attention takes [B, tokens, C] or [B, C, H, W], got shape {list(x.shape)}")
        return self._attend(x)

    def _attend(self, x: Tensor) -> Tensor:
        place = self.position
        if place is not None:
            place.check(x.shape[1])
        if self.mask is not None:
            _check_mask(self.mask, x.shape[1])
        placed = x if place is None else place.on_tokens(x)
        if isinstance(self.maps, _FreeMaps):
            fused = ops.fused_attention(x, self.heads, self.matrices)
            if fused is not None:
                return self.maps.gather(fused(*self.maps.joined(x, placed)))
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, heads, tokens, D]
            for part in self.maps.project(x, placed)
        )
        if place is not None:
            q, k, v = place.on_query(q), place.on_key(k), place.on_value(v)
        o = self.maps.weigh(_weighted_sums(q, k, v, self.mask))
        if place is not None:
            o = place.on_output(o)
        return self.maps.gather(o.transpose(1, 2).flatten(2))  # [B, tokens, C]

    def matrices(self) -> tuple[Tensor, ...] | None:
        """The positions' 2×2 matrices on queries, keys, values and outputs, or on queries and keys, or none.

        None if more than that is done to them: with a mask, or with other kinds of positions.
        """
        place = self.position
        if self.mask is not None:
            return None
        if place is None or type(place) in (Position, AbsolutePosition):
            return ()
        if type(place) is RotaryPosition:
            return place.pair
        if type(place) is GTA and place.symmetric:
            return place.query, place.query, place.value, place.value.mT
        return (place.query, place.key, place.value, place.output) if type(place) is GTA else None

    def extra_repr(self) -> str:
        """What print() shows for the coupling."""
        return f"{self.channels}, heads={self.heads}, masked={self.mask is not None}"


def _weighted_sums(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Torch's attention, in its plain form for forward-mode derivatives, which its fused forms do not have."""
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _check_mask(mask: Tensor, tokens: int | None) -> None:
    """ValueError unless a mask fits this many tokens, or any number if it is not known yet."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else described(mask)
        raise ValueError(f"the mask must be a boolean tensor (True: attends), got {got}")
    sizes = [size for size in mask.shape[-2:] if size != 1]  # a single row or column applies to all
    if any(size != (sizes[0] if tokens is None else tokens) for size in sizes):
        count = "tokens" if tokens is None else tokens
        raise ValueError(f"the mask must be [{count}, {count}] or broadcast to it, got {list(mask.shape)}")


def _renew_position(coupling: AttentionCoupling, _: Any) -> None:
    """After loading: rebuild what positions do not save, since it may be on the meta device or uninitialised."""
    if coupling.position is not None:
        coupling.position.renew(next(coupling.maps.parameters()).device)


class _FreeMaps(nn.Module):
    """W^Q, W^K, W^V in one product, and W^O."""

    def __init__(self, channels: int, bias: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(channels, 3 * channels, bias=bias)
        self.output = nn.Linear(channels, channels, bias=False)

    def joined(self, x: Tensor, placed: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries, keys and values side by side, [B, tokens, 3C], and their bias if its gradient is left to their
        consumer (`akorn.execution.ops.fused_attention`).
        """
        if placed is not x:
            return torch.cat(self.project(x, placed), -1), None
        qkv = self.qkv
        if qkv.bias is None or type(qkv) is not nn.Linear or hooked(qkv):
            return qkv(x), None
        return F.linear(x, qkv.weight, qkv.bias.detach()), qkv.bias

    def project(self, x: Tensor, placed: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys of `placed`, values of `x`: [B, tokens, C] each."""
        if placed is x:
            return self.qkv(x).chunk(3, -1)
        (wq, wk, wv), bias = self.qkv.weight.chunk(3), self.qkv.bias
        bq, bk, bv = bias.chunk(3) if bias is not None else (None, None, None)
        return F.linear(placed, wq, bq), F.linear(placed, wk, bk), F.linear(x, wv, bv)

    def weigh(self, o: Tensor) -> Tensor:
        """[B, heads, tokens, D] as it is."""
        return o

    def gather(self, o: Tensor) -> Tensor:
        """The heads' outputs, mixed."""
        return self.output(o)


class _SymmetricMaps(nn.Module):
    """W^Q = W^K, and W^O_h = (W^V_h)ᵀ diag(s_h): each head's value map W^O_h W^V_h is symmetric, of any signature."""

    def __init__(self, channels: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.shared = nn.Linear(channels, channels, bias=bias)
        self.value = nn.Parameter(torch.empty(channels, channels).normal_(std=1 / math.sqrt(channels)))
        self.sign = nn.Parameter(torch.ones(heads, 1, channels // heads))

    def project(self, x: Tensor, placed: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys of `placed`, values of `x`: [B, tokens, C] each."""
        q = self.shared(placed)
        return q, q, F.linear(x, self.value)

    def weigh(self, o: Tensor) -> Tensor:
        """diag(s): in the middle of the value map, before the position's matrices are undone."""
        return self.sign * o

    def gather(self, o: Tensor) -> Tensor:
        """The heads' outputs, mixed by the transpose of the map of the values."""
        return F.linear(o, self.value.mT)
