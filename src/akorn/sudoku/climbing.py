"""Boards for which the exact solver needs many search nodes, found by climbing from board to board.

Boards dug at random are seldom hard: even of those with as few givens as possible, few take more than 20 nodes. So a
board is changed a little again and again: one to four blanks are revealed, and every given that is not needed is
removed, in random order. The change is kept if the board then takes no fewer nodes. If this leads no further, it starts
again with another solution.
"""

from __future__ import annotations

import random

from akorn.errors import AkornError
from akorn.sudoku.digging import Digger, random_solution
from akorn.sudoku.exact import ALL, SQUARES, Search

MOST_NODES = 500
"""The largest number of search nodes that may be asked for; more would take hours."""
_SHOWN = (1, 2, 2, 3, 4)  # how many blanks are revealed, one of these numbers at random
_PATIENCE = 400  # changes without more nodes before another solution is drawn
_TRIES = 1_000_000


def climb(rng: random.Random, nodes: int) -> tuple[int, int]:
    """A solution, as a candidate set, and the squares left as givens, as 81 bits, of a board with this many nodes."""
    digger, kept, best, idle = Digger(0), 0, 0, _PATIENCE
    for _ in range(_TRIES):
        if idle >= _PATIENCE:
            digger = Digger(random_solution(rng))
            kept, idle = _minimal(digger, SQUARES, rng), 0
            best = _nodes(digger.solution, kept)
        if best >= nodes:
            return digger.solution, kept
        blanks = [square for square in range(81) if not kept >> square & 1]
        shown = sum(1 << square for square in rng.sample(blanks, rng.choice(_SHOWN)))
        changed = _minimal(digger, kept | shown, rng)
        found = _nodes(digger.solution, changed) if changed != kept else 0
        idle = 0 if found > best else idle + 1
        if found >= best:
            kept, best = changed, found
    raise AkornError(f"none of {_TRIES:,} boards took {nodes} search nodes; ask for fewer")


def _minimal(digger: Digger, kept: int, rng: random.Random) -> int:
    """The givens that are left when those not needed for a unique solution are removed, in random order."""
    squares = [square for square in range(81) if kept >> square & 1]
    rng.shuffle(squares)
    for square in squares:
        fewer = kept ^ 1 << square
        if any(not unavoidable & fewer for unavoidable in digger.sets[square]):
            continue
        if different := digger.difference(SQUARES & ~fewer):
            digger.add(different)
        else:
            kept = fewer
    return kept


def _nodes(solution: int, kept: int) -> int:
    """The search nodes of the puzzle with these squares of a solution as givens, counted up to MOST_NODES."""
    search = Search((SQUARES & ~kept) * (ALL // SQUARES) | solution, limit=MOST_NODES)
    for _ in search:
        pass
    return search.nodes
