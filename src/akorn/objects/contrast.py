"""Pairs of patches or regions that belong together: contrast with others, and balanced assignment to prototypes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.engine.contrastive import gather_with_gradient

_ROUNDS = 3  # of balancing


def paired_contrast(first: Tensor, second: Tensor, valid: Tensor, temperature: float, *, within: bool = True) -> Tensor:
    """NT-Xent of pairs [B, S, D] of patches or regions, several per picture, where `valid` [B, S]; a scalar.

    As `nt_xent`, with S pairs per picture. Pairs that are not valid are ignored. within: whether the other pairs of
    the same picture count as different; otherwise only those of other pictures do.
    """
    with torch.autocast(first.device.type, enabled=False):
        views = torch.stack((first, second), 1).float()  # [B, 2, S, D]
        views = gather_with_gradient(F.normalize(views, dim=3)).transpose(0, 1)  # [2, B of all, S, D]
        known = gather_with_gradient(valid.float()).flatten() > 0  # [B·S]
        _, pictures, samples, size = views.shape
        flat = views.reshape(-1, size)
        count = pictures * samples
        rows = torch.arange(2 * count, device=flat.device)
        partner = rows.roll(count)
        hidden = (rows[:, None] == rows) | ~known.repeat(2)
        if not within:
            owner = rows % count // samples
            hidden |= owner[:, None] == owner
        hidden &= partner[:, None] != rows
        each = F.cross_entropy((flat @ flat.T / temperature).masked_fill(hidden, -torch.inf), partner, reduction="none")
        weight = known.repeat(2).float()
        return (each * weight).sum() / weight.sum().clamp(min=1)


def swapped_prediction(first: Tensor, second: Tensor, valid: Tensor, prototypes: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of each view's prototypes with the balanced assignment of the other's, pairs [B, S, D]; a scalar.

    L = −½ Σ (q₂ log p₁ + q₁ log p₂),    p = softmax(cos(z, prototypes)/τ),   q = `balanced`, without gradient
    """
    with torch.autocast(first.device.type, enabled=False):
        views = gather_with_gradient(torch.stack((first, second), 1).float()).transpose(0, 1).flatten(1, 2)
        weight = gather_with_gradient(valid.float()).flatten()  # [B·S]
        scores = F.normalize(views, dim=2) @ F.normalize(prototypes.float(), dim=1).T  # [2, B·S, K]
        logs = F.log_softmax(scores / temperature, 2)
        with torch.no_grad():
            assigned = torch.stack([balanced(one, weight) for one in scores])
        each = -(assigned.flip(0) * logs).sum(2).mean(0)  # [B·S]
        return (each * weight).sum() / weight.sum().clamp(min=1)


def balanced(scores: Tensor, weight: Tensor, temperature: float = 0.05) -> Tensor:
    """Soft assignments [P, K] of points to prototypes, each of which gets about the same share (Sinkhorn).

    All rows sum to 1. weight: [P], how much each row counts in the shares; those with 0 do not count.
    """
    counted = weight.log()[:, None]
    shares = scores / temperature  # their logarithms: at low temperatures the shares themselves would underflow
    for _ in range(_ROUNDS):
        total = (shares + counted).logsumexp(0, keepdim=True)
        shares = shares - total.masked_fill(total == -torch.inf, 0)  # if no row counts
        shares = shares.log_softmax(1)
    return shares.exp()


def projection(channels: int) -> nn.Sequential:
    """A head like SimCLR's: ch → 4ch → ReLU → ch."""
    return nn.Sequential(nn.Linear(channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, channels))


def pick(tokens: Tensor, which: Tensor) -> Tensor:
    """Tokens [B, P, C] at `which` [B, S] → [B, S, C]."""
    return tokens.gather(1, which[:, :, None].expand(-1, -1, tokens.shape[2]))
