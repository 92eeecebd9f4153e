"""The function that runs a preset."""

from __future__ import annotations

from typing import Any

import torch

from akorn.errors import AkornError
from akorn.runtime.devices import pick_device
from akorn.simulate.classic import run_classic
from akorn.simulate.lattice import run_lattice
from akorn.simulate.presets import Common, Lattice, settings_of
from akorn.simulate.result import Progress, Simulation, Sweep


def simulate(preset: str = "fish", *, progress: Progress | None = None, **options: Any) -> Simulation | Sweep:
    """Run a preset: oscillators without learning.

    Args:
        preset: fish (a falling energy), waves (travelling waves) or classic (swept over the coupling strength).
        progress: called now and then with the number of steps done.
        options: what to change in the preset's settings, `akorn.simulate.PRESETS[preset]`; see `Lattice` (fish and
            waves) and `Classic` for their names and meaning.

    Returns:
        `Simulation` for fish and waves, `Sweep` for classic: arrays on the CPU. The same options, on the same
        machine, give the same arrays.

    """
    settings = settings_of(preset, **options)
    device = _device(settings)
    if isinstance(settings, Lattice):
        return run_lattice(preset, settings, device, progress)
    return run_classic(preset, settings, device, progress)


def _device(settings: Common) -> torch.device:
    device = pick_device(settings.device)
    if device.type == "mps" and settings.dtype == "float64":
        if settings.device != "auto":
            raise AkornError(f"the device {settings.device!r} cannot be used: it has no float64; use auto or cpu")
        return torch.device("cpu")
    return device
