"""The theory of the paper's appendix as code: when is the energy guaranteed to fall?

Written with all oscillators stacked, the dynamics and the energy are (Eq. 2 and 3)

    ẋ = Ωx + P(c + Jx),    E = −½ xᵀJx − cᵀx,    P = diag(I − xᵢxᵢᵀ),

and E never rises along the dynamics if

    1. J is symmetric, as a block matrix: Jᵢⱼ = Jⱼᵢᵀ;
    2. Ω is block-diagonal and antisymmetric;
    3. Ωᵢcᵢ = 0 for every oscillator;
    4. [J, Ω] = JΩ − ΩJ = 0.

The appendix's first proposition asks for less than 4, namely that [J, Ω] be positive semi-definite, and its second
for [J, Ω] = 0. The two coincide. A commutator has no trace, tr(JΩ) = tr(ΩJ); under 1 and 2 it is symmetric; and a
positive semi-definite matrix of zero trace has eigenvalues that are ≥ 0 and sum to 0, so it is 0. (Nor does it help
that states are not arbitrary vectors: the mean of xᵀ[J, Ω]x over all states on the spheres is tr[J, Ω]/N = 0 too, so
if it is nowhere negative it is zero everywhere.) So 4 is checked here.

For a coupling with a bias, x ↦ Jx + b, c + b takes the place of c, since b belongs there in the energy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.nn.kuramoto import KuramotoLayer
from akorn.nn.rules import Kuramoto

__all__ = [
    "ANTISYMMETRIC",
    "BLOCK_DIAGONAL",
    "COMMUTE",
    "FAILURES",
    "KERNEL",
    "LINEAR",
    "SYMMETRIC",
    "Condition",
    "Coupling",
    "LyapunovReport",
    "layer_conditions",
    "lyapunov_conditions",
]

Coupling = Tensor | Callable[[Tensor], Tensor]
"""J: a matrix [C·N, C·N], its blocks [C, C, N, N], or a module or function on states."""

LINEAR = "J does not depend on the state"
SYMMETRIC = "J is symmetric"
BLOCK_DIAGONAL = "Ω is block-diagonal"
ANTISYMMETRIC = "Ω is antisymmetric"
KERNEL = "Ωc = 0"
COMMUTE = "[J, Ω] = 0"

FAILURES = {
    LINEAR: "J depends on the state",
    SYMMETRIC: "J is not symmetric",
    BLOCK_DIAGONAL: "Ω is not block-diagonal",
    ANTISYMMETRIC: "Ω is not antisymmetric",
    KERNEL: "Ωc ≠ 0",
    COMMUTE: "[J, Ω] ≠ 0",
}
"""The words for a violated condition."""


@dataclass(frozen=True)
class Condition:
    """One of the appendix's conditions and the result of its check."""

    name: str
    deviation: float
    """The deviation, relative to the size of what is compared: 0 if it holds exactly, about 1 if not at all;
    NaN if the question makes no sense because J is not a matrix."""
    holds: bool

    @property
    def checked(self) -> bool:
        """Whether the question made sense."""
        return not math.isnan(self.deviation)

    @property
    def failure(self) -> str:
        """What is the case if it does not hold."""
        return FAILURES[self.name]


@dataclass(frozen=True)
class LyapunovReport:
    """Which of the sufficient conditions for a falling energy hold."""

    conditions: tuple[Condition, ...]

    @property
    def holds(self) -> bool:
        """Whether all hold, so that the energy cannot rise (up to O(γ²) per step, because of the step size)."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the violated conditions."""
        return tuple(c.name for c in self._violated())

    @property
    def failures(self) -> tuple[str, ...]:
        """What is wrong, in words: one phrase for each name in `failed`."""
        return tuple(c.failure for c in self._violated())

    def _violated(self) -> list[Condition]:
        return [c for c in self.conditions if c.checked and not c.holds]

    def deviation(self, name: str) -> float:
        """The deviation of a condition."""
        for condition in self.conditions:
            if condition.name == name:
                return condition.deviation
        raise ValueError(f"no condition {name!r}; the conditions are: {', '.join(c.name for c in self.conditions)}")

    def __str__(self) -> str:
        if self.holds:
            return "the conditions for a falling energy hold"
        off = "; ".join(f"{c.failure} (off by {c.deviation:.2g})" for c in self._violated())
        return f"the conditions for a falling energy do not hold: {off}"


