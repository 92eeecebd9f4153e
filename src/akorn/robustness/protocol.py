"""How attacks and noise are measured by default: the defaults of `akorn eval`, and what the tables of RESULTS.md
require of a record. Torch-free.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EPSILON = 8 / 255
"""Size of attacks in the ℓ∞ norm, for pixels from 0 to 1 (Table 4)."""
NOISE = 64 / 255
"""Size of random noise, and of the adversarial pictures that are shown (Figure 8)."""
EOT = 20
"""Number of random starts over which an attack averages its gradients."""
STEPS = 50
"""Number of PGD steps."""
QUERIES = 5000
"""Number of Square's queries."""
ATTACKED = 1000
"""Number of pictures, drawn at random, on which the attacks of the tables must be scored."""
CHECKED = 200
"""Number of pictures for the checks of a defence."""


@dataclass(frozen=True)
class Request:
    """What to score besides clean accuracy, noise and calibration."""

    attacks: tuple[str, ...] = ()
    """Names from `akorn.robustness.attack_suite.ATTACKS`."""
    limit: int | None = None
    attack_limit: int | None = None
    epsilon: float = EPSILON
    eot: int = EOT
    steps: int = STEPS
    queries: int = QUERIES
    noise: float = NOISE
    corrupted: Path | None = None
    severity: int = 5
    checks: bool = False
    plots: Path | None = None
    split: Literal["test", "valid"] = "test"
    """Which pictures of CIFAR-10 are scored; corrupted ones must be made from the same."""
