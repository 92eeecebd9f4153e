"""How gradients come back through T steps: an argument of the layer, `KuramotoLayer(gradients=…)`.

All of them give the gradients of the steps that they cover, up to rounding; they differ in what is kept for the
backward pass, and in how far back it goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from akorn.execution.checks import whole_number


@dataclass(frozen=True)
class Store:
    """Keep what every step needs for its backward pass: the fastest; memory grows with the number of steps.

    Only this one supports second derivatives and function transforms.
    """


@dataclass(frozen=True)
class Recompute:
    """Keep at most `snapshots` states and recompute the others, so that memory does not grow with the steps.

    Steps must then depend only on x, c and the layer's parameters, draw no random numbers and change no buffers:
    anything else is refused, as are second derivatives. The default suits the paper's larger models with T = 8: each
    step is computed twice, and none three times.
    """

    snapshots: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "snapshots", whole_number("snapshots", self.snapshots))


@dataclass(frozen=True)
class LastSteps:
    """In training mode, go back only through the last `steps` steps and treat the state before them as given.

    This gives less noise if large steps make states chaotic, and saves time and memory. The first x then gets no
    gradient; c and the weights do. `then` says how gradients come back through the last steps (in eval mode, through
    all).
    """

    steps: int
    then: Store | Recompute = field(default_factory=Store)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        if not isinstance(self.then, Store | Recompute):
            raise ValueError(f"then must be Store() or Recompute(), got {self.then!r}")


Gradients = Store | Recompute | LastSteps
"""Any of the three."""


def planned(gradients: Gradients, steps: int, *, training: bool) -> tuple[int, Store | Recompute]:
    """How many of `steps` steps come before those with gradients, and how these come back."""
    if not isinstance(gradients, LastSteps):
        return 0, gradients
    return max(0, steps - gradients.steps) if training else 0, gradients.then
