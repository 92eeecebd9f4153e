"""Adaptive effort: which boards get more of it, which leave, and that others are not affected."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_net import FakeNet
from torch import Tensor

from akorn import oscillators as osc
from akorn.cli import main
from akorn.errors import AkornError
from akorn.sudoku import adaptive
from akorn.sudoku.adaptive import Found
from akorn.sudoku.board_files import write_csv
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, SudokuConfig
from akorn.sudoku.effort import CHECK, Effort, usual
from akorn.sudoku.evaluate import evaluate
from akorn.sudoku.examples import EXAMPLES
from akorn.sudoku.generate import make
from akorn.sudoku.hashed_starts import board_keys, start_noise
from akorn.sudoku.net import SudokuNet, build
from akorn.sudoku.solver import Solver
from akorn.sudoku.stepping import PIECE, stepper_of
from akorn.sudoku.turned import turned
from akorn.sudoku.voting import mean_confidence

SMALL = SudokuConfig(channels=16, heads=2, steps=8)
EFFORT = Effort(4, 128)
MODELS = [
    SMALL,
    ItrSAConfig(channels=16, heads=2),
    ItrSAConfig(channels=16, heads=2, start="random"),
    EnergyTransformerConfig(16, 2, 4, 16),
]


@pytest.fixture(scope="module")
def boards() -> tuple[Tensor, Tensor]:
    puzzles, solutions = make(5, (30, 40), 5)
    return torch.from_numpy(np.asarray(puzzles)), torch.from_numpy(np.asarray(solutions))


def net(config: object = SMALL) -> SudokuNet:
    torch.manual_seed(0)
    model = build(config).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        model.head.weight.mul_(4)
    return model


def readings(model: SudokuNet, puzzles: Tensor, starts: int, steps: int, symmetries: bool = True) -> Tensor:
    """The confidence at every reading, [B, starts, readings], by whole runs of the model."""
    board = torch.arange(len(puzzles)).repeat_interleave(starts)
    samples = board_keys(puzzles)[board], torch.arange(starts).repeat(len(puzzles)), 0
    x0 = start_noise(*samples, (81, model.channels))
    seen = turned(*samples)
    found = []
    with torch.no_grad():
        for done in range(CHECK, steps + 1, CHECK):
            if symmetries:
                logits = seen.back(model.evolve(seen.image(puzzles[board]), done, x0=x0).logits)
            else:
                logits = model.evolve(puzzles[board], done, x0=x0).logits
            found.append(mean_confidence(logits.softmax(-1), puzzles[board]))
    return torch.stack(found, -1).view(len(puzzles), starts, -1)


@pytest.mark.parametrize(
    ("limit", "rounds"),
    [
        ((64, 2048), ((1, 64), (8, 128), (64, 256), (64, 2048))),
        ((1, 32), ((1, 32),)),
        ((1, 512), ((1, 64), (1, 512))),
        ((100, 64), ((1, 64), (8, 64), (64, 64), (100, 64))),
    ],
)
def test_rounds_grow_to_the_limit(limit: tuple[int, int], rounds: object) -> None:
    assert Effort(*limit).rounds == rounds
    assert Effort.parse(str(Effort(*limit))) == Effort(*limit)
    assert usual("cuda").steps > usual("cpu").steps


@pytest.mark.parametrize("symmetries", [True, False])
def test_an_unreachable_threshold_takes_the_whole_limit_and_the_best_reading(
    symmetries: bool, boards: tuple[Tensor, Tensor]
) -> None:
    model, puzzles = net(), boards[0]
    found = adaptive.run(model, puzzles, Effort(4, 128, sure=1.0, symmetries=symmetries))
    assert found.used.tolist() == [1 * 64 + 4 * 128] * len(puzzles)
    assert found.round.tolist() == [1] * len(puzzles)
    every = readings(model, puzzles, 4, 128, symmetries)
    best, place = every.flatten(1).max(1)
    torch.testing.assert_close(found.confidence, best, rtol=0, atol=1e-4)
    clear = every.flatten(1).topk(2).values.diff().abs().squeeze(1) > 1e-3  # no near tie
    assert bool(clear.any())
    assert torch.equal(found.start[clear], place[clear] // 4)
    assert torch.equal(found.steps[clear], (place[clear] % 4 + 1) * CHECK)


def test_a_board_leaves_at_the_first_sure_reading(boards: tuple[Tensor, Tensor]) -> None:
    model, puzzles = net(), boards[0]
    every = readings(model, puzzles, 4, 128)
    sure = float(every.flatten(1).amax(1).median()) - 1e-3
    found = adaptive.run(model, puzzles, Effort(4, 128, sure=sure))
    for row, used in zip(every, found.used.tolist(), strict=True):
        first = (row[0, :2] >= sure).nonzero()  # the first round: one start, 64 steps
        if len(first):
            assert used == CHECK * (int(first[0]) + 1)
            continue
        second = (row >= sure).any(0).nonzero()
        assert used == 64 + 4 * CHECK * (int(second[0]) + 1 if len(second) else 4)
    assert torch.equal(found.sure(Effort(4, 128, sure=sure)), found.confidence >= sure)
    assert 0 < int((found.confidence >= sure).sum()) < len(puzzles)


@pytest.mark.parametrize("config", MODELS)
def test_a_board_does_not_notice_the_others(config: object, boards: tuple[Tensor, Tensor]) -> None:
    model, puzzles = net(config), boards[0]
    sure = float(adaptive.run(model, puzzles, Effort(1, 64, sure=1.0)).confidence.median())  # about half leave
    effort = Effort(4, 128, sure=sure)
    whole = adaptive.run(model, puzzles, effort)
    assert len(set(whole.used.tolist())) > 1
    for other in (
        adaptive.run(model, puzzles, effort, chunk=1),  # one board at a time
        adaptive.run(model, puzzles.flip(0), effort, chunk=8),
    ):
        flipped = other.answer if torch.equal(other.answer[0], whole.answer[0]) else other.answer.flip(0)
        assert torch.equal(flipped, whole.answer)
        assert sorted(other.used.tolist()) == sorted(whole.used.tolist())
    if not model.random_start:
        assert int(whole.start.max()) > 0  # its starts differ by their symmetries
        alike = adaptive.run(model, puzzles, replace(effort, symmetries=False))
        assert alike.start.tolist() == [0] * len(puzzles)
        assert int(alike.used.max()) <= 64 + 128  # more steps alone


@pytest.mark.parametrize(("piece", "chunk"), [(8, None), (8, 8), (3, 5), (4, 4)])
def test_padding_to_pieces_changes_nothing(
    piece: int, chunk: int | None, boards: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where samples run in pieces of one size."""
    model, puzzles = net(), boards[0]
    sure = float(adaptive.run(model, puzzles, Effort(1, 64, sure=1.0)).confidence.median())
    effort = Effort(4, 128, sure=sure)
    plain = adaptive.run(model, puzzles, effort, energy=osc.energy)
    monkeypatch.setitem(PIECE, "cpu", piece)
    padded = adaptive.run(model, puzzles, effort, chunk=chunk, energy=osc.energy)
    for name in ("answer", "start", "steps", "used", "round"):
        assert torch.equal(getattr(plain, name), getattr(padded, name)), name
    torch.testing.assert_close(plain.energy, padded.energy, rtol=1e-3, atol=1e-2)


