"""What a simulation returns: NumPy arrays, and a one-line summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from akorn.simulate.presets import Classic, Lattice
from akorn.theory import LyapunovReport

Floats = NDArray[np.floating[Any]]
Progress = Callable[[int], None]
"""Called with the number of steps done so far."""


@dataclass(frozen=True)
class EnergyChange:
    """What happened to an energy."""

    first: float
    last: float
    rises: int
    """Number of steps in which it rose, by more than rounding."""
    largest_rise: float
    """The largest rise in a step; 0 if it never rose."""

    @classmethod
    def of(cls, energies: Floats, rounding: float) -> EnergyChange:
        """From the energies [steps + 1]; `rounding` is the relative precision of the states."""
        changes = np.diff(energies)
        rose = changes > rounding * float(np.abs(energies).max())
        largest = float(changes[rose].max()) if rose.any() else 0.0
        return cls(float(energies[0]), float(energies[-1]), int(rose.sum()), largest)

    def describe(self, steps: int) -> str:
        """In words."""
        often = "never rose" if not self.rises else f"rose in {self.rises} (at most by {self.largest_rise:.3g})"
        if self.last == self.first:
            change = f"was the same before and after, {self.first + 0.0:.5g},"  # not -0
        else:
            change = f"{'fell' if self.last < self.first else 'rose'} from {self.first:.5g} to {self.last:.5g}"
        return f"the energy {change} in {steps} steps, in which it {often}"


@dataclass(frozen=True)
class Simulation:
    """Oscillators on a lattice through time."""

    preset: str
    settings: Lattice
    frames: Floats
    """[frames, size, size, N]: the states at `frame_steps`; the last is the final state."""
    frame_steps: NDArray[np.int64]
    """[frames]"""
    energies: Floats
    """[steps + 1]: E of Eq. 3."""
    order: Floats
    """[steps + 1]: the order parameter of all oscillators."""
    movement_white: Floats
    """[steps]: the mean angle an oscillator moves in a step, where c = 1."""
    movement_black: Floats
    """[steps]: the same where c = 0."""
    stimulus: Floats
    """[size, size, N]: C."""
    kernel: Floats
    """[N, N, k, k]: J."""
    report: LyapunovReport
    """Whether the appendix's conditions for a falling energy hold."""

    @property
    def energy_change(self) -> EnergyChange:
        """What happened to the energy."""
        return EnergyChange.of(self.energies, float(np.finfo(self.frames.dtype).eps))

    def describe(self) -> str:
        """What happened to the energy, in a line."""
        return f"{self.preset}: {self.energy_change.describe(self.settings.steps)}; {self.report}"

    def summary(self) -> dict[str, Any]:
        """The numbers of `describe`, for JSON."""
        return _summary(self) | {
            "movement_white": float(self.movement_white[-_last_half(self.settings.steps) :].mean()),
            "movement_black": float(self.movement_black[-_last_half(self.settings.steps) :].mean()),
        }


@dataclass(frozen=True)
class Sweep:
    """The classical model through time, at several coupling strengths K."""

    preset: str
    settings: Classic
    couplings: Floats
    """[K]: the coupling strengths."""
    synchrony: Floats
    """[K]: r, the mean of the order parameter over the second half of the steps."""
    frequencies: Floats
    """[oscillators]: ω."""
    critical_coupling: float
    """2/(π g(0)): the onset in theory, for infinitely many oscillators with all-to-all coupling."""
    onset: float | None
    """The onset in this sweep (`measured_onset`); None if it shows none."""
    frames: Floats
    """[frames, shown, some oscillators, 2]: states at `frame_steps`, for the few couplings in `shown`."""
    frame_steps: NDArray[np.int64]
    """[frames]"""
    frame_oscillators: NDArray[np.int64]
    """Which oscillators are in the frames: all, or as many as can be distinguished."""
    shown: NDArray[np.int64]
    """[shown]: indices into `couplings`."""
    energies: Floats
    """[steps + 1, K]: E of Eq. 3."""
    order: Floats
    """[steps + 1, K]: the order parameter."""
    stimulus: Floats
    """[oscillators, 2]: C, which is 0."""
    report: LyapunovReport
    """Whether the appendix's conditions hold, at the largest K: Ω is not shared, so they do not unless K = 0."""

    @property
    def energy_change(self) -> EnergyChange:
        """What happened to the energy at the largest coupling."""
        return EnergyChange.of(self.energies[:, -1], float(np.finfo(self.frames.dtype).eps))

    def describe(self) -> str:
        """What happened, in a line."""
        strongest, steps = self.couplings[-1], self.settings.steps
        onset = "no onset was found here" if self.onset is None else f"here {self.onset:.3g}"
        return (
            f"{self.preset}: r = {self.synchrony[0]:.2f} at K = {self.couplings[0]:.3g}, {self.synchrony[-1]:.2f} at"
            f" K = {strongest:.3g} (critical: {self.critical_coupling:.3g}, in theory; {onset}); at the latter"
            f" {self.energy_change.describe(steps)}; {self.report}"
        )

    def summary(self) -> dict[str, Any]:
        """The numbers of `describe`, for JSON."""
        return _summary(self) | {
            "critical_coupling": self.critical_coupling,
            "onset": self.onset,
            "couplings": self.couplings.tolist(),
            "synchrony": self.synchrony.tolist(),
        }


def _last_half(steps: int) -> int:
    return max(steps // 2, 1)


def _summary(result: Simulation | Sweep) -> dict[str, Any]:
    change = result.energy_change
    return {
        "preset": result.preset,
        "steps": result.settings.steps,
        "seed": result.settings.seed,
        "energy_first": change.first,
        "energy_last": change.last,
        "energy_rises": change.rises,
        "energy_largest_rise": change.largest_rise,
        "order_first": float(result.order[0].reshape(-1)[-1]),
        "order_last": float(result.order[-1].reshape(-1)[-1]),
        "conditions_hold": result.report.holds,
        "conditions_failed": list(result.report.failed),
    }
