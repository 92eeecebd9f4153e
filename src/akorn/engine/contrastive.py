"""The contrastive loss of SimCLR (NT-Xent), over the pictures of all processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable


def nt_xent(first: Tensor, second: Tensor, *, temperature: float = 0.1) -> Tensor:
    """The normalised temperature-scaled cross-entropy of two views of each picture, [B, D] each; a scalar.

        L = −1/2B Σᵢ log [ exp(sᵢ,ᵢ′/τ) / Σ_{k≠i} exp(sᵢ,ₖ/τ) ],    s = cosine similarity

    over all 2B views i, with i′ the other view of the same picture. With several processes B counts the pictures of all
    of them, and every process returns the same loss: that of the whole batch. Its gradient is scaled so that the mean
    over the processes, which the engine takes, is the gradient of the whole batch in one process.

    Similarities are float32 (or wider), also under autocast; products of float32 follow torch's TF32 setting.
    """
    if first.ndim != 2 or first.shape != second.shape or len(first) == 0:
        raise ValueError(
            f"two views must both be [B, D] with B at least 1, got {list(first.shape)} and {list(second.shape)}"
        )
    if not temperature > 0:
        raise ValueError(f"the temperature must be above 0, got {temperature}")
    with torch.autocast(first.device.type, enabled=False):
        views = torch.stack((first, second))  # [2, B, D]
        views = F.normalize(views.to(torch.promote_types(views.dtype, torch.float32)), dim=2)
        views = gather_with_gradient(views.transpose(0, 1)).transpose(0, 1).flatten(0, 1)  # [2·B of all, D]
        count = len(views) // 2
        scores = views @ views.T / temperature
        scores = scores.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=views.device), -torch.inf)
        partner = torch.arange(2 * count, device=views.device).roll(count)
        return F.cross_entropy(scores, partner)


def gather_with_gradient(x: Tensor) -> Tensor:
    """The concatenated x [B, …] of all processes, [processes · B, …], for a loss that all of them compute.

    Every process computes the same loss L of the gathered array and sends back the gradient of its own part only,
    times the number of processes P. The mean of the parameters' gradients over the processes is then
    (1/P) Σ_r P · ∂L/∂x_r · ∂x_r/∂θ = ∂L/∂θ, without communication in the backward pass.
    """
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return x
    return _Gather.apply(x)  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rank, ctx.processes = distributed.get_rank(), distributed.get_world_size()
        everyone = x.new_empty(ctx.processes * len(x), *x.shape[1:])
        # torch 2.13 has renamed it and warns about the old name
        gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)
        gather(everyone, x.contiguous())
        return everyone

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return ctx.processes * gradient.chunk(ctx.processes)[ctx.rank]
