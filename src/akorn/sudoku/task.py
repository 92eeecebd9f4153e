"""Sudoku as a task of the training engine: cross-entropy on all 81 squares."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from akorn.engine.carried import Segment
from akorn.engine.task import Batch, Task
from akorn.errors import AkornError
from akorn.models import check_there, load_model
from akorn.runtime.progress import progress_bar
from akorn.settings import as_json
from akorn.sudoku.config import EnergyTransformerConfig, ItrSAConfig, check
from akorn.sudoku.data import SudokuData, load
from akorn.sudoku.evaluate import evaluate
from akorn.sudoku.net import SudokuNet, build
from akorn.sudoku.recipes import SudokuRecipe
from akorn.sudoku.symmetry import Symmetries
from akorn.sudoku.voting import Precision

_LATER: dict[str, Any] = {
    "loss": "squares", "noise": 0.0, "init": None, "revealed": 1.0, "expansion": None, "gradient_steps": None,
    "start": "embedding",
}  # fmt: skip
"""Settings that came later, with their values for older runs."""


class TrainingBoards:
    """The training set: boards on the device, with digits revealed and symmetries drawn at every access."""

    def __init__(
        self, data: SudokuData, symmetries: bool, reveal: tuple[int, int] | None, revealed: float = 1.0
    ) -> None:
        self.data, self.reveal, self.revealed = data, reveal, revealed
        self.symmetries = Symmetries() if symmetries else None

    def __len__(self) -> int:
        return len(self.data)

    def batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """Puzzle and solution, int64 [B, 81] each."""
        puzzle, solution = self.data.batch(indices)
        if self.reveal is not None:
            shown = reveal(puzzle, solution, self.reveal, generator)
            if self.revealed < 1:
                chosen = torch.rand(len(puzzle), 1, generator=generator, device=puzzle.device) < self.revealed
                shown = torch.where(chosen, shown, puzzle)
            puzzle = shown
        if self.symmetries is not None:
            puzzle, solution = self.symmetries(puzzle, solution, generator)
        return puzzle, solution


def reveal(puzzle: Tensor, solution: Tensor, givens: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Fill blanks at random with digits of the solution, up to a number of givens drawn from the range; [B, 81].

    A board that already has as many is left unchanged.
    """
    low, high = givens
    wanted = torch.randint(low, high + 1, (len(puzzle), 1), generator=generator, device=puzzle.device)
    # Givens rank first, then the blanks in random order; squares that rank below `wanted` are shown.
    score = torch.rand(puzzle.shape, generator=generator, device=puzzle.device) - 2.0 * (puzzle > 0)
    rank = score.argsort(1).argsort(1)
    return torch.where((rank < wanted) | (puzzle > 0), solution, 0)


