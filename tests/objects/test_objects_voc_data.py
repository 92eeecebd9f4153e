"""Which pictures of Pascal VOC are for training, for validation and for testing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.errors import AkornError
from akorn.objects.data import load
from akorn.objects.data.picture_files import FileSet
from akorn.objects.recipes import tetrominoes_akorn
from akorn.objects.task import make_task


def names(found: object) -> list[str]:
    assert isinstance(found, FileSet)
    return [path.stem for path in found.paths]


def test_training_without_labels_takes_all_photographs_but_those_for_testing(voc: Path) -> None:
    assert names(load(voc, labels=False)) == ["p0", "p1", "p4"]
    assert names(load(voc, limit=1, labels=False)) == ["p0"]
    assert names(load(voc)) == ["p0", "p1"]  # with masks
    (voc / "VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt").unlink()
    with pytest.raises(AkornError, match=r"val.txt does not exist: it names the photographs that are for testing"):
        load(voc, labels=False)


def test_training_is_scored_on_pictures_that_are_not_for_testing(voc: Path) -> None:
    assert names(load(voc, "valid")) == ["p0", "p1"]
    assert names(load(voc, "test")) == ["p2", "p3"]
    recipe = tetrominoes_akorn()
    beside = make_task(replace(recipe, data=replace(recipe.data, path=voc)))
    beside.build_data(torch.device("cpu"))
    given = make_task(replace(recipe, valid=replace(recipe.valid, path=voc)))
    for task in (beside, given):
        assert names(task._validation()) == ["p0", "p1"]
    scored = beside._validation()
    assert scored is not None
    labels = scored.load([0]).labels
    assert labels is not None
    assert np.unique(labels).tolist() == [-1, 0, 1, 2]


def test_training_is_not_scored_without_a_list_of_pictures_with_masks(
    voc: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (voc / "VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt").unlink()
    recipe = tetrominoes_akorn()
    task = make_task(replace(recipe, data=replace(recipe.data, path=voc)))
    assert task._validation() is None
    assert "nothing is scored during training" in caplog.messages[-1]
    assert "train.txt does not exist" in caplog.messages[-1]
