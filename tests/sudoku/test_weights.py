"""The weights that ship: small, with a card, and they solve."""

from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.models import create_model, list_models, shipped_folder
from akorn.sudoku import EXAMPLES, Solver
from akorn.sudoku.board import format_board
from akorn.sudoku.board_files import load_csv
from akorn.sudoku.evaluate import evaluate

BOARDS = Path(__file__).parents[3] / "shared" / "data" / "sudoku"


def test_what_ships() -> None:
    assert {"sudoku", "sudoku-base", "sudoku-paper"} <= set(list_models(pretrained=True))
    for name in ("sudoku", "sudoku-base", "sudoku-paper"):
        assert (shipped_folder(name) / "model.safetensors").stat().st_size < 8_000_000
        card = (shipped_folder(name) / "README.md").read_text(encoding="utf-8")
        for word in ("recipe", "seed", "data", "accuracy"):
            assert word in card
        model = create_model(name, pretrained=True)
        assert not model.training
        assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_the_default_solves_the_bundled_puzzles() -> None:
    answers = Solver.from_pretrained(device="cpu").solve(list(EXAMPLES.values()), steps=64, votes=2)
    for puzzle, answer in zip(EXAMPLES.values(), answers, strict=True):
        assert answer.valid
        assert not answer.conflicts
        assert all(given in ("0", digit) for given, digit in zip(puzzle, answer.board, strict=True))


def test_an_answer_does_not_depend_on_its_neighbours() -> None:
    solver = Solver.from_pretrained(device="cpu")
    together = solver.solve([EXAMPLES["easy"], EXAMPLES["medium"]], steps=16)
    alone = solver.solve(EXAMPLES["medium"], steps=16)
    assert alone.board == together[1].board
    assert alone.energy == pytest.approx(together[1].energy, rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(not BOARDS.is_dir(), reason=f"the real boards are not there: {BOARDS}")
def test_real_boards() -> None:
    """A handful of the hardest, and of the ordinary ones for the model that saw nothing else."""
    puzzles, solutions = load_csv(BOARDS / "valid-ood.csv")
    hard = np.flatnonzero((puzzles > 0).sum(1) <= 20)[::25]
    found = evaluate(create_model("sudoku", pretrained=True), puzzles[hard], solutions[hard], steps=64)
    assert found.board_accuracy >= 80
    puzzles, solutions = load_csv(BOARDS / "test-id.csv")
    found = evaluate(create_model("sudoku-paper", pretrained=True), puzzles[:16], solutions[:16], steps=32)
    assert found.board_accuracy >= 90
    assert format_board(found.answers[0]) == format_board(solutions[0])
