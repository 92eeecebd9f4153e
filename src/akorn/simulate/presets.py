"""The presets and their options, checked before anything is computed. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from akorn.errors import AkornError

KERNELS = ("gaussian", "random")
NETWORKS = ("all", "ring", "small-world", "random")
DISTRIBUTIONS = ("lorentzian", "gaussian")
DTYPES = ("float32", "float64")
LARGEST_SEED = 2**63 - 1
LARGEST = 1e6
"""Bound on coupling strengths and frequencies: beyond it, a step in float32 is noise."""
MOST_BYTES = 4 * 2**30
"""Bound on the memory of the kept states."""


def _whole(name: str, value: object, least: int, most: int = 10**9) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise AkornError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise AkornError(f"{name} must be at least {least}, got {value}")
    if value > most:
        raise AkornError(f"{name} must be at most {most}, got {value}")


def _number(
    name: str, value: object, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AkornError(f"{name} must be a finite number, got {value!r}")
    if above is not None and value <= above:
        raise AkornError(f"{name} must be above {above}, got {value}")
    if least is not None and value < least:
        raise AkornError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise AkornError(f"{name} must be at most {most}, got {value}")


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise AkornError(f"{name} must be one of {', '.join(known)}; got {value!r}")


def _memory(what: str, numbers: int, dtype: str, advice: str) -> None:
    size = numbers * (4 if dtype == "float32" else 8)
    if size > MOST_BYTES:
        most = MOST_BYTES // 2**30
        raise AkornError(f"{what} need {size / 2**30:.1f} GiB, more than {most}: choose {advice}")


@dataclass(frozen=True)
class Common:
    """Options of every preset."""

    steps: int
    """Number of steps T."""
    gamma: float
    """Step size γ."""
    seed: int = 0
    """The seed of all random numbers."""
    frames: int = 100
    """At most this many states, evenly spaced in time, are kept for the animation, plus the first."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""
    dtype: str = "float32"
    """float32 or float64."""

    def __post_init__(self) -> None:
        _whole("steps", self.steps, 1)
        _number("gamma", self.gamma, above=0, most=100)
        _whole("seed", self.seed, 0, LARGEST_SEED)
        _whole("frames", self.frames, 1)
        _one_of("dtype", self.dtype, DTYPES)

    def frame_steps(self) -> list[int]:
        """The steps whose states are kept, including 0 and `steps`."""
        count = min(self.frames, self.steps)
        return sorted({round(i * self.steps / count) for i in range(count + 1)})


