"""The classical Kuramoto model is the layer with N = 2, c = 0 and scalar J, and synchronises where theory says."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import akorn.simulate as sim
from akorn import theory
from akorn.nn import PairwiseFrequency, ScalarCoupling
from akorn.simulate.networks import edges_of


def unit(phases: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack((np.cos(phases), np.sin(phases)), -1).reshape(1, -1))


@pytest.mark.parametrize("seed", range(3))
def test_follows_the_phase_equation_at_first_order(seed: int) -> None:
    """θ̇ᵢ = ωᵢ + Σⱼ kᵢⱼ sin(θⱼ − θᵢ), integrated by SciPy: halving γ halves the distance."""
    rng = np.random.default_rng(seed)
    count, horizon = 7, 2.0
    k = rng.normal(size=(count, count)) / math.sqrt(count)  # not symmetric: the equation needs no energy
    omega = rng.normal(size=count)
    start = rng.uniform(0, 2 * math.pi, count)

    def slope(_: float, phase: np.ndarray) -> np.ndarray:
        return omega + (k * np.sin(phase[None, :] - phase[:, None])).sum(1)

    exact = unit(solve_ivp(slope, (0, horizon), start, rtol=1e-11, atol=1e-12).y[:, -1])
    coupling = ScalarCoupling(count, 2, torch.from_numpy(k)).double()
    distances = []
    for steps in (100, 200, 400, 800, 1600):
        layer = sim.classic_layer(coupling, torch.from_numpy(omega), horizon / steps)
        assert isinstance(layer.omega, PairwiseFrequency)
        with torch.no_grad():
            x = layer(unit(start), torch.zeros(1, 2 * count, dtype=torch.float64), steps)
        distances.append(float((x - exact).norm()))
    orders = [math.log2(coarse / fine) for coarse, fine in pairwise(distances)]
    assert distances[-1] < 5e-3
    assert orders[-1] == pytest.approx(1.0, abs=0.05)
    assert orders == pytest.approx([1.0] * 4, abs=0.35)


@pytest.mark.parametrize(
    ("frequencies", "critical", "k_min", "k_max"),
    [("lorentzian", 2.0, 1.2, 3.6), ("gaussian", math.sqrt(8 / math.pi), 1.0, 2.5)],
)
def test_synchronises_at_the_critical_coupling(frequencies: str, critical: float, k_min: float, k_max: float) -> None:
    """The onset is within 4 % of 2/(π g(0)); a step of γ = 0.05 alone moves it by about 2 %, less with a smaller γ."""
    sweep = sim.simulate("classic", frequencies=frequencies, k_min=k_min, k_max=k_max, k_count=16, seed=1)
    assert isinstance(sweep, sim.Sweep)
    assert sweep.critical_coupling == pytest.approx(critical)
    assert sweep.onset == pytest.approx(critical, rel=0.04)
    below, above = sweep.couplings < 0.8 * critical, sweep.couplings > 1.2 * critical
    assert sweep.synchrony[below].max() < 0.1
    expected = sim.theoretical_synchrony(sweep.couplings, frequencies)
    np.testing.assert_allclose(sweep.synchrony[above], expected[above], atol=0.05)
    assert expected[above].min() > 0.35


def test_theory_of_the_sweep() -> None:
    k = np.array([0.5, 1.9, 2.5, 4.0])
    exact = np.sqrt(np.maximum(1 - 2 / k, 0))
    np.testing.assert_allclose(sim.theoretical_synchrony(k, "lorentzian"), exact, atol=1e-5)
    np.testing.assert_allclose(sim.theoretical_synchrony(3 * k, "lorentzian", 3.0), exact, atol=1e-5)
    for name in ("lorentzian", "gaussian"):
        critical = sim.critical_coupling(name, 0.7)
        near, far = sim.theoretical_synchrony(np.array([0.999, 1.02]) * critical, name, 0.7)
        assert near == 0
        assert 0.05 < far < 0.3
        omega = sim.natural_frequencies(name, 101, 0.7)
        quartile = 0.7 if name == "lorentzian" else 0.7 * 0.6745
        assert omega[75] == pytest.approx(quartile, rel=0.03)
        np.testing.assert_allclose(omega, -omega[::-1], atol=1e-9)


def test_onset_of_a_known_curve() -> None:
    k = np.linspace(0, 4, 60)
    for name, tolerance in (("lorentzian", 1e-4), ("gaussian", 0.01)):
        synchrony = sim.theoretical_synchrony(k, name)
        assert sim.measured_onset(k, synchrony) == pytest.approx(sim.critical_coupling(name), rel=tolerance)
    assert sim.measured_onset(k, np.zeros(60)) is None


def test_an_onset_that_the_sweep_does_not_show_is_none() -> None:
    k = np.linspace(0, 4, 60)
    synchrony = sim.theoretical_synchrony(k, "lorentzian")
    assert sim.measured_onset(k[k > 2.4], synchrony[k > 2.4]) is None  # all of the sweep is above the onset
    assert sim.measured_onset(k[:33], synchrony[:33]) is None  # two points are above it
    late, jump = k[k > 2.4], synchrony[k > 2.4]
    jump[0] = 0.0
    assert sim.measured_onset(late, jump) is None  # the fit has it at 2, below all that was swept


@pytest.mark.parametrize("seed", range(4))
def test_three_oscillators_have_no_onset(seed: int) -> None:
    sweep = sim.simulate("classic", oscillators=3, steps=300, seed=seed)
    assert sweep.onset is None
    assert sweep.summary()["onset"] is None
    assert "no onset was found here" in sweep.describe()


def test_mean_field_is_the_all_to_all_matrix() -> None:
    x = torch.randn(3, 10, dtype=torch.float64)
    strength = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    mean_field = sim.MeanFieldCoupling(strength)(x)
    for sample, k in enumerate(strength):
        dense = ScalarCoupling(5, 2, torch.full((5, 5), float(k) / 5)).double()
        torch.testing.assert_close(mean_field[sample], dense(x)[sample], rtol=0, atol=1e-7)


@pytest.mark.parametrize("network", ["ring", "small-world", "random"])
def test_networks(network: str) -> None:
    """Simple graphs of the wanted degree, coupled as their adjacency matrix says."""
    nodes, degree = 200, 6
    edges = edges_of(network, nodes, degree, 0.3, np.random.default_rng(0))
    assert (edges[0] < edges[1]).all()  # no loops
    assert len(set(map(tuple, edges.T))) == edges.shape[1]  # no edge twice
    assert 2 * edges.shape[1] / nodes == pytest.approx(degree, rel=0.15 if network == "random" else 0)
    distance = np.minimum(edges[1] - edges[0], nodes - edges[1] + edges[0])
    far = (distance > degree // 2).mean()
    low, high = {"ring": (0, 0), "small-world": (0.2, 0.4), "random": (0.9, 1)}[network]
    assert low <= far <= high
    adjacency = np.zeros((nodes, nodes))
    adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1
    x = torch.randn(2, 2 * nodes, dtype=torch.float64)
    coupling = sim.GraphCoupling(torch.tensor([1.0, 3.0], dtype=torch.float64), torch.from_numpy(edges), nodes)
    expected = torch.from_numpy(adjacency / adjacency.sum(1).mean()) @ x.unflatten(1, (nodes, 2))
    torch.testing.assert_close(coupling(x)[1], 3 * expected[1].flatten())
    torch.testing.assert_close(coupling(x)[0], expected[0].flatten())


def test_network_decides_whether_they_synchronise() -> None:
    """The same oscillators: a random graph brings them together, a ring of the same degree does not."""
    options = {"oscillators": 300, "k_min": 4.0, "k_max": 4.0, "k_count": 1, "steps": 800, "frequencies": "gaussian"}
    synchrony = {n: sim.simulate("classic", network=n, **options).synchrony[0] for n in ("all", "random", "ring")}
    assert synchrony["all"] > synchrony["random"] > 0.7 > 0.5 > synchrony["ring"]


def test_the_report_names_the_commutator() -> None:
    """Oscillators with different frequencies violate the appendix's conditions, unless they are uncoupled."""
    few = {"oscillators": 20, "steps": 5, "k_count": 2}
    assert sim.simulate("classic", **few).report.failed == (theory.COMMUTE,)
    assert sim.simulate("classic", network="ring", degree=4, **few).report.failed == (theory.COMMUTE,)
    assert sim.simulate("classic", k_max=0.0, **few).report.holds


def test_memory_is_bounded_and_arrays_fit() -> None:
    sweep = sim.simulate("classic", oscillators=1500, steps=60, frames=7, k_count=5)
    assert sweep.frames.shape == (8, len(sweep.shown), len(sweep.frame_oscillators), 2)
    assert len(sweep.frame_oscillators) <= 300
    assert sweep.order.shape == sweep.energies.shape == (61, 5)
    np.testing.assert_allclose(np.linalg.norm(sweep.frames, axis=-1), 1, atol=1e-6)
