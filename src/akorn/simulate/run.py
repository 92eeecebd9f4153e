"""The one function that runs a preset."""

from __future__ import annotations

from typing import Any

import torch

from akorn.errors import AkornError
from akorn.simulate.classic import run_classic
from akorn.simulate.lattice import run_lattice
from akorn.simulate.result import Progress, Simulation, Sweep
from akorn.simulate.settings import Common, Lattice, settings_of


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
    name = settings.device
    if name == "auto":
        single = settings.dtype == "float32"
        name = "cuda" if torch.cuda.is_available() else "mps" if single and torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device, dtype=getattr(torch, settings.dtype))
    except (RuntimeError, AssertionError, TypeError) as error:  # what torch raises, depending on what is missing
        reason = str(error).splitlines()[0]
        raise AkornError(f"the device {name!r} cannot be used with {settings.dtype}: {reason}") from error
    return device
