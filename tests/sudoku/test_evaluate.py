"""Votes and board accuracy: against a brute-force count, in any chunks, over any number of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_net import FakeNet

from akorn.errors import AkornError
from akorn.sudoku import voting
from akorn.sudoku.config import ItrSAConfig, SudokuConfig
from akorn.sudoku.difficulty import count_difficulties
from akorn.sudoku.evaluate import Evaluation, Samples, auroc, energy_over_steps, evaluate, within_auroc
from akorn.sudoku.generate import make
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import build
from akorn.sudoku.plots import plot_accuracy, plot_accuracy_of_each, plot_energy_histogram, plot_energy_over_steps

BOARDS, VOTES, SEED = 7, 5, 3
PUZZLES, SOLUTIONS = make(BOARDS, (31, 42), seed=1)


def fake(limit: float = 0.0, broken: float = torch.inf) -> FakeNet:
    return FakeNet(torch.from_numpy(PUZZLES), torch.from_numpy(SOLUTIONS), limit, broken)


def run(model: FakeNet | None = None, **options: object) -> Evaluation:
    settings = {"votes": VOTES, "seed": SEED, "samples": True, **options}
    return evaluate(model or fake(), PUZZLES, SOLUTIONS, **settings)  # type: ignore[arg-type]


def quality() -> np.ndarray:
    """[B, K]: the number that decides about each sample of the fake model."""
    keys = board_keys(torch.from_numpy(PUZZLES))
    rows = [
        [float(start_noise(keys[b : b + 1], torch.tensor([k]), SEED, (81, 8))[0, 0, 0]) for k in range(VOTES)]
        for b in range(BOARDS)
    ]
    return np.array(rows)


def test_votes_match_a_count_by_hand() -> None:
    q = quality()
    found = run()
    rows = np.arange(BOARDS)
    right = q > 0
    expected = {
        "single": right.mean(),
        "first": right[:, 0].mean(),
        "sum": right[rows, q.argmax(1)].mean(),
        "last": right[rows, q.argmin(1)].mean(),
        "majority": (right.sum(1) > VOTES / 2).mean(),
    }
    for name, value in expected.items():
        assert found.accuracies[name] == pytest.approx(100 * value), name
    # A right answer is surer: its square adds more to the mean than a wrong one.
    sure, unsure = np.exp(12) / (np.exp(12) + 8), np.exp(4) / (np.exp(4) + 8)
    mean_right = right.sum(1) * sure + (~right).sum(1) * (1 - unsure) / 8
    mean_wrong = (~right).sum(1) * unsure + right.sum(1) * (1 - sure) / 8
    assert found.accuracies["average"] == pytest.approx(100 * (mean_right > mean_wrong).mean())
    assert 0 < expected["last"] + expected["majority"] < 2  # the example tells the votes apart
    assert found.accuracies["last"] < found.accuracies["sum"]
    assert found.board_accuracy == found.accuracies["sum"]
    assert found.energy is not None
    np.testing.assert_allclose(found.energy, (-2 * q).min(1), rtol=1e-6)
    np.testing.assert_array_equal(found.solved, (found.answers == SOLUTIONS).all(1))
    assert found.samples is not None
    np.testing.assert_array_equal(found.samples.correct, right)
    np.testing.assert_allclose(found.samples.energy("last"), q, rtol=1e-6)


@pytest.mark.parametrize("chunk", [1, 2, 4, 11, 34, 35, 1000])
def test_chunks_change_nothing(chunk: int) -> None:
    base, found = run(), run(chunk=chunk)
    assert found.accuracies == base.accuracies
    assert found.by_givens == base.by_givens
    np.testing.assert_array_equal(found.answers, base.answers)
    np.testing.assert_array_equal(found.energy, base.energy)


def test_only_blanks_count_and_givens_are_kept() -> None:
    found = run(fake(limit=torch.inf), vote="first")  # one blank of every board is wrong
    assert found.board_accuracy == 0
    wrong = found.answers != SOLUTIONS
    np.testing.assert_array_equal(wrong.sum(1), 1)
    assert not (wrong & (PUZZLES > 0)).any()
    assert run(fake(limit=-torch.inf)).board_accuracy == 100


def test_accuracy_by_givens_adds_up() -> None:
    found = run(vote="last")
    assert sum(count for _, count in found.by_givens.values()) == BOARDS
    total = sum(accuracy * count for accuracy, count in found.by_givens.values()) / BOARDS
    assert total == pytest.approx(found.board_accuracy)
    assert set(found.by_givens) == set((PUZZLES > 0).sum(1).tolist())


def test_accuracy_by_difficulty_adds_up() -> None:
    found = run(vote="last")
    assert {name: count for name, (_, count) in found.by_difficulty.items()} == count_difficulties(PUZZLES)
    assert len(found.by_difficulty) > 1  # or the sum below would show nothing
    total = sum(accuracy * count for accuracy, count in found.by_difficulty.values()) / BOARDS
    assert total == pytest.approx(found.board_accuracy)
    told = found.as_json()["by_difficulty"]
    assert told["easy"] == {"accuracy": found.by_difficulty["easy"][0], "boards": found.by_difficulty["easy"][1]}


def test_an_energy_that_is_no_number_never_wins() -> None:
    q = quality()
    found = run(fake(broken=0.5))  # the best starts lose their energy
    assert found.energy is not None
    fine = np.where(q > 0.5, np.inf, -2 * q)
    np.testing.assert_allclose(found.energy, fine.min(1), rtol=1e-6)
    lost = run(fake(broken=-torch.inf))  # no energy at all: the first start's answer stands
    np.testing.assert_array_equal(lost.solved, q[:, 0] > 0)


def test_accuracy_against_votes_ends_at_the_vote_itself() -> None:
    found = run()
    assert found.samples is not None
    curve = found.samples.accuracy_against_votes([1, 3, VOTES])
    assert curve[VOTES] == pytest.approx(found.accuracies["sum"])
    assert curve[1] == pytest.approx(found.accuracies["first"])
    assert found.samples.auroc("sum") == 1.0  # of the fake model: its energy orders the answers perfectly
    assert found.samples.auroc("last") == 0.0
    with pytest.raises(ValueError, match=f"between 1 and {VOTES}, got {VOTES + 1}"):
        found.samples.accuracy_against_votes([VOTES + 1])


def test_models_without_energy_vote_by_squares() -> None:
    torch.manual_seed(0)
    model = build(ItrSAConfig(channels=16, heads=2))
    found = evaluate(model, PUZZLES, SOLUTIONS, steps=2)
    assert found.vote == "average"
    assert found.energy is None
    assert set(found.accuracies) == {"single", "first", "confidence", "majority", "average"}
    with pytest.raises(ValueError, match="has no energy"):
        evaluate(model, PUZZLES, SOLUTIONS, vote="sum")


def test_the_most_confident_start_wins() -> None:
    """The fake model is surer where it is right, while its last energy favours wrong answers."""
    found = run(votes=8, vote="confidence", samples=True)
    assert found.samples is not None
    any_right = 100.0 * float(found.samples.correct.any(1).mean())
    assert found.board_accuracy == found.accuracies["confidence"] == any_right > found.accuracies["last"]
    assert found.samples.auroc("confidence") == 1.0
    assert found.samples.auroc("last") == 0.0
    assert found.samples.accuracy_against_votes([8], "confidence") == {8: any_right}
    np.testing.assert_array_equal(found.confidence, found.samples.confidence.max(1))


def test_probabilities_of_many_starts_add_up() -> None:
    """Whole numbers of 32 bits overflow here: every start is nearly sure, and adds almost 65,536."""
    found = evaluate(fake(limit=-torch.inf), PUZZLES[:1], SOLUTIONS[:1], votes=33_000, chunk=1000)
    assert found.accuracies["average"] == 100


def test_confidence_is_the_mean_over_the_blanks() -> None:
    chances = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.9, 0.0], [0.2, 0.2, 0.6]]]).expand(3, 3, 3)
    puzzles = torch.tensor([[0, 2, 0], [1, 0, 3], [1, 2, 3]])
    torch.testing.assert_close(voting.mean_confidence(chances, puzzles), torch.tensor([0.55, 0.9, 1.0]))


def test_bad_settings_are_refused() -> None:
    for options, words in (
        ({"votes": 0}, "votes must be"),
        ({"steps": 0}, "steps must be"),
        ({"chunk": -1}, "chunk must be"),
        ({"vote": "loud"}, "vote is 'loud'"),
        ({"precision": "int8"}, "precision is 'int8'"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(ValueError, match=words):
            run(**options)
    with pytest.raises(ValueError, match="the same shape"):
        evaluate(fake(), PUZZLES, SOLUTIONS[:3])


def test_noise_is_normal_and_depends_on_what_it_should() -> None:
    keys = board_keys(torch.from_numpy(PUZZLES))
    assert len(set(keys.tolist())) == BOARDS
    starts = torch.arange(BOARDS)
    noise = start_noise(keys, starts, 0, (81, 64))
    assert abs(float(noise.mean())) < 0.02
    assert abs(float(noise.std()) - 1) < 0.02
    assert abs(float(noise.pow(4).mean()) - 3) < 0.15
    assert float(noise.abs().max()) > 3.5
    correlation = torch.corrcoef(noise.flatten(1))
    assert float((correlation - torch.eye(BOARDS)).abs().max()) < 0.06  # about 4 σ for 5,184 numbers
    for other in (
        start_noise(keys, starts, 1, (81, 64)),
        start_noise(keys, starts + 1, 0, (81, 64)),
        start_noise(keys.roll(1), starts, 0, (81, 64)),
    ):
        assert abs(float((noise * other).mean())) < 0.02
    alone = start_noise(keys[3:4], starts[3:4], 0, (81, 64))
    torch.testing.assert_close(alone[0], noise[3], rtol=0, atol=0)
    assert start_noise(keys, starts, 0, (3, 5)).shape == (BOARDS, 3, 5)  # an odd count


def test_auroc_by_hand() -> None:
    assert auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75  # of four pairs three are in order
    assert auroc([1, 1, 1, 1], [0, 1, 0, 1]) == 0.5
    assert auroc([1, 2, 2, 3], [0, 0, 1, 1]) == pytest.approx(3.5 / 4)
    assert np.isnan(auroc([1, 2], [1, 1]))
    with pytest.raises(ValueError, match="one label per score"):
        auroc([1, 2], [1])


def test_within_auroc_compares_answers_to_the_same_board_alone() -> None:
    scores = [[1, 2], [11, 12], [5, 6]]  # the second board's scores are higher, which must not matter
    assert within_auroc(scores, [[0, 1], [0, 1], [1, 1]]) == 1.0
    assert within_auroc(scores, [[0, 1], [1, 0], [0, 0]]) == 0.5
    assert within_auroc([[1, 2, 3], [2, 1, 0]], [[0, 1, 1], [0, 1, 0]]) == pytest.approx((2 * 1.0 + 2 * 0.5) / 4)
    assert np.isnan(within_auroc(scores, [[1, 1], [0, 0], [1, 1]]))


_SCRIPT = """
import sys, numpy as np, torch
torch.set_num_threads(1)
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.evaluate import evaluate
from akorn.sudoku.generate import make
from akorn.sudoku.net import build
from akorn.runtime.processes import is_main, place
torch.manual_seed(0)
model = build(SudokuConfig(channels=16, heads=2))
puzzles, solutions = make(5, (60, 70), seed=2)
found = evaluate(model, puzzles, solutions, steps=3, votes=5, chunk=4, samples=True)
if is_main():
    accuracies = [found.accuracies[name] for name in sorted(found.accuracies)]
    np.savez(sys.argv[1], accuracies=accuracies, answers=found.answers, energy=found.energy,
             last=found.samples.last, sum=found.samples.sum, correct=found.samples.correct)
    print(place(torch.device("cpu"))[1])  # how many processes took part
