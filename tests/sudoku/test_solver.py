"""The solver: what people get, from text to an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from fake_net import FakeNet

import akorn
from akorn.errors import AkornError
from akorn.sudoku import Answer, Solver, SudokuConfig, build
from akorn.sudoku.board import format_board, parse_board
from akorn.sudoku.config import ItrSAConfig
from akorn.sudoku.exact import solve_exact
from akorn.sudoku.examples import EASY, HARD, MEDIUM
from akorn.sudoku.hashed_starts import board_keys, start_noise


@pytest.fixture(scope="module")
def solver() -> Solver:
    torch.manual_seed(0)
    return Solver(build(SudokuConfig(channels=32, heads=2)), "cpu")


def test_from_a_folder_as_in_the_readme(tmp_path: Path) -> None:
    torch.manual_seed(0)
    build(SudokuConfig(channels=32, heads=2)).save_pretrained(tmp_path / "mine")
    answer = akorn.sudoku.Solver.from_pretrained(tmp_path / "mine", device="cpu").solve(EASY, steps=4, votes=3)
    assert len(answer.board) == 81
    assert (answer.steps, answer.votes, answer.seed) == (4, 3, 0)
    assert answer.energy is not None
    with pytest.raises(AkornError, match="nowhere"):
        Solver.from_pretrained("nowhere")


def test_givens_are_kept_and_the_verdict_is_honest(solver: Solver) -> None:
    answer = solver.solve(EASY, steps=3)
    puzzle, board = parse_board(EASY), parse_board(answer.board, check=False)
    np.testing.assert_array_equal(board[puzzle > 0], puzzle[puzzle > 0])
    assert board.min() >= 1
    assert not answer.valid  # a model that has learned nothing
    assert answer.conflicts
    assert "digit" in str(answer.conflicts[0])
    assert answer.puzzle == EASY


def test_the_same_seed_gives_the_same_answer_wherever_the_puzzle_stands(solver: Solver) -> None:
    together = solver.solve([EASY, MEDIUM, HARD], steps=4, votes=3, seed=5)
    turned = solver.solve([HARD, EASY], steps=4, votes=3, seed=5)
    assert isinstance(together, list)
    for a, b in ((together[2], turned[0]), (together[0], turned[1])):
        assert (a.board, a.start) == (b.board, b.start)
        assert a.energy == pytest.approx(b.energy)
    other = solver.solve(EASY, steps=4, votes=3, seed=6)
    assert other.energy != pytest.approx(together[0].energy)


def test_text_and_arrays_are_the_same_puzzle(solver: Solver) -> None:
    board = parse_board(EASY)
    expected = solver.solve(EASY, steps=2)
    assert solver.solve(board, steps=2) == expected
    assert solver.solve(board.reshape(9, 9), steps=2) == expected
    assert solver.solve(board[None], steps=2) == [expected]  # type: ignore[comparison-overlap]
    assert solver.solve(EASY.replace("0", "."), steps=2) == expected
    assert solver.solve([], steps=2) == []


def test_watching_ends_where_solving_does(solver: Solver) -> None:
    answer = solver.solve(MEDIUM, steps=6, votes=1, seed=2)
    frames = list(solver.watch(MEDIUM, steps=6, seed=2, start=answer.start))
    assert [frame.step for frame in frames] == list(range(1, 7))
    assert format_board(frames[-1].digits) == answer.board
    assert sum(frame.energy for frame in frames if frame.energy is not None) == pytest.approx(answer.energy)
    given = parse_board(MEDIUM) > 0
    for frame in frames:
        assert (frame.confidence[given] == 1).all()
        assert ((frame.confidence > 0) & (frame.confidence <= 1)).all()
        assert frame.confidence[~given].min() >= 1 / 9 - 1e-6  # the likeliest of nine digits


def test_more_votes_never_raise_the_energy(solver: Solver) -> None:
    energies = [solver.solve(HARD, steps=4, votes=k, vote="energy").energy for k in (1, 4, 16)]
    assert energies[0] is not None
    assert energies[0] >= energies[1] >= energies[2]  # type: ignore[operator]
    assert energies[0] > energies[2]  # type: ignore[operator]


def test_more_votes_never_lower_the_confidence(solver: Solver) -> None:
    answers = [solver.solve(HARD, steps=4, votes=k) for k in (1, 4, 16)]
    confidences = [answer.confidence for answer in answers]
    assert confidences == sorted(confidences)
    assert confidences[0] < confidences[2]
    alone = solver.solve(HARD, steps=4, votes=16, vote="energy")
    assert alone.start != answers[2].start  # else the two votes could not be told apart here
    assert alone.energy < answers[2].energy  # type: ignore[operator]


def test_unknown_and_impossible_votes_are_refused(solver: Solver) -> None:
    with pytest.raises(AkornError, match="vote is 'loud', expected confidence or energy"):
        solver.solve(HARD, vote="loud")  # type: ignore[call-overload]
    for effort in ("64x2048", 3):
        with pytest.raises(AkornError, match=r"expected an Effort such as akorn.sudoku.Effort\(64, 2048\)"):
            solver.solve(HARD, effort=effort)  # type: ignore[call-overload]
    torch.manual_seed(0)
    with pytest.raises(AkornError, match="has no energy to vote by"):
        Solver(build(ItrSAConfig(channels=16, heads=2)), "cpu").solve(HARD, vote="energy")


def _fake(limit: float) -> tuple[Solver, np.ndarray]:
    """A solver that is right below `limit` only in its high-energy starts, and each start's q."""
    puzzle = torch.from_numpy(parse_board(EASY))[None]
    solution = torch.from_numpy(np.asarray(solve_exact(parse_board(EASY))))[None]
    keys = board_keys(puzzle).expand(8)
    q = start_noise(keys, torch.arange(8), 0, (81, 8))[:, 0, 0].numpy()
    return Solver(_Contrary(puzzle, solution, limit), "cpu"), q


