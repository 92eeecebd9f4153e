"""The appendix's conditions are recognised, and under them the energy falls."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn import theory
from akorn.nn import (
    AttentionCoupling,
    ConvCoupling,
    DenseCoupling,
    KuramotoLayer,
    NaturalFrequency,
    PairwiseFrequency,
    Residual,
    ScalarCoupling,
    SparseCoupling,
)
from akorn.theory import layer_conditions, lyapunov_conditions

COUNT = 6  # oscillators in the dense examples


def antisymmetric(n: int, *batch: int) -> Tensor:
    a = torch.randn(*batch, n, n, dtype=torch.float64)
    return a - a.mT


def frequency_and_stimulus(n: int, count: int) -> tuple[Tensor, Tensor]:
    """A shared Ω and stimuli [count, n] in its kernel; in two dimensions the kernel is 0 and so is c."""
    direction = torch.nn.functional.normalize(torch.randn(n, dtype=torch.float64), dim=0)
    away = torch.eye(n, dtype=torch.float64) - torch.outer(direction, direction)
    size = torch.randn(count, 1, dtype=torch.float64)
    if n == 2:
        return antisymmetric(2), 0 * size * direction
    return away @ antisymmetric(n) @ away, size * direction


def example(n: int = 3) -> dict[str, Tensor]:
    """J = k ⊗ I as blocks, one Ω, and c in its kernel: everything holds."""
    torch.manual_seed(n)
    k = torch.randn(COUNT, COUNT, dtype=torch.float64)
    omega, c = frequency_and_stimulus(n, COUNT)
    blocks = torch.einsum("ij,ab->ijab", k + k.mT, torch.eye(n, dtype=torch.float64))
    return {"coupling": blocks, "omega": omega, "c": c}


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_the_papers_example_holds(n: int) -> None:
    report = lyapunov_conditions(**example(n))
    assert report.holds
    assert report.failed == ()
    assert "hold" in str(report)
    assert "not" not in str(report)


def test_dense_blocks_and_function_agree() -> None:
    case = example()
    matrix = case["coupling"].transpose(1, 2).reshape(COUNT * 3, COUNT * 3)
    whole = torch.block_diag(*[case["omega"]] * COUNT)
    assert lyapunov_conditions(matrix, whole, case["c"], n=3).holds
    state = case["c"].reshape(1, -1)
    assert lyapunov_conditions(lambda x: x @ matrix.mT, case["omega"], state).holds
    matrix[0, 5] += 1.0
    for coupling, c in ((matrix, case["c"]), (lambda x: x @ matrix.mT, state)):
        assert theory.SYMMETRIC in lyapunov_conditions(coupling, case["omega"], c).failed


def test_each_condition_alone_is_named() -> None:
    n = 3
    case = example(n)
    blocks, omega, c = case["coupling"], case["omega"], case["c"]

    crooked = blocks.clone()
    crooked[0, 1] *= 2  # still a multiple of I, so it commutes with Ω
    assert lyapunov_conditions(crooked, omega, c).failed == (theory.SYMMETRIC,)

    # A multiple of I in Ω commutes with everything; c = 0 is in any kernel.
    grown = omega + 0.5 * torch.eye(n, dtype=torch.float64)
    assert lyapunov_conditions(blocks, grown, None).failed == (theory.ANTISYMMETRIC,)

    # Ω beside the diagonal, J = I, so that they commute all the same.
    whole = torch.block_diag(*[omega] * COUNT)
    whole[:n, n : 2 * n] = omega
    identity = torch.eye(COUNT * n, dtype=torch.float64)
    assert lyapunov_conditions(identity, whole, c, n=n).failed == (theory.BLOCK_DIAGONAL,)

    assert lyapunov_conditions(blocks, omega, c + 1).failed == (theory.KERNEL,)
    one_each = torch.stack([omega * (1 + i) for i in range(COUNT)])
    assert lyapunov_conditions(blocks, one_each, c).failed == (theory.COMMUTE,)

    def saturating(x: Tensor) -> Tensor:
        return torch.tanh(x)

    report = lyapunov_conditions(saturating, omega, c.reshape(1, -1))
    assert report.failed == (theory.LINEAR,)
    assert not report.holds
    assert "J depends on the state" in str(report)
    assert report.failures == ("J depends on the state",)
    assert math.isnan(report.deviation(theory.SYMMETRIC))


def test_says_how_far_off() -> None:
    """The deviation is ‖J − Jᵀ‖/‖J‖: 2 for an antisymmetric J, and proportional for a small part of one."""
    torch.manual_seed(0)
    j = torch.randn(24, 24, dtype=torch.float64)
    symmetric, skew = j + j.mT, j - j.mT
    whole = lyapunov_conditions(skew, n=2, probes=800).deviation(theory.SYMMETRIC)
    assert whole == pytest.approx(2.0, rel=0.1)
    some = symmetric + 0.01 * skew
    expected = float((some - some.mT).norm() / some.norm())
    assert lyapunov_conditions(some, n=2, probes=800).deviation(theory.SYMMETRIC) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_commutator_is_never_positive_semi_definite(n: int) -> None:
    """Why the two propositions coincide: [J, Ω] has no trace, so some eigenvalue is negative unless it is 0."""
    for seed in range(20):
        torch.manual_seed(seed)
        j = torch.randn(COUNT * n, COUNT * n, dtype=torch.float64)
        j = j + j.mT
        omega = torch.block_diag(*antisymmetric(n, COUNT))
        commutator = j @ omega - omega @ j
        eigenvalues = torch.linalg.eigvalsh(commutator)
        assert commutator.trace().abs() < 1e-10
        assert eigenvalues[0] < -0.1 < 0.1 < eigenvalues[-1]
        assert lyapunov_conditions(j, omega, n=n).failed == (theory.COMMUTE,)


def couplings(symmetric: bool) -> list[tuple[nn.Module, tuple[int, ...]]]:
    """Every built-in linear coupling, with the shape of its states (n = 3)."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 3]])
    return [
        (DenseCoupling(12, symmetric=symmetric), (1, 12)),
        (DenseCoupling(12, symmetric=symmetric), (1, 12, 4, 4)),
        (ScalarCoupling(5, 3, symmetric=symmetric), (1, 15)),
        (SparseCoupling(edges, 4, 3, torch.randn(5), symmetric=symmetric), (1, 4, 6)),
        (SparseCoupling(edges, 4, 3, torch.randn(5, 3, 3), symmetric=symmetric), (1, 4, 6)),
        (ConvCoupling(6, 5, dims=1, symmetric=symmetric), (1, 9, 6)),
        (ConvCoupling(6, 3, symmetric=symmetric), (1, 6, 7, 8)),
        (ConvCoupling(6, 3, symmetric=symmetric, periodic=True), (1, 6, 7, 8)),
    ]


