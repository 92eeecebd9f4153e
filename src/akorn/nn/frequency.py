"""Natural frequencies Ω: how each oscillator rotates when nothing acts on it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.nn.checks import whole_number


class NaturalFrequency(nn.Module):
    """Ωᵢxᵢ with any antisymmetric N×N matrix Ωᵢ (Eq. 2).

    The N(N−1)/2 entries above the diagonal are the parameters, so Ω is always antisymmetric.

    Args:
        n: rotating dimensions N.
        oscillators: None for one Ω that all share, or the number of oscillators for one each.
        init: the standard deviation of the entries at the start.
        learn: whether the entries are trained.

    """

    entries: Tensor

    def __init__(self, n: int, oscillators: int | None = None, *, init: float = 1.0, learn: bool = True) -> None:
        super().__init__()
        self.n = n = whole_number("n", n)
        osc.check_grouping(n, n)
        self.oscillators = oscillators = None if oscillators is None else whole_number("oscillators", oscillators)
        above = n * (n - 1) // 2
        shape = (above,) if oscillators is None else (oscillators, above)
        entries = init * torch.randn(shape)
        if learn:
            self.entries = nn.Parameter(entries)
        else:
            self.register_buffer("entries", entries)

    @classmethod
    def from_matrix(cls, matrix: Tensor, *, learn: bool = False) -> NaturalFrequency:
        """Ω as given: [N, N] or [oscillators, N, N], antisymmetric."""
        if matrix.ndim not in (2, 3) or matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(f"Ω must be [N, N] or [oscillators, N, N], got shape {list(matrix.shape)}")
        if not torch.allclose(matrix, -matrix.mT):
            raise ValueError("Ω must be antisymmetric: Ωᵀ = −Ω does not hold for the given matrix")
        self = cls(matrix.shape[-1], None if matrix.ndim == 2 else matrix.shape[0], learn=learn).to(matrix)
        with torch.no_grad():
            self.entries.copy_(matrix.flatten(-2)[..., self._above_diagonal()])
        return self

    @property
    def matrix(self) -> Tensor:
        """Ω: [N, N] or [oscillators, N, N]."""
        upper = self.entries.new_zeros(*self.entries.shape[:-1], self.n * self.n)
        upper = upper.index_copy(-1, self._above_diagonal(), self.entries).unflatten(-1, (self.n, self.n))
        return upper - upper.mT

    def _above_diagonal(self) -> Tensor:
        """The places of the entries in a matrix, row by row.

        Created on the device each time: a buffer that is not saved would stay empty in a layer built on the meta
        device.
        """
        rows, columns = torch.triu_indices(self.n, self.n, 1, device=self.entries.device).unbind(0)
        return torch.add(columns, rows, alpha=self.n)

    def forward(self, x: Tensor, dim: int) -> Tensor:
        """Ωx for grouped oscillators with their components at axis `dim`."""
        return osc.rotate(x, self.matrix, dim)

    def extra_repr(self) -> str:
        """What print() shows of the frequency."""
        return _shown(self.n, self.oscillators, self.entries)


class PairwiseFrequency(nn.Module):
    """The cheap rotation of the published models: (x₁, x₂) → (ω x₂, −ω x₁) on each pair of components.

    It is the block-diagonal Ω with N/2 planes, so N must be even.

    Args:
        n: rotating dimensions N.
        oscillators: None for one rate ω shared by all pairs, or the number of oscillators for N/2 rates each.
        init: the rate at the start.
        learn: whether the rates are trained.

    """

    rate: Tensor

    def __init__(self, n: int, oscillators: int | None = None, *, init: float = 1.0, learn: bool = True) -> None:
        super().__init__()
        self.n = n = whole_number("n", n)
        osc.check_grouping(n, n)
        if n % 2:
            raise ValueError(f"pairs need an even number of rotating dimensions, got n={n}: use NaturalFrequency")
        self.oscillators = oscillators = None if oscillators is None else whole_number("oscillators", oscillators)
        rate = torch.full((1,) if oscillators is None else (oscillators, n // 2), float(init))
        if learn:
            self.rate = nn.Parameter(rate)
        else:
            self.register_buffer("rate", rate)

    @property
    def matrix(self) -> Tensor:
        """Ω as a matrix: [N, N] or [oscillators, N, N]."""
        return osc.pairs_matrix(self.rate, self.n)

    def forward(self, x: Tensor, dim: int) -> Tensor:
        """Ωx for grouped oscillators with their components at axis `dim`."""
        return osc.rotate_pairs(x, self.rate, dim)

    def extra_repr(self) -> str:
        """What print() shows of the frequency."""
        return _shown(self.n, self.oscillators, self.rate)


def _shown(n: int, oscillators: int | None, values: Tensor) -> str:
    whose = "shared" if oscillators is None else f"oscillators={oscillators}"
    return f"n={n}, {whose}, {'learned' if isinstance(values, nn.Parameter) else 'fixed'}"