def test_steps_in_pieces_are_the_model(boards: tuple[Tensor, Tensor]) -> None:
    for config in MODELS:
        model, puzzles = net(config), boards[0]
        x0 = start_noise(board_keys(puzzles), torch.zeros(len(puzzles), dtype=torch.int64), 0, (81, model.channels))
        with torch.no_grad():
            expected = model.evolve(puzzles, 12, x0=x0)
            stepper = stepper_of(model)
            assert stepper is not None
            state = stepper.begin(puzzles, x0, 12)
            state, first = stepper.advance(state, 5, osc.energy)
            state, second = stepper.advance(state, 7, osc.energy)
        torch.testing.assert_close(stepper.read(state), expected.logits, rtol=1e-4, atol=1e-4)
        if expected.energies is not None:
            assert first is not None
            assert second is not None
            torch.testing.assert_close(torch.cat([first, second]), expected.energies, rtol=1e-4, atol=1e-3)


def test_a_valid_answer_ends_the_effort_only_where_that_was_asked_for(boards: tuple[Tensor, Tensor]) -> None:
    model = FakeNet(*boards)  # takes all steps of a round at once; right where a start's first number is positive
    by_rules = adaptive.run(model, boards[0], Effort(16, 64, sure=1.0, stop="valid", symmetries=False))
    assert bool(by_rules.valid.all())
    assert torch.equal(by_rules.answer, boards[1])
    assert int(by_rules.used.max()) < 64 * (1 + 8 + 16)
    by_confidence = adaptive.run(model, boards[0], Effort(16, 64, sure=1.0, symmetries=False))
    assert by_confidence.used.tolist() == [64 * (1 + 8 + 16)] * len(boards[0])
    assert torch.equal(by_confidence.answer, boards[1])  # right ones are surer here


