"""Oscillators on a lattice, driven by the silhouette of a fish: the presets `fish` and `waves`."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from akorn import oscillators as osc
from akorn.nn.coupling import ConvCoupling
from akorn.nn.frequency import NaturalFrequency
from akorn.nn.kuramoto import KuramotoLayer
from akorn.simulate.presets import Lattice
from akorn.simulate.result import Progress, Simulation
from akorn.theory import layer_conditions

CHECKED = 64  # side of the torus on which the appendix's conditions are checked, if the real one is larger


def fish_silhouette(size: int) -> NDArray[np.bool_]:
    """[size, size], True on a fish: an ellipse, a forked tail, a fin above and one below."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = axis[None, :], axis[:, None]  # from −1 to 1, y downwards
    body = ((x + 0.17) / 0.66) ** 2 + (y / 0.42) ** 2 < 1
    fork = (x > 0.69) & (np.abs(y) < 0.9 * (x - 0.69))
    tail = (x > 0.33) & (x < 0.9) & (np.abs(y) < 0.06 + 0.7 * (x - 0.33)) & ~fork
    above = (x > -0.36) & (x < 0.22) & (y < -0.15) & (y > -0.62 + 0.5 * np.abs(x + 0.04) ** 1.2)
    below = (x > -0.13) & (x < 0.17) & (y > 0.2) & (y < 0.56 - 0.9 * np.abs(x - 0.12))
    return body | tail | above | below


def stimulus(size: int, n: int) -> Tensor:
    """C [1, n, size, size]: 1 around the fish, 0 on it."""
    white = torch.from_numpy(~fish_silhouette(size))
    return white.to(torch.float32).expand(1, n, -1, -1).contiguous()


def directions(n: int) -> Tensor:
    """[min(n, 3), n] orthonormal rows: that of c = 1, then two orthogonal to it (the plane of Ω)."""
    rows = [[1.0] * n, [1.0, -1.0] + [0.0] * (n - 2), [1.0, 1.0, -2.0] + [0.0] * (n - 3)]
    return F.normalize(torch.tensor(rows[: min(n, 3)], dtype=torch.float64), dim=1)


def rotation(n: int, rate: float) -> Tensor:
    """Ω [n, n]: a rotation in a plane orthogonal to c = 1 (for n = 2 there is only one plane)."""
    first, second = directions(n)[-2:]
    return rate * (torch.outer(second, first) - torch.outer(first, second))


def gaussian_kernel(n: int, size: int, width: float, strength: float) -> Tensor:
    """J = k ⊗ I with a Gaussian k of sum `strength`: [n, n, size, size]."""
    return torch.einsum("ab,hw->abhw", torch.eye(n, dtype=torch.float64), strength * _gaussian(size, width))


def random_kernel(n: int, size: int, width: float, strength: float, generator: torch.Generator) -> Tensor:
    """J of normal numbers, blurred by a Gaussian of the given width: [n, n, size, size].

    Each component's numbers sum to zero, so neighbours with a common direction exert no force, and waves grow from a
    random start. `strength` is the fastest rate at which one can grow, the largest eigenvalue of J's symmetric part;
    below ‖c‖ = √n no wave can enter the region that c holds, for any random numbers.
    """
    margin = math.ceil(3 * width)
    side = size + 2 * margin  # so that the blur needs no border
    noise = torch.randn(n * n, 1, side, side, generator=generator, dtype=torch.float64)
    if width > 0:
        line = _gaussian_line(2 * margin + 1, width)
        noise = F.conv2d(F.conv2d(noise, line[None, None, None]), line[None, None, :, None])
    kernel = noise.reshape(n, n, size, size)
    if size > 1:
        kernel = kernel - kernel.mean((2, 3), keepdim=True)
    growth = growth_rate(kernel)
    return strength / growth * kernel if growth > 0 else 0 * kernel


