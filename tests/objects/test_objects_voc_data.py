"""Which pictures of Pascal VOC are for training, for validation and for testing."""

from __future__ import annotations

from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.objects.data import load
from akorn.objects.data.picture_files import FileSet


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