def test_evaluating_with_an_effort(boards: tuple[Tensor, Tensor]) -> None:
    model = FakeNet(*boards)
    found = evaluate(model, *map(np.asarray, boards), effort=Effort(4, 64, sure=0.88, symmetries=False))
    assert found.spent is not None
    told = found.as_json()["effort"]
    assert told["starts"], told["steps"] == (4, 64)
    assert told["sample_steps_per_board"] == found.spent.used.mean()
    assert sum(each["boards"] for each in told["rounds"]) == len(boards[0])
    assert told["sure_boards"]["boards"] + told["unsure_boards"]["boards"] == len(boards[0])
    with pytest.raises(ValueError, match="with an effort"):
        evaluate(model, *map(np.asarray, boards), effort=EFFORT, steps=4)


def test_solving_with_an_effort(boards: tuple[Tensor, Tensor]) -> None:
    solver = Solver(net(), "cpu")
    answer = solver.solve(EXAMPLES["easy"], effort=Effort(4, 64, sure=1.0))
    assert (answer.votes, answer.effort, answer.at_limit) == (4, 64 + 4 * 64, True)
    *_, frame = solver.watch(EXAMPLES["easy"], answer.steps, answer.seed, answer.start, symmetries=answer.symmetries)
    assert "".join(map(str, frame.digits)) == answer.board  # replayed
    assert answer.energy is not None
    assert not solver.solve(EXAMPLES["easy"], effort=Effort(4, 64, sure=0.01)).at_limit
    with pytest.raises(AkornError, match="goes by confidence"):
        solver.solve(EXAMPLES["easy"], effort=EFFORT, vote="energy")
    right = Solver(FakeNet(*boards), "cpu").solve(
        [board.numpy() for board in boards[0]], effort=Effort(16, 64, sure=1.0, symmetries=False), prefer_valid=True
    )
    assert all(answer.valid and not answer.at_limit for answer in right)


@pytest.mark.parametrize("config", [replace(SMALL, blocks=2), ItrSAConfig(channels=16, heads=2, blocks=2)])
def test_an_early_answer_of_several_blocks_is_replayed(config: object) -> None:
    solver = Solver(net(config), "cpu")
    answer = solver.solve(EXAMPLES["easy"], effort=Effort(4, 64, sure=0.01))
    assert (answer.steps, answer.round_steps) == (CHECK, 64)  # the first block took all 64
    frames = list(solver.watch(EXAMPLES["easy"], CHECK, symmetries=True, round_steps=answer.round_steps))
    assert len(frames) == CHECK
    assert "".join(map(str, frames[-1].digits)) == answer.board
    blank = np.array([given == "0" for given in answer.puzzle])
    assert frames[-1].confidence[blank].mean() == pytest.approx(answer.confidence, abs=1e-4)
    if answer.energy is not None:
        assert sum(frame.energy or 0.0 for frame in frames) == pytest.approx(answer.energy, rel=1e-4)


def test_an_answer_says_of_which_round_it_is(boards: tuple[Tensor, Tensor]) -> None:
    """Also where the last round found nothing better."""
    solver = Solver(net(replace(SMALL, blocks=2)), "cpu")
    answers = solver.solve([board.numpy() for board in boards[0]], effort=Effort(1, 128, sure=1.0))
    assert {answer.round_steps for answer in answers} == {64, 128}
    for answer in answers:
        *_, frame = solver.watch(answer.puzzle, answer.steps, round_steps=answer.round_steps)
        blank = np.array([given == "0" for given in answer.puzzle])
        assert frame.confidence[blank].mean() == pytest.approx(answer.confidence, abs=1e-4)


@pytest.mark.parametrize("symmetries", [True, False])
def test_starts_of_a_model_without_randomness_differ_by_their_symmetries_alone(symmetries: bool) -> None:
    solver = Solver(net(ItrSAConfig(channels=16, heads=2)), "cpu")
    answer = solver.solve(EXAMPLES["easy"], effort=Effort(4, 64, sure=1.0, symmetries=symmetries))
    starts = 4 if symmetries else 1
    assert (answer.votes, answer.effort) == (starts, 64 + starts * 64)


