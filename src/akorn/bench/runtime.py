"""AKOrN beside ItrSA and ItrConv of the same size: the run times of the paper's appendix, and the memory.

A pair of recipes for each task, with the recipes' models, batches and losses: a training step (forward, backward and
Adam, without loading data), and an answer to a batch of 100.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.bench.nets import Setup, nt_xent
from akorn.bench.work import Inputs, Loss, Mode, Piece, usual_forms
from akorn.objects.config import ObjectsRecipe
from akorn.robustness.recipes import CifarRecipe
from akorn.rooms import recipes
from akorn.sudoku.recipes import SudokuRecipe

PAIRS = (
    ("sudoku_akorn", "sudoku_itrsa"),
    ("tetrominoes_akorn", "tetrominoes_itrsa"),
    ("dsprites_akorn", "dsprites_itrsa"),
    ("dsprites_akorn_conv", "dsprites_itrconv"),
    ("shapes_akorn_l3", "shapes_itrsa_l3"),
    ("clevrtex_akorn_l2", "clevrtex_itrsa_l2"),
    ("cifar10_akorn_conv", "cifar10_itrconv"),
)
"""Recipes of the same task and size: with oscillators, and without."""

ANSWERED = 100
"""Samples in a batch of answers, as in the paper."""


def runtime(setup: Setup) -> Iterator[Piece]:
    """Each recipe of `PAIRS`, or of one pair per task if tiny: a training step, and an answer to a batch of 100."""
    pairs = PAIRS if setup.size == "full" else (PAIRS[0], PAIRS[3], PAIRS[-1])
    for recipe in (recipes()[name]() for pair in pairs for name in pair):
        for mode in ("training", "forward"):
            yield _piece(setup, recipe, mode)


def _piece(setup: Setup, recipe: Any, mode: Mode) -> Piece:
    full = setup.size == "full"
    model = recipe.model if full else _small(recipe)
    batch = 2 if not full else recipe.train.batch_size if mode == "training" else ANSWERED
    if isinstance(recipe, SudokuRecipe):
        net, inputs, loss = _sudoku(model, batch)
    elif isinstance(recipe, ObjectsRecipe):
        net, inputs, loss = _objects(model, 2 * batch if mode == "training" else batch)  # two views of each picture
    else:
        assert isinstance(recipe, CifarRecipe)
        net, inputs, loss = _cifar(model, batch)
    net = net.to(setup.device).train(mode == "training")
    inputs = tuple(part.to(setup.device) for part in inputs)
    if isinstance(recipe, CifarRecipe):  # channels are last in memory, as in training
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        inputs = (inputs[0].contiguous(memory_format=torch.channels_last), *inputs[1:])
    forms = usual_forms(
        _answer, setup.device, mode, compiled=setup.compiled, recompute=setup.recompute, network=setup.network
    )
    steps = model.steps if isinstance(model.steps, int) else max(model.steps)
    return Piece(
        "runtime", recipe.name, f"batch {batch}", getattr(model, "n", 0), steps, mode, net, inputs, forms, loss=loss,
        optimise=mode == "training", compared=False,
    )  # fmt: skip


def _answer(net: nn.Module, inputs: Inputs, steps: int) -> Tensor:
    """As many steps as were asked for, where a network takes their number; CIFAR-10's know their own."""
    from akorn.robustness.net import CifarNet

    out: Tensor = net(inputs[0]) if isinstance(net, CifarNet) else net(inputs[0], steps)
    return out


def _sudoku(model: Any, batch: int) -> tuple[nn.Module, Inputs, Loss]:
    from akorn.sudoku.net import build

    return build(model), (torch.randint(0, 10, (batch, 81)), torch.randint(0, 9, (batch, 81))), _squares


def _objects(model: Any, pictures: int) -> tuple[nn.Module, Inputs, Loss]:
    from akorn.objects.model import build

    images = torch.rand(pictures, model.image_channels, model.image_size, model.image_size)
    return build(model), (images,), nt_xent


def _cifar(model: Any, batch: int) -> tuple[nn.Module, Inputs, Loss]:
    from akorn.robustness.model import build

    return build(model), (torch.rand(batch, 3, 32, 32), torch.randint(0, 10, (batch,))), _classes


def _squares(logits: Tensor, inputs: Inputs) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), inputs[1].flatten())


def _classes(logits: Tensor, inputs: Inputs) -> Tensor:
    return F.cross_entropy(logits, inputs[1])


def _small(recipe: Any) -> Any:
    """The recipe's model, as small as it can be."""
    model = recipe.model
    if isinstance(recipe, CifarRecipe):
        return replace(model, channels=(4, 8, 8), kernels=(3, 3, 3), steps=(2, 2, 2))
    small: dict[str, Any] = {"channels": 32, "steps": 2}
    if hasattr(model, "heads"):
        small["heads"] = 2
    if isinstance(recipe, ObjectsRecipe):
        small["image_size"] = 4 * model.patch
    return replace(model, **small)