def growth_rate(kernel: Tensor) -> float:
    """The largest eigenvalue of (J + Jᵀ)/2 for a kernel [n, n, k, k]: over plane waves, J is a matrix for each."""
    side = max(64, kernel.shape[-1])
    waves = torch.fft.fft2(kernel, s=(side, side)).permute(2, 3, 0, 1)  # [side, side, n, n]
    # The kernel's centre must be at the origin: otherwise each wave has a phase that mixes real and imaginary parts.
    k = torch.arange(side, dtype=torch.float64) * (2 * math.pi * (kernel.shape[-1] // 2) / side)
    waves = waves * torch.polar(torch.ones(side, side, dtype=torch.float64), k[:, None] + k)[..., None, None]
    return float(torch.linalg.eigvalsh((waves + waves.mH) / 2).max())


def _gaussian(size: int, width: float) -> Tensor:
    """[size, size], of sum 1."""
    line = _gaussian_line(size, width)
    return torch.outer(line, line)


def _gaussian_line(size: int, width: float) -> Tensor:
    """[size], of sum 1."""
    line = torch.exp(-((torch.arange(size, dtype=torch.float64) - size // 2) ** 2) / (2 * width**2))
    return line / line.sum()


def run_lattice(preset: str, s: Lattice, device: torch.device, progress: Progress | None = None) -> Simulation:
    """Run the steps and keep what `Simulation` holds."""
    dtype = getattr(torch, s.dtype)
    generator = torch.Generator().manual_seed(s.seed)  # on the CPU: the same numbers for every device
    if s.kernel == "gaussian":
        kernel = gaussian_kernel(s.n, s.kernel_size, s.kernel_width, s.strength)
    else:
        kernel = random_kernel(s.n, s.kernel_size, s.kernel_width, s.strength, generator)
    start = osc.random_oscillators((1, s.n, s.size, s.size), s.n, -3, generator=generator, dtype=torch.float64)

    coupling = ConvCoupling(s.n, s.kernel_size, periodic=True).to(device, dtype)
    coupling.free_weight.data.copy_(kernel)
    omega = NaturalFrequency.from_matrix(rotation(s.n, s.omega)) if s.omega else None
    layer = KuramotoLayer(s.n, s.n, coupling, omega=omega, gamma=s.gamma).to(device, dtype)
    layer.gamma = torch.tensor(s.gamma, device=device, dtype=dtype)  # not through float32
    c = stimulus(s.size, s.n).to(device, dtype)
    white = c[0, 0] > 0

    x = start.to(device, dtype)
    steps = s.frame_steps()
    places = {step: place for place, step in enumerate(steps)}
    frames = np.empty((len(steps), s.size, s.size, s.n), dtype=s.dtype)
    frames[0] = _picture(x)
    energies, order, movement = [], [osc.order_parameter(x, -3)], []
    with torch.no_grad():
        for step in range(1, s.steps + 1):
            run = layer.evolve(x, c, 1, energy=_energy, trajectory=True)
            if run.trajectory is None or run.energies is None:
                raise RuntimeError("a layer returned neither trajectory nor energies")
            x = run.x
            energies.append(run.energies[0])
            order.append(osc.order_parameter(x, -3))
            movement.append(_movement(run.trajectory[:, 0], white))
            if step in places:
                frames[places[step]] = _picture(x)
                if progress is not None:
                    progress(step)
        energies.append(layer.energy(x, c, _energy))
        moved = torch.cat(movement).cpu().double().numpy()  # [steps, 2]
    # A torus is homogeneous: what holds on one that the kernel fits on holds on any larger one.
    enough = min(s.size, max(CHECKED, s.kernel_size))
    return Simulation(
        preset=preset,
        settings=s,
        frames=frames,
        frame_steps=np.array(steps),
        energies=torch.cat(energies).cpu().numpy(),
        order=torch.cat(order).cpu().double().numpy(),
        movement_white=moved[:, 0],
        movement_black=moved[:, 1],
        stimulus=_picture(c),
        kernel=kernel.numpy(),
        report=layer_conditions(layer.cpu(), stimulus(enough, s.n)),
    )


def _energy(x: Tensor, jx: Tensor, c: Tensor) -> Tensor:
    """Eq. 3, summed in float64 if the device has it: late in a run a step changes the sum by little."""
    wide = torch.float32 if x.device.type == "mps" else torch.float64
    return osc.energy(x.to(wide), jx.to(wide), c.to(wide))


def _picture(x: Tensor) -> NDArray[np.floating]:
    """[1, N, H, W] → [H, W, N]."""
    return x[0].movedim(0, -1).cpu().numpy().copy()


def _movement(states: Tensor, white: Tensor) -> Tensor:
    """The mean angle moved in each step where c = 1 and where c = 0: [steps, 2]."""
    chord = torch.linalg.vector_norm(states[1:] - states[:-1], dim=1)  # [steps, H, W]
    angle = 2 * torch.asin((chord / 2).clamp(max=1))  # exact for small angles too, unlike acos
    return torch.stack((angle[:, white].mean(1), angle[:, ~white].mean(1)), 1)