@dataclass(frozen=True)
class Lattice(Common):
    """size × size oscillators on a torus, coupled by one kernel; c = 1 around the silhouette of a fish, 0 inside."""

    kernel: str = "gaussian"
    """gaussian: J = kernel ⊗ I, symmetric. random: a full N×N block of random numbers at each offset."""
    size: int = 64
    """Oscillators along each side."""
    n: int = 4
    """Rotating dimensions N."""
    kernel_size: int = 9
    """Width of the kernel in oscillators, odd."""
    kernel_width: float = 0.7
    """Standard deviation of the Gaussian, or of the blur of the random kernel (0: none), in oscillators."""
    strength: float = 2.0
    """Size of J: the largest eigenvalue of its symmetric part, which for the Gaussian kernel is its sum."""
    omega: float = 0.0
    """Natural frequency, shared by all: a rotation in a plane orthogonal to c, so that Ωc = 0 (N > 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("kernel", self.kernel, KERNELS)
        _whole("size", self.size, 8)
        _whole("n", self.n, 2, 64)
        _whole("kernel_size", self.kernel_size, 1, 63)
        if self.kernel_size % 2 == 0:
            raise AkornError(f"kernel_size must be odd, got {self.kernel_size}")
        if self.kernel_size // 2 > self.size:
            raise AkornError(f"a kernel of {self.kernel_size} does not fit on a torus with sides of {self.size}")
        _number("kernel_width", self.kernel_width, least=0, most=self.kernel_size)  # flat if it is as wide
        if self.kernel == "gaussian" and self.kernel_width == 0:
            raise AkornError("kernel_width of a Gaussian must be above 0, got 0")
        if 0 < self.kernel_width < 0.01:
            raise AkornError(f"kernel_width must be at least 0.01 (all but the centre is 0), got {self.kernel_width}")
        _number("strength", self.strength, least=-LARGEST, most=LARGEST)
        _number("omega", self.omega, least=-LARGEST, most=LARGEST)
        count = min(self.frames, self.steps) + 1
        what = f"{count} frames of {self.size}×{self.size} oscillators with n = {self.n}"
        _memory(what, count * self.size**2 * self.n, self.dtype, "fewer frames or a smaller size")


@dataclass(frozen=True)
class Classic(Common):
    """The classical Kuramoto model, N = 2: θ̇ᵢ = ωᵢ + K/⟨k⟩ Σⱼ Aᵢⱼ sin(θⱼ − θᵢ), swept over K."""

    oscillators: int = 1000
    """Number of oscillators."""
    network: str = "all"
    """A: all (everyone with everyone), ring, small-world (Watts and Strogatz), random (Erdős and Rényi)."""
    degree: int = 10
    """Mean number of neighbours ⟨k⟩, on all networks but `all`; even on a ring and a small world."""
    rewiring: float = 0.1
    """Small world: the share of edges whose end is moved to a random place."""
    frequencies: str = "lorentzian"
    """Distribution of the ωᵢ, at evenly spaced quantiles: lorentzian or gaussian."""
    spread: float = 1.0
    """Half width of the Lorentzian, standard deviation of the Gaussian."""
    k_min: float = 0.0
    """Smallest coupling strength K."""
    k_max: float = 4.0
    """Largest coupling strength K."""
    k_count: int = 41
    """Number of coupling strengths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("oscillators", self.oscillators, 3)
        _one_of("network", self.network, NETWORKS)
        _one_of("frequencies", self.frequencies, DISTRIBUTIONS)
        _number("spread", self.spread, least=1e-6, most=LARGEST)
        _number("k_min", self.k_min, least=-LARGEST, most=LARGEST)
        _number("k_max", self.k_max, least=-LARGEST, most=LARGEST)
        _whole("k_count", self.k_count, 1)
        what = f"{self.oscillators} oscillators at {self.k_count} coupling strengths"
        _memory(what, 2 * self.oscillators * self.k_count, self.dtype, "fewer of either")
        if self.k_max < self.k_min:
            raise AkornError(f"k_max must not be below k_min, got {self.k_max} and {self.k_min}")
        if self.network == "all":
            return
        _whole("degree", self.degree, 1)
        if self.degree >= self.oscillators:
            raise AkornError(f"degree must be below the number of oscillators, {self.oscillators}; got {self.degree}")
        if self.network in ("ring", "small-world") and self.degree % 2:
            raise AkornError(f"degree must be even on the network {self.network!r}, got {self.degree}")
        _number("rewiring", self.rewiring, least=0, most=1)


PRESETS: dict[str, Lattice | Classic] = {
    "fish": Lattice(steps=200, gamma=0.1, kernel="gaussian", kernel_width=0.7, strength=2.0, omega=1.0),
    "waves": Lattice(steps=200, gamma=0.2, kernel="random", kernel_width=1.0, strength=1.5, omega=0.0),
    "classic": Classic(steps=2000, gamma=0.05),
}
"""The named presets."""


def settings_of(preset: str, **options: Any) -> Lattice | Classic:
    """The settings of a preset with some options changed; None means unchanged."""
    if preset not in PRESETS:
        raise AkornError(f"unknown preset {preset!r}; the presets are: {', '.join(PRESETS)}")
    base = PRESETS[preset]
    known = [field.name for field in fields(base) if field.name != "kernel"]  # the kernel defines the preset
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known)}"
            raise AkornError(f"the preset {preset!r} has no option {name!r}; {hint}")
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(base, Lattice) and given.get("n") == 2 and "omega" not in given:
        given["omega"] = 0.0  # in the plane every rotation moves c
    return replace(base, **given)
