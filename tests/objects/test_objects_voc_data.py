"""Which pictures of Pascal VOC are for training, for validation and for testing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.cli import main
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


def test_a_folder_of_vocs_pictures_leaves_out_those_for_testing(
    voc: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = voc / "VOCdevkit/VOC2012/JPEGImages"
    (tmp_path / "link").symlink_to(pictures)
    for folder in (pictures, tmp_path / "link"):
        caplog.clear()
        assert names(load(folder, labels=False)) == ["p0", "p1", "p4"]
        said = f"{folder}: pictures left out, since VOC's val.txt keeps them for testing: 2"
        assert caplog.messages == [said]
    assert names(load(pictures, "test")) == ["p0", "p1", "p2", "p3", "p4"]
    with pytest.raises(SystemExit) as end:
        main(["data", "pack", str(pictures), str(tmp_path / "x.pack"), "--size", "16"])
    assert not end.value.code
    assert "3 pictures" in capsys.readouterr().out
    assert caplog.messages[-1].endswith("JPEGImages: pictures left out, since VOC's val.txt keeps them for testing: 2")
    assert names(load(tmp_path / "x.pack")) == ["p0", "p1", "p4"]
    for name in ("p0", "p1", "p4"):
        (pictures / f"{name}.jpg").unlink()
    with pytest.raises(AkornError, match=r"no pictures except those of VOC's val.txt, which are for testing"):
        load(pictures)
