"""The classical Kuramoto model, swept over the coupling strength: the preset `classic`.

    θ̇ᵢ = ωᵢ + K/⟨k⟩ Σⱼ Aᵢⱼ sin(θⱼ − θᵢ)

is the Kuramoto layer with N = 2, c = 0, J = K/⟨k⟩ A ⊗ I and its own Ωᵢ for each oscillator. All coupling strengths run
side by side, as the samples of a batch.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.nn.frequency import PairwiseFrequency
from akorn.nn.kuramoto import KuramotoLayer
from akorn.simulate.networks import GraphCoupling, MeanFieldCoupling, edges_of
from akorn.simulate.presets import Classic
from akorn.simulate.result import Floats, Progress, Sweep
from akorn.theory import lyapunov_conditions

NOISE = 0.25  # an order parameter up to this may be chance, for a hundred oscillators or more
SHOWN = 300  # oscillators kept for the animation; more are indistinguishable on a circle


def natural_frequencies(distribution: str, count: int, spread: float = 1.0) -> Floats:
    """ω at the quantiles (i + ½)/count: not random, so that fewer oscillators approximate infinitely many."""
    quantile = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    if distribution == "lorentzian":
        return (spread * torch.tan(math.pi * (quantile - 0.5))).numpy()
    return (spread * torch.special.ndtri(quantile)).numpy()


def critical_coupling(distribution: str, spread: float = 1.0) -> float:
    """K_c = 2/(π g(0)): 2Δ for a Lorentzian g of half width Δ, σ√(8/π) for a Gaussian one."""
    density = 1 / (math.pi * spread) if distribution == "lorentzian" else 1 / (spread * math.sqrt(2 * math.pi))
    return 2 / (math.pi * density)


def theoretical_synchrony(couplings: Floats, distribution: str, spread: float = 1.0) -> Floats:
    """Return r of infinitely many oscillators: 0 up to K_c, then the root of 1 = K ∫ cos²θ g(K r sin θ) dθ (±π/2)."""
    theta = (np.arange(4000) + 0.5) / 4000 * math.pi - math.pi / 2
    critical = critical_coupling(distribution, spread)

    def excess(r: Floats, k: Floats) -> Floats:
        """Decreases with r, since g decreases away from 0."""
        omega = (k * r)[:, None] * np.sin(theta) / spread
        if distribution == "lorentzian":
            density = 1 / (math.pi * (1 + omega**2))
        else:
            density = np.exp(-(omega**2) / 2) / math.sqrt(2 * math.pi)
        return k / spread * (np.cos(theta) ** 2 * density).mean(1) * math.pi - 1

    k = np.asarray(couplings, dtype=np.float64)
    low, high = np.zeros_like(k), np.ones_like(k)
    for _ in range(50):
        middle = (low + high) / 2
        below = excess(middle, k) > 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(k > critical, low, 0.0)


def measured_onset(couplings: Floats, synchrony: Floats) -> float | None:
    """Where r² goes to 0: K_c of the fit 1/K = 1/K_c − a r² − b r⁴ to the points that are neither noise nor saturated.

    For a Lorentzian 1/K = (1 − r²)/K_c in theory, so the fit has the right form. None if the sweep shows no
    onset: if there are fewer than four such points, if r is above the noise even at the weakest coupling (few
    oscillators are never far from synchrony), or if the fitted K_c is outside the sweep.
    """
    good = (synchrony > NOISE) & (synchrony < 0.75) & (couplings > 0)
    if good.sum() < 4 or synchrony[couplings.argmin()] > NOISE:
        return None
    inverse = float(np.polynomial.polynomial.polyfit(synchrony[good] ** 2, 1 / couplings[good], 2)[0])
    if not inverse > 0:
        return None
    onset = 1 / inverse
    return onset if couplings.min() <= onset <= couplings[good].max() else None


def classic_layer(coupling: nn.Module, frequencies: Tensor, gamma: float) -> KuramotoLayer:
    """The Kuramoto layer that follows the classical phase equation: N = 2, and Ωᵢ turns θᵢ at the rate ωᵢ."""
    omega = PairwiseFrequency(2, len(frequencies), learn=False)
    omega.rate = -frequencies[:, None]  # it rotates clockwise
    layer = KuramotoLayer(2 * len(frequencies), 2, coupling, omega=omega)
    layer.gamma = torch.tensor(gamma, dtype=frequencies.dtype)
    return layer


def run_classic(preset: str, s: Classic, device: torch.device, progress: Progress | None = None) -> Sweep:
    """Run the steps at every K and keep what `Sweep` holds."""
    dtype = getattr(torch, s.dtype)
    rng = np.random.default_rng(s.seed)
    omega = rng.permutation(natural_frequencies(s.frequencies, s.oscillators, s.spread))
    couplings = np.linspace(s.k_min, s.k_max, s.k_count)
    phases = torch.from_numpy(rng.uniform(0, 2 * math.pi, s.oscillators))
    start = torch.stack((phases.cos(), phases.sin()), -1).flatten()  # [2·oscillators]
    edges = None
    if s.network != "all":
        edges = torch.from_numpy(edges_of(s.network, s.oscillators, s.degree, s.rewiring, rng))

    def coupled(strength: Tensor) -> nn.Module:
        if edges is None:
            return MeanFieldCoupling(strength)
        return GraphCoupling(strength, edges, s.oscillators)

    frequencies = torch.from_numpy(omega)
    layer = classic_layer(coupled(torch.from_numpy(couplings)), frequencies, s.gamma).to(device, dtype)
    critical = critical_coupling(s.frequencies, s.spread)
    shown = _shown(couplings, critical)
    displayed = np.unique(np.linspace(0, s.oscillators - 1, min(s.oscillators, SHOWN)).round().astype(np.int64))

    def picture(x: Tensor) -> Floats:
        return x.unflatten(-1, (-1, 2))[shown][:, displayed].cpu().numpy()

    x = start.to(device, dtype).repeat(len(couplings), 1)  # [K, 2·oscillators]
    c = torch.zeros_like(x)
    steps = s.frame_steps()
    wanted, frames, energies, order = set(steps), [picture(x)], [], [_order(x)]
    with torch.no_grad():
        for step in range(1, s.steps + 1):
            run = layer.evolve(x, c, 1, energy=osc.energy)
            x = run.x
            energies.append(run.energies)
            order.append(_order(x))
            if step in wanted:
                frames.append(picture(x))
                if progress is not None:
                    progress(step)
        energies.append(layer.energy(x, c)[None])
    through_time = torch.stack(order).cpu().double().numpy()  # [steps + 1, K]
    synchrony = through_time[-max(s.steps // 2, 1) :].mean(0)
    strongest = coupled(torch.tensor(couplings[-1]))
    return Sweep(
        preset=preset,
        settings=s,
        couplings=couplings,
        synchrony=synchrony,
        frequencies=omega,
        critical_coupling=critical,
        onset=measured_onset(couplings, synchrony),
        frames=np.stack(frames),
        frame_steps=np.array(steps),
        frame_oscillators=displayed,
        shown=shown,
        energies=torch.cat([e for e in energies if e is not None]).cpu().double().numpy(),
        order=through_time,
        stimulus=np.zeros((s.oscillators, 2)),
        report=lyapunov_conditions(strongest, _blocks(frequencies), n=2, shape=(1, 2 * s.oscillators)),
    )


def _blocks(frequencies: Tensor) -> Tensor:
    """Ωᵢ as matrices: [oscillators, 2, 2]."""
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=frequencies.dtype)
    return frequencies[:, None, None] * quarter


def _order(x: Tensor) -> Tensor:
    return osc.order_parameter(x.unflatten(-1, (-1, 2)))


def _shown(couplings: Floats, critical: float) -> NDArray[np.int64]:
    """Indices of couplings well below, just above and well above the critical one, if the sweep has them."""
    wanted = (0.5 * critical, 1.15 * critical, couplings[-1])
    return np.unique([int(np.abs(couplings - k).argmin()) for k in wanted])
