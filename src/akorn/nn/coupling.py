"""Couplings J that do not depend on the state: dense, scalar, sparse on a graph, convolutional.

A coupling is a module that maps a state x to Jx, an array of the same shape; any such module works. Those here are
linear and have no bias (see `KuramotoLayer`), so J is a matrix, and `symmetric=True` makes it J = Jᵀ, which is
needed to guarantee that the energy falls (`akorn.theory`). The attentive coupling is in `attention.py`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.execution import ops
from akorn.nn.checks import whole_number
from akorn.nn.norm import pointwise


class DenseCoupling(nn.Module):
    """Fully connected: y = Jx over the channels, J [C, C], so each pair of oscillators has a full N×N block.

    It acts on the channels of each position separately; to couple oscillators at all positions, flatten them
    into [B, C].
    """

    def __init__(self, channels: int, *, symmetric: bool = False) -> None:
        super().__init__()
        self.channels = channels = whole_number("channels", channels)
        self.symmetric = symmetric
        self.free_weight = nn.Parameter(torch.empty(channels, channels).normal_(std=1 / math.sqrt(channels)))

    @property
    def weight(self) -> Tensor:
        """J: [C, C]."""
        w = self.free_weight
        return 0.5 * (w + w.mT) if self.symmetric else w

    def forward(self, x: Tensor) -> Tensor:
        """[B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
        return pointwise(x, self.weight)

    def extra_repr(self) -> str:
        """What print() shows of the coupling."""
        return f"{self.channels}, symmetric={self.symmetric}"


class ScalarCoupling(nn.Module):
    """Fully connected with J_ij = k_ij·I: a single number per pair of oscillators, as in the classical model.

    Args:
        oscillators: how many there are.
        n: rotating dimensions N.
        weight: k [oscillators, oscillators] to start from; random if None.
        symmetric: use (k + kᵀ)/2.

    """

    def __init__(self, oscillators: int, n: int, weight: Tensor | None = None, *, symmetric: bool = False) -> None:
        super().__init__()
        oscillators, n = whole_number("oscillators", oscillators), whole_number("n", n)
        osc.check_grouping(oscillators * n, n)
        if weight is None:
            weight = torch.empty(oscillators, oscillators).normal_(std=1 / math.sqrt(oscillators))
        elif weight.shape != (oscillators, oscillators):
            raise ValueError(f"the weight must be [{oscillators}, {oscillators}], got {list(weight.shape)}")
        self.n = n
        self.oscillators = oscillators
        self.symmetric = symmetric
        self.free_weight = nn.Parameter(weight.clone())

    @property
    def weight(self) -> Tensor:
        """k: [oscillators, oscillators]."""
        w = self.free_weight
        return 0.5 * (w + w.mT) if self.symmetric else w

    def forward(self, x: Tensor) -> Tensor:
        """[B, C], [B, tokens, C] or [B, C, H, W] → the same shape."""
        dim = osc.channel_axis(x)
        grouped = osc.group(x, self.n, dim).movedim(dim - 1, -1)  # [..., N, (H, W,) oscillators]
        return osc.ungroup(F.linear(grouped, self.weight).movedim(-1, dim - 1), dim)

    def extra_repr(self) -> str:
        """What print() shows of the coupling."""
        return f"oscillators={self.oscillators}, n={self.n}, symmetric={self.symmetric}"


class SparseCoupling(nn.Module):
    """Coupling along the edges of a given graph whose nodes are the tokens: y_i = Σ_{j→i} J_ij x_j.

    Args:
        edges: [2, E] integers, row 0 the source j and row 1 the target i of each edge.
        nodes: number of nodes, the tokens of the state [B, nodes, C].
        n: rotating dimensions N.
        weight: [E] for J_ij = k_ij·I, or [E, N, N] for full blocks; every oscillator of a node shares them.
        symmetric: an edge given once acts both ways, J_ji = J_ijᵀ; a loop i → i has (J + Jᵀ)/2.

    """

    edges: Tensor

    def __init__(self, edges: Tensor, nodes: int, n: int, weight: Tensor, *, symmetric: bool = False) -> None:
        super().__init__()
        nodes, n = whole_number("nodes", nodes), whole_number("n", n)
        osc.check_grouping(n, n)
        if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
            raise ValueError(f"edges must be whole numbers [2, E], got {edges.dtype} {list(edges.shape)}")
        if edges.numel() and not (edges.min() >= 0 and edges.max() < nodes):
            raise ValueError(f"edges name nodes {int(edges.min())} to {int(edges.max())}, but there are {nodes}")
        count = edges.shape[1]
        if weight.shape not in ((count,), (count, n, n)):
            raise ValueError(f"weight must be [{count}] or [{count}, {n}, {n}], got {list(weight.shape)}")
        self.nodes = nodes
        self.n = n
        self.symmetric = symmetric
        self.register_buffer("edges", edges.clone())
        self.free_weight = nn.Parameter(weight.clone())

    def _directed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source, target and weight of every edge, in both directions if symmetric."""
        source, target = self.edges.unbind(0)
        weight = self.free_weight
        if not self.symmetric:
            return source, target, weight
        back = weight.mT if weight.ndim == 3 else weight
        # A loop is its own reverse, so each of the two copies has half the weight.
        loop = torch.where(source == target, 0.5, 1.0).to(weight).reshape(-1, *[1] * (weight.ndim - 1))
        return (
            torch.cat((source, target)),
            torch.cat((target, source)),
            torch.cat((loop * weight, loop * back)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, nodes, C] → the same shape."""
        if x.ndim != 3 or x.shape[1] != self.nodes:
            raise ValueError(f"expected a state of shape [B, {self.nodes}, C], got {list(x.shape)}")
        source, target, weight = self._directed()
        sent = osc.group(x.index_select(1, source), self.n)  # [B, E, C/N, N]
        received = "e,beci->beci" if weight.ndim == 1 else "eij,becj->beci"
        sent = osc.ungroup(torch.einsum(received, weight, sent))
        return sent.new_zeros(*x.shape).index_add(1, target, sent)

    def extra_repr(self) -> str:
        """What print() shows of the coupling."""
        return f"nodes={self.nodes}, edges={self.edges.shape[1]}, n={self.n}, symmetric={self.symmetric}"


class ConvCoupling(nn.Module):
    """Local coupling: y_{c,h,w} = Σ_{d,h′,w′} J_{c,d,h′,w′} x_{d,h+h′,w+w′}, zero beyond the border.

    Args:
        channels: number of channels C; every pair of oscillators and every offset has a full N×N block.
        kernel_size: odd, so that the kernel is centred.
        dims: 2 for pictures [B, C, H, W], 1 for tokens [B, tokens, C].
        symmetric: a point-symmetric kernel, J_{c,d,δ} = J_{d,c,−δ}ᵀ.
        periodic: wrap around at the border instead.

    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        *,
        dims: int = 2,
        symmetric: bool = False,
        periodic: bool = False,
    ) -> None:
        super().__init__()
        channels, kernel_size = whole_number("channels", channels), whole_number("kernel_size", kernel_size)
        if kernel_size % 2 == 0:
            raise ValueError(f"the kernel must have an odd size, got {kernel_size}")
        if dims not in (1, 2):
            raise ValueError(f"a convolution must have 1 or 2 dimensions, got dims={dims}")
        self.channels = channels
        self.kernel_size = kernel_size
        self.dims = dims
        self.symmetric = symmetric
        self.periodic = periodic
        weight = torch.empty(channels, channels, *[kernel_size] * dims)
        bound = 1 / math.sqrt(channels * kernel_size**dims)  # torch's own start of a convolution
        self.free_weight = nn.Parameter(weight.uniform_(-bound, bound))

    @property
    def weight(self) -> Tensor:
        """The kernel: [C, C, k] or [C, C, k, k]."""
        w = self.free_weight
        if not self.symmetric:
            return w
        return 0.5 * (w + w.transpose(0, 1).flip(tuple(range(2, 2 + self.dims))))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W], or [B, tokens, C] with dims=1, → the same shape."""
        if x.ndim != self.dims + 2:
            wanted = "pictures [B, C, H, W]" if self.dims == 2 else "tokens [B, tokens, C]"
            raise ValueError(f"a {self.dims}-D convolution takes {wanted}, got shape {list(x.shape)}")
        if self.dims == 2 and not self.periodic:
            return ops.conv2d(x, self.weight)
        margin = self.kernel_size // 2
        signal = x.transpose(1, 2) if self.dims == 1 else x
        if self.periodic:
            signal = F.pad(signal, [margin] * (2 * self.dims), mode="circular")
            margin = 0
        if self.dims == 1:
            return F.conv1d(signal, self.weight, padding=margin).transpose(1, 2)
        return F.conv2d(signal, self.weight)

    def extra_repr(self) -> str:
        """What print() shows of the coupling."""
        return f"{self.channels}, kernel_size={self.kernel_size}, dims={self.dims}, symmetric={self.symmetric}"