def lyapunov_conditions(
    coupling: Coupling,
    omega: Tensor | nn.Module | None = None,
    c: Tensor | None = None,
    *,
    n: int | None = None,
    shape: Sequence[int] | None = None,
    probes: int = 8,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> LyapunovReport:
    """Check the sufficient conditions of this module's docstring for given J, Ω and c.

    No matrix is built unless it was given as one: J is applied to random states u, v in float64, and ⟨u, Jv⟩ = ⟨Ju, v⟩
    and JΩv = ΩJv are compared, so pictures and attention can be checked too. Random probes miss a violation with
    probability zero, up to the tolerance. They are drawn one at a time, so only a few states are in memory.

    Args:
        coupling: J, as a matrix [C·N, C·N], as blocks [C, C, N, N], or as any module or function on states. A module
            is copied to float64 and eval mode; a function must take float64. One that is not linear, attention for
            example, fails the condition that J does not depend on the state, and J is not checked further.
            The constant b of an affine one, x ↦ Jx + b, counts as part of c.
        omega: Ω, as [N, N] for all, [C, N, N] one each, the whole [C·N, C·N], a module of `akorn.nn`, or None for 0.
        c: the stimulus, in the shape of the states, or None for 0.
        n: rotating dimensions N; needed unless the blocks or omega determine it.
        shape: of the states, [B, C], [B, tokens, C] or [B, C, H, W]; needed if J is a function and c is None.
        probes: number of pairs of random states; more give the deviations more precisely.
        tolerance: accepted relative deviation; by default a little more than float32's rounding.
        seed: of the random states.

    """
    if isinstance(coupling, KuramotoLayer):
        raise ValueError("a layer is more than its coupling J: use layer_conditions(layer, c)")
    if isinstance(probes, bool) or not isinstance(probes, int) or probes < 1:
        raise ValueError(f"probes must be a whole number of at least 1, got {probes!r}")
    n = _dimensions(coupling, omega, n)
    apply_j, shape, device = _as_function(coupling, c, shape)
    dim = -1 if len(shape) < 4 else -3
    osc.check_grouping(shape[dim], n)
    count = shape[dim] // n
    blocks, off_diagonal = _frequencies(omega, n, count, device)
    for name, values in (("Ω", blocks), ("c", c)):
        if values is not None and not values.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")

    def rotated(x: Tensor) -> Tensor:
        return osc.ungroup(osc.rotate(osc.group(x, n, dim), blocks, dim), dim)

    with torch.no_grad():
        size_omega = _norm(blocks) / math.sqrt(blocks.numel() / n**2)  # of one block
        constant = _constant(apply_j, (1, *shape[1:]), device)
        linear, symmetric, commutator = _deviations(apply_j, constant, rotated, probes, seed)
        antisymmetric = _norm(blocks + blocks.mT) / _scale(2 * _norm(blocks))
        drive = constant if linear <= tolerance else torch.zeros_like(constant)
        if c is not None:
            drive = drive + c.detach().to(device, torch.float64).reshape(-1, *shape[1:])
        kernel = _norm(rotated(drive)) / _scale(size_omega * _norm(drive))

    matrix = linear <= tolerance
    found = {
        LINEAR: linear,
        SYMMETRIC: symmetric if matrix else math.nan,
        BLOCK_DIAGONAL: off_diagonal,
        ANTISYMMETRIC: antisymmetric,
        KERNEL: kernel,
        COMMUTE: commutator / _scale(size_omega) if matrix else math.nan,
    }
    return LyapunovReport(tuple(Condition(name, off, off <= tolerance) for name, off in found.items()))


def layer_conditions(layer: KuramotoLayer, c: Tensor, **options: int | float) -> LyapunovReport:
    """`lyapunov_conditions` of a layer, with c after its stimulus module and bias; the same options apply.

    c is one stimulus, constant in time and in the shape of the states: the theory has no other.
    """
    if not isinstance(layer.rule, Kuramoto):
        raise ValueError(f"the theory is about the rule Kuramoto, but the layer has {type(layer.rule).__name__}")
    if not isinstance(c, Tensor):
        raise ValueError(f"c must be an array that is constant in time, got {type(c).__name__}: pass one step's c")
    if c.ndim not in (2, 3, 4) or c.shape[-1 if c.ndim < 4 else -3] != layer.channels:
        raise ValueError(
            f"c must be constant in time, [B, C], [B, tokens, C] or [B, C, H, W] with C = {layer.channels}, got shape"
            f" {list(c.shape)}: pass that of one step"
        )
    with torch.no_grad():
        drive = layer.drive(c, c.ndim)(0)
    return lyapunov_conditions(layer.coupling, layer.omega, drive, n=layer.n, **options)  # type: ignore[arg-type]


def _constant(apply_j: Callable[[Tensor], Tensor], size: tuple[int, ...], device: torch.device) -> Tensor:
    """The coupling of 0: the b of Jx + b; 0 if the coupling is not defined there, hence not affine."""
    zero = torch.zeros(size, dtype=torch.float64, device=device)
    constant = apply_j(zero)
    if constant.shape != zero.shape:
        raise ValueError(f"the coupling maps a state of shape {list(size)} to {list(constant.shape)}")
    return constant if constant.isfinite().all() else zero


def _deviations(
    apply_j: Callable[[Tensor], Tensor], constant: Tensor, rotated: Callable[[Tensor], Tensor], probes: int, seed: int
) -> tuple[float, float, float]:
    """How far J is from being linear, symmetric, and commuting with Ω, relative to ‖J‖."""
    generator = torch.Generator().manual_seed(seed)
    bent = combined = image = commutator = 0.0  # sums of squares
    skew: list[float] = []
    earlier: list[tuple[Tensor, Tensor]] = []  # the last pair's states x and Jx

    def draw() -> Tensor:
        return torch.randn(constant.shape, generator=generator, dtype=torch.float64).to(constant.device)

    for _ in range(probes):
        u, v = draw(), draw()
        ju, jv = apply_j(u) - constant, apply_j(v) - constant
        if not jv.isfinite().all():
            raise ValueError("J has values that are not finite")
        # On average over random states, ‖Jv‖² is ‖J‖², (⟨u, Jv⟩ − ⟨Ju, v⟩)² is ‖J − Jᵀ‖² and ‖[J, Ω]v‖² is ‖[J, Ω]‖².
        image += (_norm(ju) ** 2 + _norm(jv) ** 2) / 2
        pairs = [((u, ju), (v, jv)), *product(((u, ju), (v, jv)), earlier)]
        skew += [float((x * jy).sum() - (jx * y).sum()) ** 2 for (x, jx), (y, jy) in pairs]
        earlier = [(u, ju), (v, jv)]
        commutator += _norm(apply_j(rotated(v)) - constant - rotated(jv)) ** 2
        bent += _norm(apply_j(2 * u - 3 * v) - constant - (2 * ju - 3 * jv)) ** 2
        combined += _norm(2 * ju - 3 * jv) ** 2
    size = _scale(image)
    symmetric = math.sqrt(probes * sum(skew) / len(skew) / size)
    return math.sqrt(bent / _scale(combined)), symmetric, math.sqrt(commutator / size)


def _dimensions(coupling: Coupling, omega: Tensor | nn.Module | None, n: int | None) -> int:
    """N, from whichever argument determines it."""
    if n is None and isinstance(coupling, Tensor) and coupling.ndim == 4:
        n = coupling.shape[-1]
    whole = isinstance(coupling, Tensor) and isinstance(omega, Tensor) and omega.shape == coupling.shape
    if n is None and omega is not None and not whole:
        n = omega.shape[-1] if isinstance(omega, Tensor) else getattr(omega, "n", None)
    if n is None:
        raise ValueError("n, the number of rotating dimensions, cannot be read from J or Ω: pass it as n=…")
    return n


def _as_function(
    coupling: Coupling, c: Tensor | None, shape: Sequence[int] | None
) -> tuple[Callable[[Tensor], Tensor], tuple[int, ...], torch.device]:
    """J as a function on float64 states, their shape (batch first), and their device."""
    if isinstance(coupling, Tensor):
        matrix = coupling.detach().double()
        if matrix.ndim == 4:  # J_ij at [i, j]: rows are (i, component), columns (j, component)
            matrix = matrix.transpose(1, 2).flatten(2, 3).flatten(0, 1)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"J must be [C·N, C·N] or [C, C, N, N], got shape {list(coupling.shape)}")
        if c is not None and c.numel() % len(matrix):
            raise ValueError(f"c of shape {list(c.shape)} does not match J of shape {list(matrix.shape)}")
        return lambda x: x @ matrix.mT, (1, len(matrix)), matrix.device
    if shape is None and c is None:
        raise ValueError("J is a function: pass c, or the shape of the states as shape=…")
    state = tuple(shape) if shape is not None else tuple(c.shape if c is not None else ())
    if len(state) not in (2, 3, 4):
        raise ValueError(f"states must be [B, C], [B, tokens, C] or [B, C, H, W], got the shape {list(state)}")
    if c is not None and tuple(c.shape[1:]) != state[1:]:
        raise ValueError(f"c of shape {list(c.shape)} does not match states of shape {list(state)}")
    device = c.device if c is not None else torch.device("cpu")
    if isinstance(coupling, nn.Module):
        first = next((t for t in [*coupling.parameters(), *coupling.buffers()]), None)
        coupling = copy.deepcopy(coupling).double().eval()
        device = first.device if first is not None else device
    return coupling, state, device


