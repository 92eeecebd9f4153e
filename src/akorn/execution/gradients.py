"""How gradients come back through T steps: an object that a layer is given, `KuramotoLayer(gradients=…)`.

All of them give the gradients of the steps that they go back through, up to rounding; they differ in what is kept for
the backward pass, and in how far back it goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from akorn.execution.checks import whole_number


@dataclass(frozen=True)
class Store:
    """Keep what every step needs for its backward pass: the quickest; memory grows with the number of steps.

    The only one with second derivatives and function transforms.
    """


@dataclass(frozen=True)
class Recompute:
    """Keep at most `snapshots` states and compute the others again, so that memory does not grow with the steps.

    Steps must then depend on x, c and the layer's parameters alone, draw no random numbers and change no buffers:
    anything else is refused, as are second derivatives. The default suits the paper's larger models, T = 8: their
    chains are run twice, and no step three times.
    """

    snapshots: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "snapshots", whole_number("snapshots", self.snapshots))


@dataclass(frozen=True)
class LastSteps:
    """In training mode, go back through the last `steps` steps alone and take the state before them as given.

    Less noise where large steps make states chaotic, less time and memory. The first x gets no gradient then; c and
    the weights do. `then` says how gradients come back through the last steps (and, in eval mode, through all).
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
    """How many of `steps` steps come before those that gradients go back through, and how they come back."""
    if not isinstance(gradients, LastSteps):
        return 0, gradients
    return max(0, steps - gradients.steps) if training else 0, gradients.then
