"""Sudoku with carried states: the model's side, the task's side, and a short run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from akorn.engine import CarryConfig, train
from akorn.errors import AkornError
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, SudokuConfig
from akorn.sudoku.data import SudokuData
from akorn.sudoku.generate import make
from akorn.sudoku.model import SudokuModel
from akorn.sudoku.net import build
from akorn.sudoku.recipes import SudokuRecipe, ValidConfig, sudoku_hard
from akorn.sudoku.task import SudokuTask, TrainingBoards, inherit


def boards(count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    puzzles, solutions = make(count, (30, 40), seed=5)
    return torch.from_numpy(puzzles).long(), torch.from_numpy(solutions).long()


def small(**changes: object) -> SudokuRecipe:
    recipe = sudoku_hard()
    options = {"device": "cpu", "precision": "float32", "tensorboard": False, "batch_size": 4, "steps": 6}
    return replace(
        recipe,
        model=SudokuConfig(channels=32, heads=2, steps=2, expansion=2),
        train=replace(recipe.train, **options),
        data=replace(recipe.data, count=16, givens=(36, 40)),
        valid=ValidConfig(count=3),
        **{"init": None, **changes},
    )


@pytest.mark.parametrize("position", ["gta", "absolute"])
def test_segments_are_one_long_run(position: str) -> None:
    torch.manual_seed(0)
    model = SudokuModel(SudokuConfig(channels=32, heads=2, position=position)).double().eval()
    puzzle, _ = boards()
    x0 = torch.randn(4, 81, 32, dtype=torch.float64)
    with torch.enable_grad():
        whole = model(puzzle, 6, x0=x0)
        given = (puzzle > 0)[..., None]
        first = model.first_state(puzzle, torch.Generator().manual_seed(0))
        state = torch.where(given, first, model.on_sphere(x0))
        for _ in range(3):
            logits, state = model.carry_on(puzzle, state, 2)
    torch.testing.assert_close(logits, whole)


def test_the_first_state_is_that_of_a_run() -> None:
    model = SudokuModel(SudokuConfig(channels=32, heads=2)).eval()
    puzzle, _ = boards()
    logits = model(puzzle, 3, torch.Generator().manual_seed(4))
    carried, _ = model.carry_on(puzzle, model.first_state(puzzle, torch.Generator().manual_seed(4)), 3)
    torch.testing.assert_close(carried, logits)


def test_a_board_is_done_when_its_blanks_are_right() -> None:
    task, (puzzle, solution) = SudokuTask(small()), boards()
    logits = torch.nn.functional.one_hot(solution - 1, 9).float() * 20
    given = int((puzzle[1] > 0).nonzero()[0])
    blank = int((puzzle[2] == 0).nonzero()[0])
    logits[1, given] = logits[1, given].roll(1)  # a wrong given does not matter
    logits[2, blank] = logits[2, blank].roll(1)  # a wrong blank does
    _, solved, share = task._score(logits, puzzle, solution)
    assert solved.tolist() == [True, True, False, True]
    assert 0.9 < float(share) < 1


def test_the_loss_of_blanks_ignores_the_givens() -> None:
    puzzle, solution = boards()
    logits = torch.randn(4, 81, 9)
    task = SudokuTask(small(loss="blanks"))
    blank = puzzle == 0
    wanted = torch.nn.functional.cross_entropy(logits[blank], solution[blank] - 1)
    torch.testing.assert_close(task._score(logits, puzzle, solution)[0], wanted)
    every = torch.nn.functional.cross_entropy(logits.flatten(0, 1), solution.flatten() - 1)
    torch.testing.assert_close(SudokuTask(small())._score(logits, puzzle, solution)[0], every)


def test_noise_keeps_the_state_on_the_sphere_and_changes_it() -> None:
    torch.manual_seed(0)
    task = SudokuTask(small(noise=0.3))
    model = task.build_model()
    batch = boards()
    generator = torch.Generator().manual_seed(0)
    state = task.begin(model, batch, generator)
    noisy = task.segment(model, batch, state, generator, 1).state[0]
    calm = SudokuTask(small()).segment(model, batch, state, generator, 1).state[0]
    lengths = noisy.unflatten(-1, (-1, 4)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    assert not torch.allclose(noisy, calm)


def test_a_share_of_the_boards_is_revealed() -> None:
    puzzle, solution = boards(64)
    data = SudokuData(puzzle.numpy(), solution.numpy())
    drawn = TrainingBoards(data, False, (60, 60), revealed=0.25)
    seen, _ = drawn.batch(torch.arange(64), torch.Generator().manual_seed(0))
    shown = ((seen > 0).sum(1) == 60).float().mean()
    assert 0.1 < shown < 0.45
    assert torch.equal(seen[(seen > 0).sum(1) < 60], puzzle[(seen > 0).sum(1) < 60])


def test_weights_are_inherited_with_and_without_an_mlp(tmp_path: Path) -> None:
    torch.manual_seed(0)
    old = SudokuModel(SudokuConfig(channels=32, heads=2)).eval()
    old.save_pretrained(tmp_path / "old")
    puzzle, _ = boards()
    new = SudokuModel(SudokuConfig(channels=32, heads=2, expansion=2)).eval()
    inherit(new, str(tmp_path / "old"))
    x0 = torch.randn(4, 81, 32)
    with torch.no_grad():  # the MLP starts as nothing
        torch.testing.assert_close(new(puzzle, 3, x0=x0), old(puzzle, 3, x0=x0), rtol=2e-2, atol=2e-2)
    wider = SudokuModel(SudokuConfig(channels=64, heads=2))
    with pytest.raises(AkornError, match=r"has shape \[.*\], expected \["):
        inherit(wider, str(tmp_path / "old"))
    without = SudokuModel(SudokuConfig(channels=32, heads=2, omega=False))
    with pytest.raises(AkornError, match="the recipe's model does not have"):
        inherit(without, str(tmp_path / "old"))


def test_a_short_run_learns_something_and_says_what_it_was(tmp_path: Path) -> None:
    result = train(SudokuTask(small(noise=0.1)), small().train, tmp_path / "run")
    assert result.steps == 6
    settings = SudokuTask(small(noise=0.1)).settings()
    assert settings["noise"] == 0.1
    assert settings["model"]["expansion"] == 2
    assert "loss" not in settings  # as in runs from before there was a choice


def test_bad_settings_get_one_line() -> None:
    for changes, message in (
        ({"noise": -1.0}, "noise is -1.0, expected from 0 to 10"),
        ({"loss": "givens"}, "loss is 'givens', expected squares or blanks"),
        ({"train": replace(small().train, carry=CarryConfig()), "noise": 0.1}, "noise acts on carried states"),
        ({"data": replace(small().data, revealed=1.5)}, r"data\.revealed is 1\.5, expected from 0 to 1"),
        ({"init": "nothing"}, "nothing"),
        ({"model": ItrSAConfig(blocks=2)}, "itrsa with several blocks has no state that can be carried on"),
        ({"model": EnergyTransformerConfig()}, "but energy-transformer has no state"),
    ):
        with pytest.raises(AkornError, match=message):
            SudokuTask(replace(small(), **changes))
    silent = build(EnergyTransformerConfig(channels=32, heads=2, memories=16))
    with pytest.raises(AkornError, match="energy-transformer has no state that can be carried on"):
        silent.first_state(boards()[0])


def test_itrsa_carries_its_state_too() -> None:
    torch.manual_seed(0)
    model = build(ItrSAConfig(channels=32, heads=2)).double().eval()
    puzzle, _ = boards()
    state = model.first_state(puzzle)
    for _ in range(2):
        logits, state = model.carry_on(puzzle, state, 3)
    torch.testing.assert_close(logits, model(puzzle, 6))
    deep = build(ItrSAConfig(channels=32, heads=2, blocks=2))
    with pytest.raises(AkornError, match="a model of 2 blocks"):
        deep.first_state(puzzle)


def test_itrsa_can_start_at_random_so_that_it_can_vote() -> None:
    torch.manual_seed(0)
    model = build(ItrSAConfig(channels=32, heads=2, start="random")).eval()
    assert model.random_start
    puzzle, _ = boards()
    x0 = torch.randn(2, 4, 81, 32)
    one, two = (model(puzzle, 2, x0=x) for x in x0)
    assert not torch.allclose(one, two)
    torch.testing.assert_close(one, model(puzzle, 2, x0=x0[0]))
    first = model.first_state(puzzle, torch.Generator().manual_seed(0))
    usual = build(ItrSAConfig(channels=32, heads=2))
    usual.load_state_dict(model.state_dict())
    given = puzzle > 0
    assert torch.equal(first[given], usual.first_state(puzzle)[given])  # only the blanks are random
    assert not usual.random_start
