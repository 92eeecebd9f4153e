"""The learning rate as a function of the step, so that there is no state to save."""

import math

from akorn.engine.config import ScheduleConfig


def factor(config: ScheduleConfig, step: int, total: int) -> float:
    """Return the factor of the learning rate after `step` of `total` steps.

    With w warm-up steps: (step + 1) / w while step < w; then with p = (step − w) / (total − w) in [0, 1)
    constant: 1;  linear: 1 − (1 − final) p;  cosine: final + (1 − final)(1 + cos πp) / 2.
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.name == "constant":
        return 1.0
    progress = min(1.0, (step - config.warmup) / max(1, total - config.warmup))
    if config.name == "linear":
        return 1.0 - (1.0 - config.final) * progress
    return config.final + (1.0 - config.final) * 0.5 * (1.0 + math.cos(math.pi * progress))
