"""Every start of every board, one by one: how well votes tell right answers from wrong ones, and how they do over K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]

SampleVote = Literal["sum", "last", "confidence", "both"]
"""The votes that choose among whole answers by one number; both: the best mean of a start's ranks by summed energy and
by confidence."""


@dataclass(frozen=True)
class Samples:
    """Every start of every board."""

    last: Floats | None  # [B, K] energy before the last step
    sum: Floats | None  # [B, K] energy summed over the steps
    confidence: Floats  # [B, K] mean over the blanks of the highest probability
    correct: NDArray[np.bool_]  # [B, K]
    answer: NDArray[np.int64] | None = None  # [B, K] a hash of the answer, to tell whether two are the same

    @property
    def votes(self) -> tuple[SampleVote, ...]:
        """The votes that these starts allow: by confidence alone for a model without energy."""
        return ("sum", "last", "confidence", "both") if self.sum is not None else ("confidence",)

    def score(self, vote: SampleVote = "sum") -> Floats:
        """The value that a vote maximises: the confidence, the negative energy, or the mean rank by both."""
        if vote == "confidence":
            return self.confidence
        if vote == "both":
            return _ranks(self.confidence) + _ranks(-self.energy("sum"))
        return -self.energy(vote)

    def energy(self, vote: Literal["sum", "last"] = "sum") -> Floats:
        """The energy that a vote uses."""
        values = self.sum if vote == "sum" else self.last
        if values is None:
            raise ValueError("the model has no energy")
        return values

    def auroc(self, vote: SampleVote = "sum") -> float:
        """How well a vote's value tells a board's right answers from its wrong ones.

        This is the share of pairs (a correct and a wrong answer to one board) in which the correct one has the lower
        energy or the higher confidence. Different boards are not compared: their energies differ with the givens.
        """
        return within_auroc(self.score(vote), self.correct)

    def first(self, count: int) -> Samples:
        """The first starts of every board."""
        most = self.correct.shape[1]
        if not 1 <= count <= most:
            raise ValueError(f"votes must lie between 1 and {most}, got {count}")
        arrays = (self.last, self.sum, self.confidence, self.correct, self.answer)
        return Samples(*(array if array is None else array[:, :count] for array in arrays))  # type: ignore[arg-type]

    def winners(self, vote: SampleVote) -> NDArray[np.int64]:
        """[B]: the start that each board's vote chooses; NaN never wins."""
        score = self.score(vote)
        return np.where(np.isfinite(score), score, -np.inf).argmax(1)

    def accuracy_against_votes(self, votes: Sequence[int], vote: SampleVote = "sum") -> dict[int, float]:
        """Board accuracy of a vote among the first k starts, for each k."""
        rows = np.arange(len(self.correct))
        firsts = {k: self.first(k) for k in votes}
        return {k: 100.0 * float(self.correct[rows, some.winners(vote)].mean()) for k, some in firsts.items()}

    def agreement(self, count: int) -> tuple[float, float | None]:
        """On how many boards the energy and the confidence of the first starts choose the same answer, and how many of
        these are right, in percent; None if there is none.
        """
        if self.answer is None:
            raise ValueError("the answers were not kept")
        some, rows = self.first(count), np.arange(len(self.correct))
        by_energy, by_confidence = (some.winners(vote) for vote in ("sum", "confidence"))
        same = self.answer[rows, by_energy] == self.answer[rows, by_confidence]
        right = self.correct[rows, by_confidence][same]
        return 100.0 * float(same.mean()), 100.0 * float(right.mean()) if len(right) else None

    def over_votes(self) -> dict[str, Any]:
        """Everything over K = 1, 2, 4, … and all, for the record, in percent.

        "any" is the share of boards that at least one start solved, which no vote can surpass. With an energy, "agree"
        is the share of boards where energy and confidence choose the same answer, and "agreed" the accuracy on these.
        """
        most = self.correct.shape[1]
        counts = sorted({2**k for k in range(most.bit_length())} | {most})
        found: dict[str, Any] = {"votes": counts}
        for vote in self.votes:
            found[vote] = list(self.accuracy_against_votes(counts, vote).values())
        found["any"] = [100.0 * float(self.correct[:, :k].any(1).mean()) for k in counts]
        if self.sum is not None and self.answer is not None:
            pairs = [self.agreement(k) for k in counts]
            found["agree"], found["agreed"] = [share for share, _ in pairs], [right for _, right in pairs]
        return found


def _ranks(values: Floats) -> Floats:
    """[B, K]: each start's rank among those of its board; values that are not finite have the lowest."""
    return np.stack([_mean_ranks(row) for row in np.where(np.isfinite(values), values, -np.inf)]).astype(np.float32)


def _mean_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of every value of a list, from 1; equal values share their mean rank."""
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    return ranks


def auroc(scores: ArrayLike, positive: ArrayLike) -> float:
    """The probability that a positive scores higher than a negative, ties counted half; NaN if one kind is missing.

    Equals the area under the ROC curve: (R − P(P + 1)/2) / (P · N), with R the sum of the positives' ranks.
    """
    values, labels = np.asarray(scores, dtype=np.float64).ravel(), np.asarray(positive, dtype=bool).ravel()
    if values.shape != labels.shape:
        raise ValueError(f"there must be one label per score, got {values.size} scores and {labels.size} labels")
    count, rest = int(labels.sum()), int((~labels).sum())
    if not count or not rest:
        return float("nan")
    return float((_mean_ranks(values)[labels].sum() - count * (count + 1) / 2) / (count * rest))


def within_auroc(scores: ArrayLike, positive: ArrayLike) -> float:
    """`auroc` over pairs within the same row; scores and labels are [rows, columns]."""
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    pairs = labels.sum(1) * (~labels).sum(1)  # [rows]
    if not pairs.any():
        return float("nan")
    rows = np.flatnonzero(pairs)
    return float(np.average([auroc(values[row], labels[row]) for row in rows], weights=pairs[rows]))