class SudokuTask(Task):
    """A recipe, for `akorn.engine.train`."""

    def __init__(self, recipe: SudokuRecipe) -> None:
        _check(recipe)
        self.name = recipe.name
        self.recipe = recipe
        self._data: SudokuData | None = None
        self._valid: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None

    def settings(self) -> Mapping[str, Any]:
        """Model, data and range of T as JSON values."""
        data = asdict(self.recipe.data)
        del data["workers"]  # does not change the boards
        path = self.recipe.data.path
        data["path"] = path.name if path is not None else None  # the fingerprint identifies the data, wherever it lies
        recipe = self.recipe
        steps = list(recipe.steps) if recipe.steps else None
        later = {"loss": recipe.loss, "noise": recipe.noise, "init": recipe.init and Path(recipe.init).name}
        return {"model": _told(as_json(recipe.model)), "data": _told(data), "steps": steps, **_told(later)}

    def fingerprint(self) -> str:
        """SHA-256 of the boards."""
        return self._boards(torch.device("cpu")).fingerprint()

    def build_model(self) -> nn.Module:
        """The recipe's model, with the weights of `init` if it names some."""
        model = build(self.recipe.model)
        if self.recipe.init is not None:
            inherit(model, self.recipe.init)
        return model

    def build_data(self, device: torch.device) -> TrainingBoards:
        """The training set on the device."""
        options = self.recipe.data
        if self.recipe.valid.path is not None:
            self._validation()  # a mistyped path fails now, not after hours of training
        return TrainingBoards(self._boards(device), options.symmetries, options.reveal, options.revealed)

    def choose(self) -> int | None:
        """The number of steps T, if the recipe has a range."""
        if self.recipe.steps is None:
            return None
        low, high = self.recipe.steps
        return int(torch.randint(low, high + 1, ()))

    def loss(
        self, model: nn.Module, batch: Batch, generator: torch.Generator, choice: Hashable
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy over all squares; the share of correct blanks is logged as a curve."""
        logits: Tensor = model(batch[0], choice, generator)
        loss, _, share = self._score(logits, *batch)
        return loss, {"blank_accuracy": share}

    def begin(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> tuple[Tensor]:
        """The first states of boards, if states are carried."""
        assert isinstance(model, SudokuNet)
        return (model.first_state(batch[0], generator),)

    def segment(
        self, model: nn.Module, batch: Batch, state: tuple[Tensor, ...], generator: torch.Generator, choice: Hashable
    ) -> Segment:
        """The model's steps from the boards' states. A board is done when all its blanks are right."""
        assert isinstance(model, SudokuNet)
        (x,) = state
        if self.recipe.noise:
            noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
            x = model.on_sphere(x + self.recipe.noise * noise)
        assert choice is None or isinstance(choice, int)
        logits, x = model.carry_on(batch[0], x, choice)
        loss, solved, share = self._score(logits, *batch)
        return Segment(loss, (x,), solved, {"blank_accuracy": share})

    def _score(self, logits: Tensor, puzzle: Tensor, solution: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, which boards are solved, [B], and the share of correct blanks."""
        blank = puzzle == 0
        target = solution - 1
        if self.recipe.loss == "blanks":
            target = torch.where(blank, target, -100)  # which cross_entropy ignores
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        with torch.no_grad():
            right = (logits.argmax(-1) + 1 == solution) & blank
            share = right.sum() / blank.sum().clamp_min(1)
        return loss, (right | ~blank).all(1), share

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Board accuracy on the validation boards."""
        assert isinstance(model, SudokuNet)
        options = self.recipe.valid
        puzzles, solutions = self._validation()
        trained = self.recipe.train.precision
        precision: Precision = "float32" if trained == "fp16" else trained
        found = evaluate(model, puzzles, solutions, steps=options.steps, precision=precision, compile=False)
        return {"board_accuracy": found.board_accuracy}

    @property
    def compiles_on_cpu(self) -> bool:
        """Compiling pays off for Kuramoto steps."""
        return self.recipe.model.architecture.startswith("akorn")

    @property
    def quick_recipe(self) -> str:
        """The recipe for a first try."""
        return "sudoku_quick"

    def compile(self, model: nn.Module) -> None:
        """Compile one step instead of the loop: equally fast, and much faster to compile."""
        assert isinstance(model, SudokuNet)
        model.compile_step(dynamic=False)

    def _boards(self, device: torch.device) -> SudokuData:
        if self._data is None:
            options = self.recipe.data
            with progress_bar(f"{options.count} training boards", wanted=options.path is None) as progress:
                boards = load(
                    options.path,
                    count=options.count,
                    givens=options.givens,
                    seed=options.seed,
                    workers=options.workers,
                    progress=progress,
                )
            self._data = SudokuData(*boards, device=device)
        return self._data

    def _validation(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        if self._valid is None:
            options, data = self.recipe.valid, self.recipe.data
            if options.path is None:
                # Seeds of the generator are unrelated, so these boards differ from the training boards.
                self._valid = load(None, count=options.count, givens=data.givens, seed=data.seed + 1_000_003)
            else:
                puzzles, solutions = load(options.path)
                chosen = np.linspace(0, len(puzzles) - 1, min(options.count, len(puzzles))).round().astype(int)
                self._valid = puzzles[chosen], solutions[chosen]
        return self._valid


def inherit(model: SudokuNet, init: str) -> None:
    """Put the weights of a shipped model or a folder into a model; what these do not have stays as it is.

    An attention inside a `FeedForwardCoupling` takes the weights of one without an MLP.
    """
    here = model.state_dict()
    for name, value in load_model(init).state_dict().items():
        inner = name.replace(".coupling.", ".coupling.coupling.", 1)
        place = name if name in here else inner
        if place not in here:
            raise AkornError(f"init is {init}, whose {name!r} the recipe's model does not have")
        if value.shape != here[place].shape:
            shapes = f"{list(value.shape)}, expected {list(here[place].shape)}"
            raise AkornError(f"init is {init}, whose {name!r} has shape {shapes}")
        here[place] = value
    model.load_state_dict(here)


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that came later and have their old value: older checkpoints do not name them."""
    return {name: value for name, value in settings.items() if name not in _LATER or _LATER[name] != value}


def make_task(recipe: SudokuRecipe) -> SudokuTask:
    """The recipe as a task of the training loop."""
    return SudokuTask(recipe)


def _check(recipe: SudokuRecipe) -> None:
    check(recipe.model)
    for name, pair, least, most in (("steps", recipe.steps, 1, 10_000), ("reveal", recipe.data.reveal, 0, 81)):
        if pair is not None and not least <= pair[0] <= pair[1] <= most:
            raise AkornError(f"{name} is {pair}, expected two numbers from {least} to {most}, the smaller one first")
    for name, value, fine, expected in (
        ("data.revealed", recipe.data.revealed, 0 <= recipe.data.revealed <= 1, "from 0 to 1"),
        ("noise", recipe.noise, 0 <= recipe.noise < 10, "from 0 to 10"),
        ("loss", recipe.loss, recipe.loss in ("squares", "blanks"), "squares or blanks"),
    ):
        if not fine:
            raise AkornError(f"{name} is {value!r}, expected {expected}")
    segments, model = recipe.train.carry.segments, recipe.model
    deep = isinstance(model, ItrSAConfig) and model.blocks > 1
    if segments is not None and (deep or isinstance(model, EnergyTransformerConfig)):
        what = f"{model.architecture} with several blocks" if deep else model.architecture
        raise AkornError(f"carry.segments is {segments}, but {what} has no state that can be carried on")
    if recipe.init is not None:
        check_there(recipe.init)  # before boards are generated
    if recipe.noise and segments is None:
        raise AkornError("noise acts on carried states: set train.carry.segments")
    if recipe.valid.count < 1:
        raise AkornError(f"valid.count is {recipe.valid.count}, expected 1 or more")
