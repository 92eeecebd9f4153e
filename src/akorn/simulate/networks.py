"""Which oscillators are coupled in the classical model: the mean field, and graphs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from akorn.nn.coupling import SparseCoupling


class MeanFieldCoupling(nn.Module):
    """Uniform all-to-all coupling, J_ij = K/n·I: y_i = K·mean_j x_j, in linear time.

    Args:
        strength: K, one number or one for each sample, [B].
        n: rotating dimensions N.

    """

    strength: Tensor

    def __init__(self, strength: Tensor, n: int = 2) -> None:
        super().__init__()
        self.n = n
        self.register_buffer("strength", strength.reshape(-1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C] → [B, C]."""
        oscillators = x.unflatten(-1, (-1, self.n))  # [B, C/N, N]
        mean = self.strength * oscillators.mean(1)  # [B, N]
        return mean.unsqueeze(1).expand_as(oscillators).flatten(1)


class GraphCoupling(nn.Module):
    """Coupling along the edges of an undirected graph, J_ij = (K/⟨k⟩) A_ij·I, with ⟨k⟩ the mean degree.

    Args:
        strength: K, one number or one for each sample, [B].
        edges: [2, E], each edge once.
        nodes: number of oscillators.
        n: rotating dimensions N.

    """

    strength: Tensor

    def __init__(self, strength: Tensor, edges: Tensor, nodes: int, n: int = 2) -> None:
        super().__init__()
        self.n = n
        degree = 2 * edges.shape[1] / nodes
        weight = torch.full((edges.shape[1],), 1 / degree if degree else 0.0, dtype=strength.dtype)
        self.edges = SparseCoupling(edges, nodes, n, weight, symmetric=True)
        self.register_buffer("strength", strength.reshape(-1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C] → [B, C]: each oscillator is a node."""
        return self.strength * self.edges(x.unflatten(-1, (-1, self.n))).flatten(1)


def edges_of(network: str, nodes: int, degree: int, rewiring: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The edges of a ring, a small world or a random graph, each once: [2, E]."""
    if network == "random":
        return _random(nodes, degree, rng)
    here = np.repeat(np.arange(nodes), degree // 2)
    there = (here + np.tile(np.arange(1, degree // 2 + 1), nodes)) % nodes
    edges = {(min(i, j), max(i, j)): None for i, j in zip(here.tolist(), there.tolist(), strict=True)}
    if network == "small-world":
        edges = _rewired(edges, nodes, rewiring, rng)
    return np.array(list(edges), dtype=np.int64).reshape(-1, 2).T.copy()


def _random(nodes: int, degree: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Erdős and Rényi: every pair is an edge with probability degree/(nodes − 1); a row at a time, to save memory."""
    found = []
    for i in range(nodes - 1):
        others = np.flatnonzero(rng.random(nodes - 1 - i) < degree / (nodes - 1)) + i + 1
        found.append(np.stack((np.full_like(others, i), others)))
    return np.concatenate(found, 1).astype(np.int64)


def _rewired(
    edges: dict[tuple[int, int], None], nodes: int, share: float, rng: np.random.Generator
) -> dict[tuple[int, int], None]:
    """Watts and Strogatz: move one end of some edges to a random place, without duplicate edges or loops."""
    kept = dict(edges)  # a dict keeps its order, unlike a set, so that only the seed matters
    for i, j in edges:
        if rng.random() >= share:
            continue
        k = int(rng.integers(nodes))
        new = (min(i, k), max(i, k))
        if k != i and new not in kept:
            del kept[i, j]
            kept[new] = None
    return kept