@pytest.mark.parametrize(
    ("make_effort", "words"),
    [
        (lambda: Effort(0, 64), "starts of the effort must be a whole number of at least 1, got 0"),
        (lambda: Effort(4, 100), "must be a multiple of 32, got 100"),
        (lambda: Effort(4, 64, sure=1.5), "between 0 and 1"),
        (lambda: Effort(4, 64, sure=float("nan")), "between 0 and 1"),
        (lambda: Effort(4, 64, stop="never"), "expected confidence or valid"),
        (lambda: Effort.parse("many"), "STARTSxSTEPS, such as 64x2048, got 'many'"),
        (lambda: Effort.parse("4x"), "STARTSxSTEPS"),
        (lambda: Effort.parse("-4x64"), "STARTSxSTEPS"),
        (lambda: adaptive.run(net(), torch.zeros(0, 81, dtype=torch.long), EFFORT), "no board to solve"),
    ],
)
def test_mistakes(make_effort: object, words: str) -> None:
    with pytest.raises((AkornError, ValueError), match=words):
        make_effort()  # type: ignore[operator]


def status(words: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def test_eval_records_the_effort(tmp_path: Path, boards: tuple[Tensor, Tensor], capsys: pytest.CaptureFixture) -> None:
    net().save_pretrained(tmp_path / "model")
    write_csv(tmp_path / "boards.csv", *map(np.asarray, boards))
    words = ["eval", str(tmp_path / "model"), "--data", str(tmp_path / "boards.csv"), "--results", str(tmp_path / "r")]
    assert status([*words, "--effort", "2x64", "--sure", "0.9", "--no-symmetries", "--device", "cpu"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "adaptive effort up to 2 starts, T ≤ 64" in shown
    assert "effort ends with confidence ≥ 0.9" in shown
    (path,) = (tmp_path / "r").glob("*.json")
    record = json.loads(path.read_text())
    config = record["config"]
    assert [config[name] for name in ("effort", "sure", "stop", "votes", "steps")] == ["2x64", 0.9, "confidence", 2, 64]
    assert config["symmetries"] is record["extra"]["effort"]["symmetries"] is False
    assert record["metrics"]["sample_steps_per_board"] == record["extra"]["effort"]["sample_steps_per_board"]
    for wrong, said in (
        (["--effort", "2x64", "--steps", "4"], "leave out --steps and --votes"),
        (["--effort", "2x64", "--vote", "sum"], "goes by confidence"),
        (["--effort", "2x50"], "multiple of 32"),
        (["--sure", "0.9"], "belong to --effort"),
        (["--effort", "2x64", "--stop", "valid", "--sure", "0.9"], "leave out --sure"),
        (["--no-symmetries"], "belong to --effort"),
        (["--no-symmetries", "--as-solve", "--votes", "2"], "belong to --effort"),
    ):
        assert status([*words, *wrong]) == 2
        assert said in capsys.readouterr().err
    assert len(list((tmp_path / "r").iterdir())) == 1


_SCRIPT = """
import sys, numpy as np, torch
torch.set_num_threads(1)
from akorn.sudoku import adaptive
from akorn.sudoku.config import SudokuConfig
from akorn.sudoku.effort import Effort
from akorn.sudoku.generate import make
from akorn.sudoku.net import build
from akorn.runtime.processes import is_main
torch.manual_seed(0)
model = build(SudokuConfig(channels=16, heads=2))
puzzles, _ = make(5, (60, 70), seed=2)
effort = Effort(4, 64, sure=float(sys.argv[2]))
found = adaptive.run(model, torch.from_numpy(np.asarray(puzzles)), effort, chunk=4)
if is_main():
    np.savez(sys.argv[1], **{name: value.numpy() for name, value in vars(found).items()})
"""


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = build(SudokuConfig(channels=16, heads=2)).eval()
    puzzles = torch.from_numpy(np.asarray(make(5, (60, 70), seed=2)[0]))
    sure = float(adaptive.run(model, puzzles, Effort(1, 64, sure=1.0)).confidence.median())
    base = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        base.pop(name, None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen([sys.executable, "-c", _SCRIPT, str(tmp_path / name), str(sure)], env={**base, **more})
        for name, more in (
            ("one.npz", {}),
            ("two.npz", {"RANK": "0", "LOCAL_RANK": "0", **shared}),
            ("none.npz", {"RANK": "1", "LOCAL_RANK": "1", **shared}),
        )
    ]
    try:
        assert [process.wait(timeout=120) for process in started] == [0, 0, 0]
    finally:
        for process in started:
            process.kill()
    assert not (tmp_path / "none.npz").exists()
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    assert set(one.files) == set(vars(Found.empty(1, torch.device("cpu"))))
    assert len(set(one["used"].tolist())) > 1
    for name in ("answer", "start", "steps", "used", "round", "valid"):
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
