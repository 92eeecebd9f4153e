"""How hard a board is, measured by the search of the exact solver, not by the number of givens.

| class | the exact solver (`exact.py`) |
|---|---|
| easy | naked singles solve it in at most 6 rounds; a round fills in every square with one candidate left |
| medium | one node, no guess: more rounds, or hidden singles and locked candidates too |
| hard | 2 to 10 nodes |
| extreme | 11 nodes or more |

The lower two classes take no search and differ in how long the chain of conclusions is and which rules it needs.
Both matter to networks. Nearly all boards that the paper's models are trained on are easy: digits were revealed until
most of the squares followed at once. Boards that are dug to the same number of givens have longer chains.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.sudoku.board import as_board
from akorn.sudoku.exact import Search, rounds_of_naked_singles, to_candidates

Difficulty = Literal["easy", "medium", "hard", "extreme"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
EASY = 6
"""Rounds of naked singles up to which a board is easy."""
EXTREME = 11
"""The number of search nodes from which a board counts as extreme."""


def search_nodes(puzzle: ArrayLike, limit: int = 100_000) -> int:
    """The nodes of the exact solver's search for all solutions of a board, counted up to `limit`.

    A node is one state of the board, the puzzle itself or the puzzle with some guesses, in which singles and locked
    candidates are followed as far as they go. A state that is neither solved nor contradictory then has a square with
    the fewest candidates, and each of these, as a guess, is another node. The search continues after the solution, so
    it also proves that there is no other; 1 means that no guess is needed. A search that knows only singles and counts
    every digit that it places, as is common, has about ten times as many nodes on hard boards.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    search = Search(to_candidates(puzzle), limit=limit)
    for _ in search:
        pass
    return search.nodes


NODES = (1, 10, 30, 100, 300, 1000)
"""The upper ends of the groups of boards by search nodes; a last group has more."""
_MANY = 2000  # boards from which several processes pay off


def count_nodes(puzzles: Iterable[ArrayLike], workers: int = 1) -> NDArray[np.int64]:
    """The search nodes of many boards; several workers are used if there are many."""
    boards = [as_board(puzzle).tobytes() for puzzle in puzzles]
    if workers <= 1 or len(boards) < _MANY:
        return np.array([_nodes(board) for board in boards], dtype=np.int64)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return np.array(list(pool.map(_nodes, boards, chunksize=100)), dtype=np.int64)


@lru_cache(maxsize=100_000)
def _nodes(board: bytes) -> int:
    return search_nodes(list(board))


def by_nodes(nodes: ArrayLike, solved: ArrayLike) -> dict[str, tuple[float, int]]:
    """Accuracy in percent and number of boards in each group of search nodes, such as "11-30" and "1001+"."""
    counts, right = np.asarray(nodes), np.asarray(solved, dtype=bool)
    group = np.searchsorted(NODES, counts)  # [B]
    lows = (1, *(end + 1 for end in NODES))
    ends = (*NODES, None)
    found = {}
    for number, (low, end) in enumerate(zip(lows, ends, strict=True)):
        name = f"{low}+" if end is None else str(low) if low == end else f"{low}-{end}"
        if (here := group == number).any():
            found[name] = (100.0 * float(right[here].mean()), int(here.sum()))
    return found


def rounds_of_singles(puzzle: ArrayLike) -> int | None:
    """In how many rounds naked singles solve a board; None if other rules are needed.

    A naked single is a square with one candidate left, and a round fills in all of them at once.
    """
    return rounds_of_naked_singles(to_candidates(puzzle))


def difficulty_of(puzzle: ArrayLike) -> Difficulty:
    """The class of a board, by rounds of singles and search nodes, whatever the number of its solutions."""
    return _classify(as_board(puzzle).tobytes())


@lru_cache(maxsize=100_000)  # training scores the same boards repeatedly
def _classify(board: bytes) -> Difficulty:
    return classify_candidates(to_candidates(list(board)))


def classify_candidates(x: int) -> Difficulty:
    """The class of a puzzle in the form of a candidate set."""
    rounds = rounds_of_naked_singles(x)
    if rounds is not None and rounds <= EASY:
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
