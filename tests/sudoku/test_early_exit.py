"""Early exit: who leaves and when, that nobody else notices, and what the votes make of it."""

import json

import numpy as np
import pytest
import torch

from akorn import kernels
from akorn import nn as akn
from akorn import oscillators as osc
from akorn.cli import main
from akorn.sudoku import early_exit, voting
from akorn.sudoku.config import ItrSAConfig, SudokuConfig
from akorn.sudoku.evaluate import evaluate
from akorn.sudoku.examples import EXAMPLES
from akorn.sudoku.generate import make
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import build
from akorn.sudoku.solver import Solver
from akorn.sudoku.voting import VoteConfig

T = 40


@pytest.fixture(scope="module")
def boards():
    puzzles, solutions = make(6, (30, 40), 5)
    return torch.from_numpy(np.asarray(puzzles)), torch.from_numpy(np.asarray(solutions))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    net = build(SudokuConfig(channels=32, heads=2, n=4, steps=8)).eval()
    with torch.no_grad():
        net.blocks[-1].layer.gamma.fill_(0.1)
        net.head.weight.mul_(4)
    return net


@pytest.fixture
def starts(boards):
    puzzles = boards[0]
    return start_noise(board_keys(puzzles), torch.zeros(len(puzzles), dtype=torch.int64), 0, (81, 32))


def run(model, boards, starts, tolerance, steps=T, **options):
    return early_exit.evolve(
        model, boards[0], steps, x0=starts, energy=osc.energy, tolerance=tolerance, **options
    )  # fmt: skip


def plain(model, boards, starts, steps=T):
    with torch.no_grad():
        return model.evolve(boards[0], steps, x0=starts)


def a_tolerance_between(model, boards, starts):
    """One that some samples meet before the end and others do not."""
    energies = plain(model, boards, starts).energies
    means = energies.unflatten(0, (-1, early_exit.BLOCK)).mean(1)  # [blocks, B]
    changes = ((means[1:] - means[:-1]) / means[1:]).abs()
    return float(changes[-3].median())


def test_nobody_leaves_with_a_tolerance_that_none_meets(model, boards, starts):
    expected = plain(model, boards, starts)
    for tolerance in (None, 1e-12):
        result, used = run(model, boards, starts, tolerance)
        assert used.tolist() == [T] * len(used)
        torch.testing.assert_close(result.logits, expected.logits, rtol=0, atol=1e-3)
        torch.testing.assert_close(result.energies, expected.energies, rtol=1e-4, atol=1e-2)


def test_all_leave_at_once_with_a_wide_one(model, boards, starts):
    """Two blocks to see the energy still, one more to see the digits the same."""
    result, used = run(model, boards, starts, 0.99)
    assert int(used.min()) == 3 * early_exit.BLOCK
    assert int(used.max()) < T
    assert (used % early_exit.BLOCK == 0).all()
    assert result.logits.isfinite().all()


@pytest.mark.parametrize("grain", [1, 2, 4])
def test_those_who_stay_do_not_notice_and_those_who_leave_answer_as_of_then(model, boards, starts, grain, monkeypatch):
    monkeypatch.setitem(early_exit._PACK, "cpu", grain)
    tolerance = a_tolerance_between(model, boards, starts)
    result, used = run(model, boards, starts, tolerance)
    assert early_exit.BLOCK < int(used.min()) < int(used.max()) == T
    for sample, steps in enumerate(used.tolist()):
        expected = plain(model, boards, starts, steps)
        torch.testing.assert_close(result.logits[sample], expected.logits[sample], rtol=0, atol=2e-3)
        energies = result.energies[:, sample]
        torch.testing.assert_close(energies[:steps], expected.energies[:, sample], rtol=1e-4, atol=1e-2)
        last = energies[steps - early_exit.BLOCK : steps].mean()
        torch.testing.assert_close(energies[steps:], last.expand(T - steps))


def test_the_work_shrinks(model, boards, starts, monkeypatch):
    tolerance = a_tolerance_between(model, boards, starts)
    sizes = []
    solve = akn.solve_steps
    monkeypatch.setattr(akn, "solve_steps", lambda layer, x, *a: sizes.append(len(x)) or solve(layer, x, *a))
    _, used = run(model, boards, starts, tolerance)
    assert sizes == [int((used > done).sum()) for done in range(0, T, early_exit.BLOCK)]
    sizes.clear()
    monkeypatch.setitem(early_exit._PACK, "cpu", 4)
    run(model, boards, starts, tolerance)
    assert set(sizes) <= {4, 2}  # pieces of four, and the rest of the first six


