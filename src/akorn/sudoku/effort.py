"""How much effort a board may take, and when it is enough: the settings of `adaptive.py`. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from akorn.errors import AkornError

Stop = Literal["confidence", "valid"]
"""What ends the effort for a board: a sure answer, or one that follows the rules of Sudoku, however sure it is."""

SURE = 0.99
"""The confidence from which an answer is sure."""
CHECK = 32
"""Steps between two readings."""
FIRST = (1, 64)
"""Starts and steps of the first round."""
GROWTH = (8, 2)
"""By how much starts and steps grow from round to round. Starts under other symmetries find more than further steps."""


@dataclass(frozen=True)
class Effort:
    """How much may be tried, and when it is enough."""

    starts: int = 64
    """The most starts K of a board."""
    steps: int = 2048
    """The most steps T of a start, a multiple of 32."""
    sure: float = SURE
    stop: Stop = "confidence"
    symmetries: bool = True
    """Whether every start but the first sees the board under a random symmetry (`turned.py`)."""

    def __post_init__(self) -> None:
        for name in ("starts", "steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise AkornError(f"the {name} of the effort must be a whole number of at least 1, got {value!r}")
        if self.steps % CHECK:
            raise AkornError(f"the steps of the effort must be a multiple of {CHECK}, got {self.steps}")
        if not 0 < self.sure <= 1:  # NaN fails too
            raise AkornError(f"sure is a confidence between 0 and 1, such as {SURE}, got {self.sure}")
        if self.stop not in get_args(Stop):
            raise AkornError(f"stop is {self.stop!r}, expected {' or '.join(get_args(Stop))}")

    @classmethod
    def parse(cls, text: str, sure: float = SURE, stop: Stop = "confidence", symmetries: bool = True) -> Effort:
        """An effort from its limit, such as `64x2048`: starts, then steps."""
        starts, cross, steps = text.lower().replace("×", "x").partition("x")
        if not cross or not starts.strip().isdecimal() or not steps.strip().isdecimal():
            raise AkornError(f"an effort is STARTSxSTEPS, such as 64x2048, got {text!r}")
        return cls(int(starts), int(steps), sure, stop, symmetries)

    @property
    def rounds(self) -> tuple[tuple[int, int], ...]:
        """Starts and steps of each round, the limit last.

        Once a round has all starts, the next one is the limit: boards leave when they are done, whatever the round.
        """
        limit = (self.starts, self.steps)
        found = [(min(FIRST[0], self.starts), min(FIRST[1], self.steps))]
        while found[-1] != limit:
            starts, steps = found[-1]
            grown = (min(GROWTH[0] * starts, self.starts), min(GROWTH[1] * steps, self.steps))
            found.append(limit if starts == self.starts else grown)
        return tuple(found)

    def __str__(self) -> str:
        return f"{self.starts}x{self.steps}"


def usual(device: str) -> Effort:
    """What `akorn solve` tries by default on a device of this type; on a CPU it fits in a minute."""
    return Effort() if device == "cuda" else Effort(64, 256)
