"""Boards with exactly one solution: with a chosen number of givens, of a chosen difficulty, or of many search nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from akorn.errors import AkornError
from akorn.sudoku.climbing import MOST_NODES, climb
from akorn.sudoku.difficulty import DIFFICULTIES, Difficulty, classify_candidates
from akorn.sudoku.digging import Digger, random_solution
from akorn.sudoku.exact import ALL, SQUARES, count_solutions, solve_exact, to_board

__all__ = ["FEWEST", "MOST", "count_solutions", "make", "parse_givens", "solve_exact"]

FEWEST, MOST = 22, 80
_ORDERS = 300  # digging orders tried on one solution before another is drawn
_ORDERS_OF_A_CLASS = 50  # the same for boards of one difficulty, where variety matters more
_DENSE = 31  # with at least this many givens a board takes milliseconds, with fewer up to seconds

GIVENS = (31, 42)
"""The default range of givens, that of the paper's boards."""
GIVENS_OF: dict[Difficulty, tuple[int, int]] = {
    "easy": (31, 42),
    "medium": (28, 36),
    "hard": (25, 32),
    "extreme": (25, 28),
}
"""The same for boards of one difficulty: ranges in which they are common enough to be found."""

Progress = Callable[[int, int], None]


def parse_givens(text: str) -> tuple[int, int]:
    """`30` or `31-42` as the lowest and highest number of givens."""
    low, dash, high = text.partition("-")
    try:
        return check_givens((int(low), int(high if dash else low)))
    except ValueError as error:
        if isinstance(error, AkornError):
            raise
        raise AkornError(f"expected a number of givens such as 30, or a range such as 31-42, got {text!r}") from None


def check_givens(givens: int | tuple[int, int]) -> tuple[int, int]:
    """The lowest and highest number of givens; impossible ones are refused."""
    low, high = (givens, givens) if isinstance(givens, int) else givens
    if low > high:
        raise AkornError(f"the range of givens runs from {low} down to {high}: expected the lower number first")
    if low < FEWEST:
        raise AkornError(
            f"boards with {low} givens cannot be generated, the minimum is {FEWEST}: digging random solutions "
            "almost never leaves a board that sparse with a single solution"
        )
    if high > MOST:
        raise AkornError(f"boards with {high} givens cannot be generated, the maximum is {MOST}: a blank is needed")
    return low, high


