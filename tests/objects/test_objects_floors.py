"""What any method must beat, and scores of pictures that the model sees smaller than their masks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.cli import main
from akorn.errors import AkornError
from akorn.objects.data.npz import write_npz
from akorn.objects.data.picture_sets import Pictures
from akorn.objects.evaluate import evaluate
from akorn.objects.floors import NAMES, Floor, blocks
from akorn.objects.metrics import mbo
from akorn.objects.segmenter import Segmenter, SegmentSettings


def halves(count: int = 3, side: int = 32) -> Pictures:
    """Pictures of two halves, left red and right blue, with the right one as the object."""
    images = np.zeros((count, 3, side, side), np.uint8)
    images[:, 0, :, : side // 2], images[:, 2, :, side // 2 :] = 200, 220
    labels = np.zeros((count, side, side), np.int16)
    labels[:, :, side // 2 :] = 1
    return Pictures(images, labels, labels.copy(), 2, "voc")


@pytest.mark.parametrize(("count", "each"), [(4, [64] * 4), (1, [256]), (2, [128, 128])])
def test_blocks_are_equal(count: int, each: list[int]) -> None:
    found = blocks(count, 16, 16)
    assert found.sum((0, 2, 3)).tolist() == each
    assert bool((found.sum(1) == 1).all())


def test_seven_blocks_are_seven() -> None:
    assert bool((blocks(7, 16, 16).sum((0, 2, 3)) >= 16 * 16 // 12).all())


def test_colours_tell_halves_apart_and_blocks_by_luck() -> None:
    data = halves()
    assert evaluate(Floor("colours"), data, 2, input=16).mbo == pytest.approx(100)
    grid = Floor("blocks")
    assert evaluate(grid, data, 4, input=16).mbo == pytest.approx(50)  # a quarter of the picture, of the half
    with pytest.raises(AkornError, match="unknown floor 'sound'"):
        Floor("sound")


def test_brightness_counts_although_features_are_normalised() -> None:
    data = halves()
    images = np.repeat(np.where(data.labels[:, None] == 1, 250, 60), 3, 1).astype(np.uint8)
    grey = Pictures(images, data.labels, None, 2, "voc")
    assert evaluate(Floor("colours"), grey, 2).mbo == pytest.approx(100)


def test_masks_keep_their_size_while_the_model_sees_less() -> None:
    data = halves(side=64)
    found = Segmenter(Floor("colours"), SegmentSettings(input=16, uptile=4))
    assert found.grid(64, 64) == (16, 16)
    assert found.segment(torch.from_numpy(data.images), 2).shape == (3, 64, 64)
    with pytest.raises(AkornError, match="input of 18 pixels cannot be cut into patches of 4"):
        Segmenter(Floor("colours"), SegmentSettings(input=18))


def test_void_pixels_count_nowhere() -> None:
    truth = torch.zeros(1, 8, 8, dtype=torch.long)
    truth[:, :4] = 1
    found = truth.clone()
    found[:, 3] = 0  # a row of the object is missed
    assert float(mbo(found, truth)) == pytest.approx(0.75)
    truth[:, 3] = -1  # but that row is void
    assert float(mbo(found, truth)) == pytest.approx(1)


@pytest.mark.parametrize("model", [*(f"floor:{name}" for name in NAMES), "untrained:photos_akorn"])
def test_floors_are_scored_by_the_command(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npz(tmp_path / "voc-test.npz", halves(side=64))
    data = tmp_path / "voc-test.npz"
    words = f"eval {model} --data {data} --clusters 2 --input 16 --device cpu --json --results {tmp_path}"
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["input"] == 16
    assert 0 <= said["mbo"] <= 100
    (record,) = tmp_path.glob("eval-*.json")
    assert json.loads(record.read_text())["name"] == model


def test_the_data_may_choose_how_many_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npz(tmp_path / "voc-test.npz", halves(side=64))
    words = f"eval floor:colours --data {tmp_path / 'voc-test.npz'} --clusters auto --device cpu --json --results None"
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["clusters"] == "auto"
    assert said["mbo"] == pytest.approx(100)
    with pytest.raises(SystemExit) as end:
        main([*words.split(), "--method", "kmeans"])
    assert end.value.code == 2
    assert "--clusters auto needs average linkage, got --method kmeans" in capsys.readouterr().err
