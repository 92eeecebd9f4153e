"""How hard a board is, measured by the search of the exact solver, not by the number of givens.

| class | the exact solver (`exact.py`) |
|---|---|
| easy | naked singles suffice: again and again, some square has one candidate left |
| medium | one node: hidden singles and locked candidates are needed too, but no guess |
| hard | 2 to 10 nodes |
| extreme | 11 nodes or more |

The first two classes need no search and differ in the rules they need. This matters for networks: one that was trained
on boards that naked singles solve has hardly seen the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, get_args

from numpy.typing import ArrayLike

from akorn.sudoku.board import as_board
from akorn.sudoku.exact import Search, follow_naked_singles, to_candidates

Difficulty = Literal["easy", "medium", "hard", "extreme"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
EXTREME = 11
"""The number of search nodes from which a board counts as extreme."""


def search_nodes(puzzle: ArrayLike, limit: int = 100_000) -> int:
    """The nodes of the exact solver's search for all solutions of a board, counted up to `limit`.

    A node is one state of the board, the puzzle itself or the puzzle with some guesses, in which singles and locked
    candidates are followed as far as they go. A state that is neither solved nor contradictory then has a square with
    the fewest candidates, and each of these, as a guess, is a further node. The search goes on after the solution, so
    it also proves that there is no other; 1 means that no guess is needed.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    search = Search(to_candidates(puzzle), limit=limit)
    for _ in search:
        pass
    return search.nodes


def difficulty_of(puzzle: ArrayLike) -> Difficulty:
    """The class of a board, by search nodes. It does not tell how many solutions there are."""
    return _classify(as_board(puzzle).tobytes())


@lru_cache(maxsize=100_000)  # training scores the same boards repeatedly
def _classify(board: bytes) -> Difficulty:
    return classify_candidates(to_candidates(list(board)))


def classify_candidates(x: int) -> Difficulty:
    """The class of a puzzle in the form of a candidate set."""
    if follow_naked_singles(x).bit_count() == 81:
        return "easy"
    search = Search(x, limit=EXTREME)
    for _ in search:
        pass
    if search.nodes >= EXTREME:
        return "extreme"
    return "hard" if search.nodes > 1 else "medium"


def count_difficulties(puzzles: Iterable[ArrayLike]) -> dict[str, int]:
    """How many boards are of each class, in the order of the classes; empty classes are left out."""
    found = [difficulty_of(puzzle) for puzzle in puzzles]
    return {name: found.count(name) for name in DIFFICULTIES if name in found}
