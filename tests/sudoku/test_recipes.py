"""Recipes and the training task: the paper's settings, and that a run learns."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.engine import train
from akorn.engine.config import check as check_train
from akorn.errors import AkornError
from akorn.sudoku.board import valid_solutions
from akorn.sudoku.board_files import write_csv
from akorn.sudoku.config import ItrSAConfig, SudokuConfig
from akorn.sudoku.config import check as check_model
from akorn.sudoku.data import SudokuData
from akorn.sudoku.generate import make
from akorn.sudoku.net import SudokuNet, build
from akorn.sudoku.recipes import RECIPES, DataConfig, SudokuRecipe, ValidConfig, sudoku_akorn, sudoku_best
from akorn.sudoku.task import SudokuTask, TrainingBoards, reveal


def small(recipe: SudokuRecipe, **train_options: object) -> SudokuRecipe:
    """A recipe that a test can run."""
    options = {"device": "cpu", "precision": "float32", "tensorboard": False, "batch_size": 8, **train_options}
    return replace(
        recipe,
        model=SudokuConfig(channels=32, heads=2, steps=2),
        train=replace(recipe.train, **options),  # type: ignore[arg-type]
        data=replace(recipe.data, count=24, givens=(36, 40)),
        valid=ValidConfig(count=3),
        steps=(1, 3) if recipe.steps else None,
    )


def test_recipes_need_no_torch() -> None:
    code = "import sys; import akorn.sudoku.recipes, akorn.models; akorn.models.list_models();"
    code += "import akorn.sudoku; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_sound_and_named_after_itself(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe.name == name
    check_train(recipe.train)
    check_model(recipe.model)
    assert SudokuTask(recipe).settings()["model"]["architecture"] == recipe.model.architecture


def test_the_papers_protocol() -> None:
    paper = sudoku_akorn()
    assert paper.model == SudokuConfig(channels=512, n=4, heads=8, blocks=1, steps=16)
    t = paper.train
    assert (t.optimiser.name, t.optimiser.learning_rate, t.optimiser.clip) == ("adam", 1e-3, 1.0)
    assert (t.batch_size, t.epochs, t.precision) == (100, 100, "tf32")
    assert (t.ema.decay, t.ema.every, t.ema.after) == (0.995, 10, 100)
    assert RECIPES["sudoku_itrsa"]().train.optimiser.learning_rate == 5e-4
    assert RECIPES["sudoku_transformer"]().model == ItrSAConfig(blocks=8, steps=1)
    assert RECIPES["sudoku_itrsa_gta"]().model == ItrSAConfig(position="gta")
    assert RECIPES["sudoku_akorn_no_omega"]().model == SudokuConfig(omega=False, step="damped")
    assert RECIPES["sudoku_akorn_rope"]().model == SudokuConfig(position="learned-rotary")
    differing = {name: RECIPES[name]().model for name in RECIPES if name.startswith("sudoku_akorn_")}
    assert len(set(differing.values())) == len(differing) >= 9  # every ablation is another model
    assert paper.model not in differing.values()


def test_the_recipe_for_a_first_try_is_small_and_the_others_advise_it() -> None:
    quick = RECIPES["sudoku_quick"]()
    assert sum(p.numel() for p in SudokuTask(quick).build_model().parameters()) < 100_000
    assert quick.train.steps is not None
    assert quick.train.steps * quick.train.batch_size * quick.model.steps < 500_000  # the paper's takes 14 million
    assert quick.train.compile == "no"
    assert quick.train.eval_every < quick.train.steps / 4  # so that learning is seen
    assert all(SudokuTask(make()).quick_recipe in RECIPES for make in RECIPES.values())


def test_revealing_spreads_the_givens() -> None:
    puzzles, solutions = make(4, (31, 31), seed=0)
    puzzle = torch.from_numpy(puzzles).long().repeat(500, 1)
    solution = torch.from_numpy(solutions).long().repeat(500, 1)
    shown = reveal(puzzle, solution, (25, 40), torch.Generator().manual_seed(0))
    assert ((shown == solution) | (shown == 0)).all()
    assert ((shown == puzzle) | (puzzle == 0)).all()  # no given is lost
    counts = (shown > 0).sum(1)
    assert counts.min() == 31
    assert counts.max() == 40
    share = float((counts == 31).float().mean())  # all that were to have 25 to 31 givens keep their 31
    assert share == pytest.approx(7 / 16, abs=0.04)
    extra = ((shown > 0) & (puzzle == 0)).float().mean(0)
    blanks = (puzzle == 0).any(0)
    assert (extra[blanks] > 0).all()  # any blank may be shown


def test_training_boards_are_turned_and_stay_sudokus() -> None:
    puzzles, solutions = make(4, (31, 35), seed=0)
    data = TrainingBoards(SudokuData(puzzles, solutions), symmetries=True, reveal=(40, 45))
    puzzle, solution = data.batch(torch.arange(4), torch.Generator().manual_seed(0))
    assert valid_solutions(solution.numpy().astype(np.uint8)).all()
    assert not torch.equal(solution, torch.from_numpy(solutions).long())
    assert ((puzzle == 0) | (puzzle == solution)).all()
    assert int((puzzle > 0).sum(1).min()) >= 40
    plain = TrainingBoards(SudokuData(puzzles, solutions), symmetries=False, reveal=None)
    torch.testing.assert_close(plain.batch(torch.arange(4), torch.Generator())[0], torch.from_numpy(puzzles).long())


def test_the_loss_is_that_of_all_squares() -> None:
    task = SudokuTask(small(sudoku_akorn()))
    torch.manual_seed(0)
    model = task.build_model()
    data = task.build_data(torch.device("cpu"))
    batch = data.batch(torch.arange(6), torch.Generator().manual_seed(0))
    loss, extra = task.loss(model, batch, torch.Generator().manual_seed(1), task.choose())
    with torch.no_grad():
        logits = model(batch[0], 2, torch.Generator().manual_seed(1))
    chosen = logits.log_softmax(-1).gather(2, batch[1][..., None] - 1)
    assert float(loss.detach()) == pytest.approx(-float(chosen.mean()), rel=1e-5)
    assert 0 <= float(extra["blank_accuracy"]) <= 1


def test_a_range_of_steps_is_drawn_from() -> None:
    task = SudokuTask(small(sudoku_best()))
    seen: list[int] = []

    class Spy(torch.nn.Module):
        def forward(self, puzzle: torch.Tensor, steps: int, generator: torch.Generator) -> torch.Tensor:
            seen.append(steps)
            return torch.zeros(len(puzzle), 81, 9)

    batch = (torch.zeros(1, 81, dtype=torch.long), torch.ones(1, 81, dtype=torch.long))
    torch.manual_seed(0)
    for _ in range(60):
        task.loss(Spy(), batch, torch.Generator(), task.choose())
    assert set(seen) == {1, 2, 3}


def test_a_small_run_learns_and_its_model_can_be_kept(tmp_path: Path) -> None:
    recipe = small(sudoku_akorn(), steps=40, log_every=1)
    result = train(SudokuTask(recipe), recipe.train, tmp_path / "run")
    assert result.loss < 1.9  # from ln 9 = 2.2: the givens can be copied
    assert 0 <= result.metrics["board_accuracy"] <= 100
    assert isinstance(result.model, SudokuNet)
    result.model.save_pretrained(tmp_path / "model")
    assert SudokuNet.from_pretrained(tmp_path / "model").config == recipe.model


def test_boards_from_files(tmp_path: Path) -> None:
    puzzles, solutions = make(12, (36, 40), seed=9)
    write_csv(tmp_path / "boards.csv", puzzles, solutions)
    recipe = replace(
        small(sudoku_akorn()),
        data=DataConfig(path=tmp_path / "boards.csv"),
        valid=ValidConfig(path=tmp_path / "boards.csv", count=5),
    )
    task = SudokuTask(recipe)
    assert len(task.build_data(torch.device("cpu"))) == 12
    assert task.fingerprint() == SudokuData(puzzles, solutions).fingerprint()
    assert str(tmp_path) not in str(task.settings())  # a record names the file, not where it lay
    assert set(task.evaluate(task.build_model())) == {"board_accuracy"}


def test_impossible_recipes_are_refused() -> None:
    for changed, words in (
        (replace(sudoku_best(), steps=(9, 3)), r"steps is \(9, 3\)"),
        (replace(sudoku_best(), data=DataConfig(reveal=(20, 99))), r"reveal is \(20, 99\)"),
        (replace(sudoku_best(), valid=ValidConfig(count=0)), r"valid\.count is 0"),
        (replace(sudoku_best(), model=SudokuConfig(n=3)), "n=3"),
    ):
        with pytest.raises(AkornError, match=words):
            SudokuTask(changed)


def test_the_hard_recipes_have_models_of_about_one_size_and_one_training() -> None:
    ours, other = RECIPES["sudoku_hard"](), RECIPES["sudoku_hard_itrsa"]()
    sizes = [sum(value.numel() for value in build(recipe.model).parameters()) for recipe in (ours, other)]
    assert abs(sizes[1] / sizes[0] - 1) < 0.1
    assert (ours.train, ours.data, ours.valid) == (other.train, other.data, other.valid)