def _make_one(seed: int, index: int, low: int, high: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Board number `index` of a seed; it does not depend on which process makes it."""
    rng = random.Random(f"akorn sudoku {seed} {index}")
    givens = rng.randint(low, high)
    order = list(range(81))
    while True:
        digger = Digger(random_solution(rng))
        for _ in range(_ORDERS):
            rng.shuffle(order)
            kept = digger.dig(order, givens)
            if kept is not None:
                return _boards(digger.solution, kept)


def _make_one_of(
    wanted: Difficulty, seed: int, index: int, low: int, high: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The same for boards of one difficulty: dig until one is found, with a new number of givens each time."""
    rng = random.Random(f"akorn sudoku {wanted} {seed} {index}")
    order = list(range(81))
    tries = 20_000 if high >= 28 else 2_000  # sparse boards take up to 0.1 s each
    for attempt in range(tries):
        if attempt % _ORDERS_OF_A_CLASS == 0:
            digger = Digger(random_solution(rng))
        rng.shuffle(order)
        kept = digger.dig(order, rng.randint(low, high))
        if kept is None:
            continue
        if classify_candidates((SQUARES & ~kept) * (ALL // SQUARES) | digger.solution) == wanted:
            return _boards(digger.solution, kept)
    few, many = GIVENS_OF[wanted]
    raise AkornError(f"none of {tries:,} boards with {low} to {high} givens was {wanted}; try {few}-{many} givens")


def _make_one_harder(
    nodes: int, seed: int, index: int, low: int, high: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The same for boards with many search nodes, whatever their number of givens."""
    return _boards(*climb(random.Random(f"akorn sudoku {nodes} nodes {seed} {index}"), nodes))


def _boards(solution: int, kept: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    board = to_board(solution)
    mask = np.array([kept >> square & 1 for square in range(81)], dtype=np.uint8)
    return board * mask, board


_Wanted = Difficulty | int | None
"""A class, at least this many search nodes, or any board."""
_Job = tuple[_Wanted, int, int, int, int, int]


def _make_chunk(
    wanted: _Wanted, seed: int, start: int, stop: int, low: int, high: int
) -> tuple[int, NDArray[np.uint8]]:
    """Boards start to stop as [n, 2, 81], puzzle and solution, with their position."""
    make_one: Callable[[int, int, int, int], tuple[NDArray[np.uint8], NDArray[np.uint8]]]
    if isinstance(wanted, int):
        make_one = partial(_make_one_harder, wanted)
    else:
        make_one = _make_one if wanted is None else partial(_make_one_of, wanted)
    return start, np.array([make_one(seed, index, low, high) for index in range(start, stop)], dtype=np.uint8)


def _chunks(
    wanted: _Wanted, seed: int, count: int, low: int, high: int, workers: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    size = (
        1 if isinstance(wanted, int) else 64 if low >= _DENSE and wanted is None else 4
    )  # small if boards are slow, so that progress is visible
    jobs: list[_Job] = [(wanted, seed, start, min(start + size, count), low, high) for start in range(0, count, size)]
    workers = min(workers, len(jobs))
    if workers <= 1:
        for job in jobs:
            yield _make_chunk(*job)
        return
    # spawn: a forked child of a process that has started threads (torch does) may hang
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(_make_chunk, *job) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def make(
    count: int,
    givens: int | tuple[int, int] | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    difficulty: Difficulty | None = None,
    nodes: int | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`count` puzzles and their only solutions, uint8 [count, 81] each, 0 for a blank.

    `givens` is a number or an inclusive range, from which each board draws its own uniformly; by default 31 to
    42. `difficulty` keeps the boards of one class (see `difficulty.py`); the default range is then that of `GIVENS_OF`,
    and within it numbers of givens with more boards of that class are more frequent. `nodes` climbs to boards for which
    the exact solver needs at least this many search nodes; all their givens are needed. The boards depend only on the
    seed, not on the number of workers, and the first n boards of a longer run are those of a shorter one.
    `progress(done, count)` is called as boards come in. With more than one worker a script needs the usual guard `if
    __name__ == "__main__":`.
    """
    if difficulty is not None and difficulty not in DIFFICULTIES:
        raise AkornError(f"difficulty is {difficulty!r}, expected one of {', '.join(DIFFICULTIES)}")
    if nodes is not None:
        if givens is not None or difficulty is not None:
            raise AkornError("search nodes are a difficulty, and leave as few givens as possible: choose one of them")
        if isinstance(nodes, bool) or not isinstance(nodes, int) or not 2 <= nodes <= MOST_NODES:
            raise AkornError(f"the number of search nodes must be a whole number from 2 to {MOST_NODES}, got {nodes!r}")
    if givens is None:
        givens = GIVENS if difficulty is None else GIVENS_OF[difficulty]
    low, high = check_givens(givens)
    if count < 1:
        raise AkornError(f"the number of boards must be at least 1, got {count}")
    if workers < 1:
        raise AkornError(f"the number of workers must be at least 1, got {workers}")
    boards = np.zeros((count, 2, 81), dtype=np.uint8)
    done = 0
    for start, chunk in _chunks(difficulty if nodes is None else nodes, seed, count, low, high, workers):
        boards[start : start + len(chunk)] = chunk
        done += len(chunk)
        if progress is not None:
            progress(done, count)
    return boards[:, 0].copy(), boards[:, 1].copy()
