"""Oscillators without learning: a fish, travelling waves, and the classical Kuramoto model.

from akorn.simulate import simulate

result = simulate("fish", steps=200, seed=1)
result.energies, result.order, result.frames
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from akorn.simulate.classic import (
    classic_layer,
    critical_coupling,
    measured_onset,
    natural_frequencies,
    theoretical_synchrony,
)
from akorn.simulate.lattice import fish_silhouette
from akorn.simulate.networks import GraphCoupling, MeanFieldCoupling
from akorn.simulate.result import EnergyChange, Simulation, Sweep
from akorn.simulate.run import simulate
from akorn.simulate.settings import PRESETS, Classic, Lattice

__all__ = [
    "PRESETS",
    "Classic",
    "EnergyChange",
    "GraphCoupling",
    "Lattice",
    "MeanFieldCoupling",
    "Simulation",
    "Sweep",
    "classic_layer",
    "critical_coupling",
    "fish_silhouette",
    "measured_onset",
    "natural_frequencies",
    "simulate",
    "theoretical_synchrony",
]


class _Callable(ModuleType):
    """`akorn.simulate` is this package and the function in it: importing the one would otherwise hide the other."""

    def __call__(self, *args: Any, **options: Any) -> Simulation | Sweep:
        return simulate(*args, **options)


sys.modules[__name__].__class__ = _Callable