def test_changing_digits_keep_a_sample(model, boards, starts, monkeypatch):
    answer = model.answer
    looks = []

    def swings(c):
        looks.append(len(c))
        return answer(c).roll(len(looks), -1)  # other digits at every look

    monkeypatch.setattr(model, "answer", swings)
    _, used = run(model, boards, starts, 0.99)
    assert used.tolist() == [T] * len(used)
    assert len(looks) > 2


def test_steps_that_are_no_multiple_of_a_block(model, boards, starts):
    result, used = run(model, boards, starts, 1e-12, steps=11)
    torch.testing.assert_close(result.logits, plain(model, boards, starts, 11).logits, rtol=0, atol=1e-3)
    assert result.energies.shape == (11, len(used))
    result, used = run(model, boards, starts, 0.99, steps=3)
    assert used.tolist() == [3] * len(used)


def test_padding_leaves_at_once(model, boards, starts, monkeypatch):
    sizes = []
    solve = akn.solve_steps
    monkeypatch.setattr(akn, "solve_steps", lambda layer, x, *a: sizes.append(len(x)) or solve(layer, x, *a))
    wanted = torch.tensor([True, True, False, True, False, False])
    result, _ = run(model, boards, starts, 1e-12, wanted=wanted)
    assert set(sizes) == {3}
    torch.testing.assert_close(result.logits[wanted], plain(model, boards, starts).logits[wanted], rtol=0, atol=1e-3)


@pytest.mark.parametrize("chunk", [4, 12])
def test_votes(model, boards, chunk):
    """The stream counts its steps, without the padding, and a hard tolerance changes no vote."""
    full = voting.run(model, boards[0], VoteConfig(T, 3, chunk=chunk))
    assert full.used.tolist() == [3 * T] * len(boards[0])
    same = voting.run(model, boards[0], VoteConfig(T, 3, chunk=chunk, early_exit=1e-12))
    assert same.used.tolist() == full.used.tolist()
    for name in full.best:
        assert torch.equal(same.best[name].answer, full.best[name].answer)
    early = voting.run(model, boards[0], VoteConfig(T, 3, chunk=chunk, early_exit=0.99))
    assert early.used.sum() < full.used.sum()


def test_evaluation_and_solver_tell_the_steps(model, boards):
    puzzles, solutions = (part.numpy() for part in boards)
    assert evaluate(model, puzzles, solutions, steps=16).mean_steps == 16
    found = evaluate(model, puzzles, solutions, steps=T, early_exit=0.99)
    assert 16 < found.mean_steps < T
    assert found.as_json()["mean_steps"] == found.mean_steps
    answer = Solver(model, "cpu").solve(puzzles[0], T, 2, early_exit=0.99)
    assert (answer.steps, answer.mean_steps < T) == (T, True)


def test_the_plain_loop_votes_alike(model, boards):
    was = kernels.enabled()
    try:
        tallies = []
        for flag in (True, False):
            kernels.enable(flag)
            tallies.append(voting.run(model, boards[0], VoteConfig(16, 2)))
    finally:
        kernels.enable(was)
    for name in tallies[0].best:
        assert torch.equal(tallies[0].best[name].answer, tallies[1].best[name].answer)


def test_bad_input(model, boards, starts):
    for wrong in (0.0, -1.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            VoteConfig(T, early_exit=wrong)
    other = build(ItrSAConfig(channels=32, heads=2, steps=2))
    with pytest.raises(ValueError, match="ItrSASudoku does not have"):
        early_exit.evolve(other, boards[0], 2, x0=None, energy=osc.energy, tolerance=0.1)


def test_command_line(model, tmp_path, capsys):
    model.save_pretrained(tmp_path / "small")
    words = ["solve", EXAMPLES["easy"], "--model", str(tmp_path / "small"), "--device", "cpu", "--steps", "32",
             "--votes", "2", "--json"]  # fmt: skip

    def solve(*more):
        with pytest.raises(SystemExit) as left:
            main([*words, *more])
        return left.value.code, capsys.readouterr()

    status, printed = solve("--early-exit", "0.9")
    assert status == 1  # this model has learned nothing
    assert "of 32 steps on average" in printed.err
    assert len(json.loads(printed.out)["solution"]) == 81
    status, printed = solve()
    assert (status, printed.err) == (1, "")
    status, printed = solve("--early-exit", "2")
    assert status == 2
    assert "--early-exit must be between 0 and 1" in printed.err
    for other in (("--backend", "onnx"), ("--model", "some.onnx")):
        status, printed = solve("--early-exit", "0.01", *other)
        assert status == 2
        assert "--early-exit needs torch: onnxruntime runs all steps" in printed.err
