"""Boards with exactly one solution, made by digging holes into random solutions.

Digging goes through the squares of a solved board in random order and blanks each one that is not needed for a
unique solution, until the wanted number of givens is left. Instead of asking the solver about every square, it keeps
a pool of *unavoidable sets*: squares on which some second solution differs from this one. A puzzle is unique exactly
when it has a given in each such set, so digging against the pool is cheap, the solver only checks the result, and each
second solution it finds adds a set to the pool. The outcome is the same as asking every time, with a fraction of the
searches.
"""

from __future__ import annotations

import random

from akorn.sudoku.exact import ALL, CANDIDATES, SQUARE_MASKS, SQUARES, choose_square, propagate, solutions


def random_solution(rng: random.Random) -> int:
    """A random solved board, as a candidate set of 81 bits."""
    x = ALL
    for box in (0, 30, 60):  # the three boxes on the diagonal are independent: any filling can be completed
        for place, digit in enumerate(rng.sample(range(9), 9)):
            square = box + 9 * (place // 3) + place % 3
            x = x & ~SQUARE_MASKS[square] | CANDIDATES[square][digit]
    stack = [x]
    while True:
        x = propagate(stack.pop())
        if not x:
            continue
        if x.bit_count() == 81:
            return x
        square = choose_square(x)
        options = [bit for bit in CANDIDATES[square] if x & bit]
        rng.shuffle(options)
        stack.extend(x & ~SQUARE_MASKS[square] | bit for bit in options)


class Digger:
    """Digs one solution in any number of orders, which share the unavoidable sets found so far."""

    def __init__(self, solution: int) -> None:
        self.solution = solution
        self.sets: list[list[int]] = [[] for _ in range(81)]  # the unavoidable sets that contain each square

    def dig(self, order: list[int], givens: int) -> int | None:
        """The squares left as givens, as 81 bits; None if this order leaves too many."""
        while True:
            kept = self._against_pool(order, givens)
            if kept is None:
                return None
            unavoidable = self.difference(SQUARES & ~kept)
            if not unavoidable:
                return kept
            self.add(self._shrink(unavoidable, order))

    def _against_pool(self, order: list[int], givens: int) -> int | None:
        kept = SQUARES
        holes, spare = 81 - givens, givens
        for square in order:
            bit = 1 << square
            for unavoidable in self.sets[square]:
                if unavoidable & kept == bit:  # the last given of that set
                    spare -= 1
                    if spare < 0:
                        return None
                    break
            else:
                kept ^= bit
                holes -= 1
                if not holes:
                    return kept
        return None

    def difference(self, blanks: int) -> int:
        """The squares on which a second solution differs if these squares are blank; 0 if there is none."""
        for found in solutions(blanks * (ALL // SQUARES) | self.solution, last=self.solution):
            if found != self.solution:
                different = self.solution & ~found
                different |= different >> 243 | different >> 486  # each square once, whatever its digit
                return (different | different >> 81 | different >> 162) & SQUARES
        return 0

    def _shrink(self, unavoidable: int, order: list[int]) -> int:
        """A smallest unavoidable set inside this one: small sets are worth far more to later digging.

        Squares that are dug last are dropped first, since digging stops at the last square of a set.
        """
        for square in reversed(order):
            bit = 1 << square
            if unavoidable & bit:
                unavoidable = self.difference(unavoidable ^ bit) or unavoidable
        return unavoidable

    def add(self, unavoidable: int) -> None:
        """Add a set to the pool."""
        rest = unavoidable
        while rest:
            bit = rest & -rest
            self.sets[bit.bit_length() - 1].append(unavoidable)
            rest ^= bit