"""


@pytest.mark.slow
def test_two_processes_give_exactly_what_one_gives(tmp_path: Path) -> None:
    base = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        base.pop(name, None)
    # The store where the processes meet lives here and keeps its port: others look for free ports at the same time.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"},
        **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"},
    }

    def start(out: Path, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SCRIPT, str(out)]
        return subprocess.Popen(command, env={**base, **more}, stdout=subprocess.PIPE, text=True)

    one = [start(tmp_path / "one.npz")]
    two = [start(tmp_path / "two.npz", RANK=str(r), LOCAL_RANK=str(r), **shared) for r in range(2)]
    try:
        said = [process.communicate(timeout=120)[0].split() for process in one + two]
        assert [process.returncode for process in one + two] == [0, 0, 0]
        assert said == [["1"], ["2"], []]
    finally:
        for process in one + two:
            process.kill()
    a, b = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    assert a["sum"].shape == (5, 5)
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_plots_are_written_and_bad_names_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = build(SudokuConfig(channels=16, heads=2))
    energies = energy_over_steps(model, PUZZLES, 6)
    assert energies.shape == (6, BOARDS)
    rng = np.random.default_rng(0)
    energy, confidence = rng.normal(size=(20, 4)).astype(np.float32), rng.random((20, 4), dtype=np.float32)
    samples = Samples(None, energy, confidence, rng.random((20, 4)) > 0.5)
    pairs = (samples.energy(), samples.correct)
    for path in (
        plot_energy_over_steps({"boards": energies}, tmp_path / "steps.png", trained_steps=4),
        plot_energy_histogram({"boards": pairs}, tmp_path / "histogram.svg"),
        plot_accuracy({"sum": {1: 10.0, 16: 50.0}}, tmp_path / "votes.pdf", against="votes K"),
        plot_accuracy_of_each({"seed 0": {"sum": {1: 9.0}}, "seed 1": {"sum": {1: 8.0}}}, tmp_path / "seeds.png"),
    ):
        assert path.stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(AkornError, match="a plot must end in"):
        plot_accuracy({"sum": {1: 10.0}}, tmp_path / "plot.txt")
    with pytest.raises(AkornError, match="does not exist"):
        plot_accuracy({"sum": {1: 10.0}}, tmp_path / "absent" / "plot.png")
    with pytest.raises(ValueError, match="no accuracy"):
        plot_accuracy({}, tmp_path / "plot.png")
    with pytest.raises(ValueError, match="no accuracy"):
        plot_accuracy_of_each({"seed 0": {}}, tmp_path / "plot.png")