def _frequencies(omega: Tensor | nn.Module | None, n: int, count: int, device: torch.device) -> tuple[Tensor, float]:
    """Ω's diagonal blocks in float64, [N, N] or [C, N, N], and the size of everything outside them."""
    if omega is None:
        return torch.zeros(n, n, dtype=torch.float64, device=device), 0.0
    matrix = omega if isinstance(omega, Tensor) else getattr(omega, "matrix", None)
    if not isinstance(matrix, Tensor):
        raise ValueError(f"omega must be a tensor or have its matrix as .matrix, got {type(omega).__name__}")
    matrix = matrix.detach().to(device, torch.float64)
    if matrix.shape in ((n, n), (count, n, n)):
        return matrix, 0.0
    if matrix.shape != (count * n, count * n):
        raise ValueError(
            f"Ω must be [{n}, {n}], [{count}, {n}, {n}] or [{count * n}, {count * n}], got {list(matrix.shape)}"
        )
    blocks = matrix.unflatten(0, (count, n)).unflatten(2, (count, n)).transpose(1, 2)  # [C, C, N, N]
    own = blocks.diagonal(dim1=0, dim2=1).movedim(-1, 0)  # [C, N, N]
    beside = blocks * ~torch.eye(count, dtype=torch.bool, device=device)[:, :, None, None]
    return own, _norm(beside) / _scale(_norm(matrix))


def _norm(a: Tensor) -> float:
    return float(torch.linalg.vector_norm(a))


def _scale(size: float) -> float:
    """A size to divide by, which is 1 instead of 0."""
    return size if size > 0 else 1.0
