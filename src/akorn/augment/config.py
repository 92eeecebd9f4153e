"""Settings of `augment`. Imports no torch, so that `--help` is fast."""

from __future__ import annotations

from dataclasses import dataclass

from akorn.errors import AkornError


@dataclass(frozen=True)
class AugmentConfig:
    """Shift, crop, flip, colour jitter, grey and noise, in this order; the defaults are the published SimCLR views."""

    scale: tuple[float, float] = (0.08, 1.0)
    """The range of a crop's share of the picture's area; (1, 1) with a ratio of (1, 1) means no crop."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """The range of a crop's width divided by its height."""
    shift: int = 0
    """The largest shift of a picture in pixels, in each direction, with black outside: pad and crop."""
    flip: float = 0.0
    """The probability of a horizontal flip."""
    brightness: float = 0.4
    """How far the brightness factor may be from 1; likewise contrast and saturation."""
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    """The largest shift of the hue, as a share of the circle; at most 0.5."""
    jitter: float = 0.8
    """The probability of the four above, all together and in random order."""
    grey: float = 0.2
    """The probability that a picture becomes grey."""
    noise: float = 0.0
    """The standard deviation of Gaussian noise on every pixel."""


def check(config: AugmentConfig) -> None:
    """Refuse impossible values, with the value and what was expected."""
    c = config
    rules: list[tuple[str, object, bool, str]] = [
        ("scale", c.scale, 0 < c.scale[0] <= c.scale[1] <= 1, "two numbers in (0, 1], the lower first"),
        ("ratio", c.ratio, 0 < c.ratio[0] <= c.ratio[1] < float("inf"), "two numbers above 0, the lower first"),
        ("shift", c.shift, c.shift >= 0, "0 or more"),
        ("hue", c.hue, 0 <= c.hue <= 0.5, "in [0, 0.5]"),
        ("noise", c.noise, 0 <= c.noise < float("inf"), "0 or more"),
    ]
    for name in ("brightness", "contrast", "saturation"):
        rules.append((name, getattr(c, name), 0 <= getattr(c, name) <= 1, "in [0, 1]"))
    for name in ("flip", "jitter", "grey"):
        rules.append((name, getattr(c, name), 0 <= getattr(c, name) <= 1, "a probability"))
    for name, value, fine, expected in rules:
        if not fine:
            raise AkornError(f"{name} is {value!r}, expected {expected}")