@pytest.mark.parametrize("index", range(8))
def test_symmetric_forms_are_symmetric(index: int) -> None:
    for symmetric in (True, False):
        coupling, shape = couplings(symmetric)[index]
        report = lyapunov_conditions(coupling, n=3, shape=shape)
        assert report.holds is symmetric
        assert report.failed == (() if symmetric else (theory.SYMMETRIC,))


@pytest.mark.parametrize("symmetric", [True, False])
def test_attention_depends_on_the_state(symmetric: bool) -> None:
    coupling = AttentionCoupling(8, 2, grid=(3, 3), symmetric=symmetric)
    report = lyapunov_conditions(coupling, n=4, shape=(1, 8, 3, 3))
    assert report.failed == (theory.LINEAR,)


def test_a_large_picture_is_checked_without_its_matrix() -> None:
    """64×64 oscillators of N = 4: J would have 16384² entries."""
    coupling = ConvCoupling(4, 9, symmetric=True)
    c = torch.ones(1, 4, 64, 64)
    shared = PairwiseFrequency(4, init=0.7)
    assert set(lyapunov_conditions(coupling, shared, c).failed) == {theory.KERNEL, theory.COMMUTE}
    assert lyapunov_conditions(coupling, None, c, n=4).holds


def test_probes_come_one_at_a_time() -> None:
    """Memory does not grow with their number, and more of them find the same."""
    shapes = []

    def coupling(x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return 2 * x

    assert lyapunov_conditions(coupling, n=2, shape=(5, 6), probes=3).holds
    assert set(shapes) == {(1, 6)}


def test_a_bias_of_the_coupling_is_part_of_c() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(12, 12)
    assert lyapunov_conditions(linear, n=3, shape=(1, 12)).failed == (theory.SYMMETRIC,)
    nn.init.eye_(linear.weight)
    assert lyapunov_conditions(linear, n=3, shape=(1, 12)).holds
    omega, c = frequency_and_stimulus(3, 4)
    linear.bias.data = c.flatten().float()  # in the kernel of Ω up to float32's rounding
    assert lyapunov_conditions(linear, omega, shape=(1, 12)).holds
    nn.init.normal_(linear.bias)
    assert lyapunov_conditions(linear, omega, shape=(1, 12)).failed == (theory.KERNEL,)
    against = -linear.bias.detach().reshape(1, 12)  # c + b = 0
    assert lyapunov_conditions(linear, omega, against).holds


def test_a_coupling_that_is_not_defined_at_zero() -> None:
    report = lyapunov_conditions(lambda x: x / x.norm(), n=2, shape=(1, 6))
    assert report.failed == (theory.LINEAR,)


def test_a_stimulus_that_changes_is_refused() -> None:
    layer = KuramotoLayer(12, 3, DenseCoupling(12))
    for c in (torch.zeros(5, 2, 12, 4, 4), torch.zeros(5, 2, 9, 12), torch.zeros(12), lambda t: torch.zeros(2, 12)):
        with pytest.raises(ValueError, match="constant in time"):
            layer_conditions(layer, c)


def test_layer() -> None:
    torch.manual_seed(1)
    layer = KuramotoLayer(12, 3, ScalarCoupling(4, 3, symmetric=True), omega=NaturalFrequency(3), bias=True)
    c = torch.zeros(2, 12)
    assert layer_conditions(layer, c).holds
    nn.init.normal_(layer.bias)  # a bias is part of c
    assert layer_conditions(layer, c).failed == (theory.KERNEL,)
    with pytest.raises(ValueError, match="Residual"):
        layer_conditions(KuramotoLayer(12, 3, ScalarCoupling(4, 3), rule=Residual()), c)


def test_bad_input() -> None:
    j = torch.eye(6)
    with pytest.raises(ValueError, match="n=…"):
        lyapunov_conditions(j)
    with pytest.raises(ValueError, match=r"use layer_conditions\(layer, c\)"):
        lyapunov_conditions(KuramotoLayer(6, 2, DenseCoupling(6)), n=2, shape=(1, 6))
    with pytest.raises(ValueError, match="n=…"):  # a whole Ω does not tell where its blocks end
        lyapunov_conditions(j, torch.zeros(6, 6))
    with pytest.raises(ValueError, match="n=…"):
        lyapunov_conditions(j, nn.Identity())
    with pytest.raises(ValueError, match="omega must be a tensor"):
        lyapunov_conditions(j, nn.Identity(), n=2)
    with pytest.raises(ValueError, match="at least 2 rotating dimensions, got n=0"):
        lyapunov_conditions(j, n=0)
    for probes in (0, -1, 2.5):
        with pytest.raises(ValueError, match="probes must be a whole number of at least 1"):
            lyapunov_conditions(j, n=2, probes=probes)
    with pytest.raises(ValueError, match="shape=…"):
        lyapunov_conditions(lambda x: x, n=2)
    with pytest.raises(ValueError, match=r"\[6, 4\]"):
        lyapunov_conditions(torch.zeros(6, 4), n=2)
    with pytest.raises(ValueError, match=r"\[5\]"):
        lyapunov_conditions(j, c=torch.zeros(5), n=2)
    with pytest.raises(ValueError, match="cannot be grouped"):
        lyapunov_conditions(j, n=4)
    with pytest.raises(ValueError, match=r"\[4, 4\]"):
        lyapunov_conditions(j, torch.zeros(4, 4), n=2)
    with pytest.raises(ValueError, match="c has values that are not finite"):
        lyapunov_conditions(j, c=torch.full((6,), math.nan), n=2)
    with pytest.raises(ValueError, match="the conditions are"):
        lyapunov_conditions(j, n=2).deviation("luck")


STEP_SIZES = [0.04 / 2**k for k in range(5)]


def energy_changes(omega: Tensor, c: Tensor, seed: int) -> tuple[list[float], list[float], bool]:
    """For each γ the largest rise and the largest fall of the energy in a step, and whether the conditions hold.

    A rise can only show where the fall, γ‖P(c + Jx)‖², is no larger than what the step size costs. So besides random
    states we take critical points of the energy, and states at a distance of about γ from them.
    """
    torch.manual_seed(seed)
    batch, (count, n) = 32, c.shape
    c = c.reshape(1, -1).expand(batch, -1)
    coupling = ScalarCoupling(count, n, symmetric=True).double()
    start = osc.random_oscillators((batch, count * n), n, dtype=torch.float64)
    noise = torch.randn_like(start)
    rises, falls = [], []
    with torch.no_grad():
        critical = KuramotoLayer(count * n, n, coupling, gamma=0.1).double()(start, c, 1500)
        for gamma in STEP_SIZES:
            layer = KuramotoLayer(count * n, n, coupling, omega=NaturalFrequency.from_matrix(omega)).double()
            layer.gamma = torch.tensor(gamma, dtype=torch.float64)
            changes = []
            for state in (start, critical, critical + 0.2 * gamma * noise, critical + gamma * noise):
                x = osc.ungroup(osc.normalize(osc.group(state, n)))
                changes.append(layer.energy(layer.step(x, c), c) - layer.energy(x, c))
            run = layer.evolve(start, c, round(0.8 / gamma), energy=osc.energy)
            changes.append(run.energies.diff(dim=0).flatten())
            every = torch.cat(changes)
            rises.append(max(float(every.max()), 0.0))
            falls.append(float(-every.min()))
    return rises, falls, layer_conditions(layer, c).holds


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_energy_falls_under_the_conditions(n: int, seed: int) -> None:
    """A rise shrinks at least as γ² (its part of order γ is zero), a fall as γ."""
    torch.manual_seed(seed)
    rises, falls, holds = energy_changes(*frequency_and_stimulus(n, 10), seed)
    assert holds
    assert n == 2 or rises[0] > 1e-12  # there is something to shrink; in the plane a rotation costs nothing
    for rise, half in pairwise(rises):
        assert half <= 1.1 * rise / 4 + 1e-13  # the last for the rounding of energies of about 10
    for fall, half in pairwise(falls):
        assert fall / half == pytest.approx(2.0, rel=0.1)


def test_energy_rises_without_them() -> None:
    """One Ω each does not commute with J: now a rise shrinks as γ alone, which shows that the test above can tell."""
    torch.manual_seed(0)
    rises, _, holds = energy_changes(antisymmetric(3, 10), torch.zeros(10, 3, dtype=torch.float64), 0)
    assert not holds
    for rise, half in pairwise(rises):
        assert rise / half == pytest.approx(2.0, rel=0.1)
