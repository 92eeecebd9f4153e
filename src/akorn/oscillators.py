"""The mathematics of oscillators: arrays of N-dimensional unit vectors, in any layout.

Channels are grouped into oscillators: N consecutive channels are one vector x_i on the sphere. Two layouts
are used throughout, and `channel_axis` tells which one an array has:

    tokens    [B, tokens, C]  (also [B, C])   grouped  [B, tokens, C/N, N]   axis −1
    pictures  [B, C, H, W]                    grouped  [B, C/N, N, H, W]     axis −3

Counted from the end, the axis of the channels before grouping and the axis of the N components after it are
the same number, so every function here takes that one number as `dim`. Grouping is a view: nothing is copied.
"""

from __future__ import annotations

__all__ = [
    "TINY",
    "channel_axis",
    "check_grouping",
    "energy",
    "group",
    "normalize",
    "order_parameter",
    "pairs_matrix",
    "project",
    "published_energy",
    "random_oscillators",
    "rotate",
    "rotate_pairs",
    "ungroup",
]

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Below this length a vector has no direction: Π sets it and its gradient to zero.
TINY = 1e-12


def channel_axis(x: Tensor) -> int:
    """The axis of the channels, counted from the end: −1 for [B, C] and [B, tokens, C], −3 for [B, C, H, W]."""
    if x.ndim in (2, 3):
        return -1
    if x.ndim == 4:
        return -3
    raise ValueError(
        f"expected [B, C], tokens [B, tokens, C] or pictures [B, C, H, W], got an array of shape {list(x.shape)}"
    )


def check_grouping(channels: int, n: int) -> None:
    """Raise ValueError unless `channels` channels can be grouped into oscillators of `n` ≥ 2 dimensions."""
    if n < 2:
        raise ValueError(f"an oscillator needs at least 2 rotating dimensions, got n={n}")
    if channels < n or channels % n:
        raise ValueError(f"{channels} channels cannot be grouped into oscillators of n={n} dimensions")


def group(x: Tensor, n: int, dim: int = -1) -> Tensor:
    """View the channels at axis `dim` as oscillators: [..., C, ...] → [..., C/n, n, ...]."""
    check_grouping(x.shape[dim], n)
    return x.unflatten(dim, (-1, n))


def ungroup(x: Tensor, dim: int = -1) -> Tensor:
    """The inverse of `group`; `dim` (counted from the end) is the axis of the n components."""
    if dim >= 0:
        dim -= x.ndim
    return x.flatten(dim - 1, dim)


def normalize(x: Tensor, dim: int = -1) -> Tensor:
    """Π[x] = x / ‖x‖₂, the nearest point on the sphere.

    For lengths from TINY to the square root of the type's largest number (1e19 in float32). A shorter vector has no
    direction: it becomes 0, and so does its gradient, which would be 10¹² times as large as any other.
    """
    length = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / length.masked_fill(length < max(TINY, torch.finfo(x.dtype).tiny), math.inf)


def project(y: Tensor, x: Tensor, dim: int = -1) -> Tensor:
    """Proj_x(y) = y − ⟨y, x⟩ x, the part of y in the tangent space of the sphere at x (Eq. 2)."""
    return y - (y * x).sum(dim, keepdim=True) * x


def rotate(x: Tensor, omega: Tensor, dim: int = -1) -> Tensor:
    """Natural rotation Ωᵢxᵢ.

    x: grouped oscillators. omega: [N, N], one for all, or [oscillators, N, N], one each; antisymmetric for a
    rotation, but any matrix works.
    """
    if dim >= 0:
        dim -= x.ndim
    positions = -dim - 1  # axes after the components: 0 for tokens, 2 for pictures
    moved = x.movedim(dim, -1)  # [..., oscillators, (H, W,) N]
    if omega.ndim == 2:
        return (moved @ omega.mT).movedim(-1, dim)
    omega = omega.reshape(omega.shape[0], *[1] * positions, *omega.shape[1:])
    return (omega @ moved.unsqueeze(-1)).squeeze(-1).movedim(-1, dim)


def rotate_pairs(x: Tensor, rate: Tensor, dim: int = -1) -> Tensor:
    """Natural rotation by 2×2 blocks: (x₁, x₂) → (ω x₂, −ω x₁) on each pair of consecutive components.

    x: grouped oscillators with even N. rate: a single ω, or [oscillators, N/2].
    """
    if dim >= 0:
        dim -= x.ndim
    pairs = x.unflatten(dim, (-1, 2))  # [..., oscillators, N/2, 2, ...]
    first, second = pairs.unbind(dim)
    if rate.numel() > 1:
        rate = rate.reshape(*rate.shape, *[1] * (-dim - 1))
    return torch.stack((rate * second, -rate * first), dim).flatten(dim - 1, dim)


def pairs_matrix(rate: Tensor, n: int) -> Tensor:
    """The Ω of `rotate_pairs` as a matrix, [N, N] for a single ω, or [oscillators, N, N]."""
    plane = rate.new_tensor([[0.0, 1.0], [-1.0, 0.0]])
    blocks = torch.diag_embed(rate.expand(n // 2) if rate.ndim < 2 else rate)  # [..., N/2, N/2]
    full = torch.einsum("...pq,ab->...paqb", blocks, plane)
    return full.flatten(-4, -3).flatten(-2, -1)


def energy(x: Tensor, jx: Tensor, c: Tensor) -> Tensor:
    """E = −½ Σᵢⱼ xᵢᵀJᵢⱼxⱼ − Σᵢ cᵢᵀxᵢ (Eq. 3), one value per sample: [B].

    x, jx = Jx and c have the same shape, batch first; they may be grouped or not.
    """
    return _dot(x, jx, -0.5) + _dot(x, c, -1.0)


def published_energy(x: Tensor, jx: Tensor, c: Tensor) -> Tensor:
    """−Σᵢ xᵢᵀ(Σⱼ Jᵢⱼxⱼ + cᵢ): the published implementation's energy, Eq. 3 without its ½; [B]."""
    return _dot(x, jx + c, -1.0)


def _dot(a: Tensor, b: Tensor, factor: float) -> Tensor:
    """Factor · ⟨a, b⟩ per sample, summed in float32 or wider: bfloat16 would lose the differences that matter."""
    wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    return factor * (a.to(wide) * b.to(wide)).flatten(1).sum(1)


def order_parameter(x: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """R = ‖mean over all oscillators of xᵢ‖ ∈ [0, 1]: 1 when all point the same way, ~1/√count when random; [B].

    x: grouped oscillators, batch first. mask: which oscillators count, in the shape of x without the component
    axis and without the batch.
    """
    moved = x.movedim(dim, -1).flatten(1, -2)  # [B, oscillators, N]
    if mask is not None:
        moved = moved[:, mask.flatten()]
    return torch.linalg.vector_norm(moved.mean(1), dim=-1)


def random_oscillators(
    shape: Sequence[int],
    n: int,
    dim: int = -1,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Oscillators drawn uniformly on the sphere; `shape` is that of the ungrouped array, with channels at `dim`."""
    if dim >= 0:
        dim -= len(shape)
    x = torch.randn(*shape, generator=generator, device=device, dtype=dtype)
    return ungroup(normalize(group(x, n, dim), dim), dim)