class _Contrary(FakeNet):
    """Energies turned round: the lowest energy has the lowest q, which is the first to be wrong."""

    def evolve(self, *args: object, **options: object) -> object:  # type: ignore[override]
        result = super().evolve(*args, **options)  # type: ignore[arg-type]
        assert result.energies is not None
        return result._replace(energies=-result.energies)


def test_valid_boards_are_preferred_only_when_asked_for() -> None:
    solver, q = _fake(limit=0.0)
    assert q.min() < 0 < q.max()  # some starts are right, some wrong
    plain = solver.solve(EASY, votes=8, vote="energy")
    assert not plain.valid
    assert plain.start == q.argmin()
    checked = solver.solve(EASY, votes=8, prefer_valid=True, vote="energy")
    assert checked.valid
    assert checked.start == np.where(q > 0, q, np.inf).argmin()  # the lowest energy among the valid
    assert checked.energy == pytest.approx(2 * q[checked.start])
    hopeless, _ = _fake(limit=torch.inf)
    assert hopeless.solve(EASY, votes=8, prefer_valid=True, vote="energy").start == q.argmin()
    assert solver.solve(EASY, votes=8).valid  # the fake model is surer where it is right


def test_a_model_without_energy_solves_too() -> None:
    torch.manual_seed(0)
    solver = Solver(build(ItrSAConfig(channels=16, heads=2)), "cpu")
    answer = solver.solve(EASY, steps=2)
    assert isinstance(answer, Answer)
    assert answer.energy is None
    assert [frame.energy for frame in solver.watch(EASY, steps=2)] == [None, None]


def test_bad_puzzles_say_what_is_wrong_and_where(solver: Solver) -> None:
    with pytest.raises(AkornError, match="81 squares, this text has 3"):
        solver.solve("123")
    with pytest.raises(AkornError, match="puzzle 2: unexpected character 'x'"):
        solver.solve([EASY, "x" + EASY[1:]])
    with pytest.raises(AkornError, match="contradict each other: digit 5 occurs twice in row 1"):
        solver.solve("55" + "0" * 79)
    with pytest.raises(AkornError, match="puzzle 1: a board must have shape"):
        solver.solve(np.zeros((2, 80), dtype=np.uint8))
    for nothing in (None, 5, [None]):
        with pytest.raises(AkornError, match="a board must have shape"):
            solver.solve(nothing)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="steps"):
        solver.solve(EASY, steps=0)
