"""`akorn eval` on any number of generated pictures: the standard errors of its scores, printed and in records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.objects.config import AkornConfig
from akorn.objects.data import generate
from akorn.objects.model import build

from .conftest import Akorn, assert_refused


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """`akorn eval` of a tiny model that says it was trained on Tetrominoes, which are therefore its data."""
    torch.manual_seed(0)
    folder = tmp_path / "tetrominoes_akorn"
    build(AkornConfig(image_size=32, patch=8, channels=16, heads=2, steps=8)).save_pretrained(folder)
    (folder / "training.json").write_text('{"recipe": "tetrominoes_akorn", "seed": 3, "overrides": {}}')
    return ["eval", "tetrominoes_akorn", "--device", "cpu"]


def test_more_pictures_than_the_paper_has_and_their_errors(
    akorn_here: Akorn, words: list[object], tmp_path: Path
) -> None:
    scored = akorn_here(*words, "--limit", 330, "--json")
    assert scored.returncode == 0, scored.stderr
    told = json.loads(scored.stdout)
    assert (told["pictures"], told["data"]) == (330, "tetrominoes")
    assert all(isinstance(told[name], float) for name in ("fg_ari", "mbo"))
    assert 0 < told["fg_ari_error"] < 3
    assert 0 < told["mbo_error"] < 3
    (record,) = (tmp_path / "results").iterdir()
    kept = json.loads(record.read_text())
    assert kept["metrics"].keys() == {"fg_ari", "mbo", "fg_ari_error", "mbo_error", "seconds"}
    assert kept["metrics"]["fg_ari_error"] == told["fg_ari_error"]
    assert kept["config"]["pictures"] == 330
    assert not any("error" in key for key in kept["config"])

    page = akorn_here("results", "--out", "-").stdout
    assert f"\n| {told['fg_ari']:.2f} (1) | {told['mbo']:.2f} (1) |" in page


def test_the_print_says_how_exact_it_is(akorn_here: Akorn, words: list[object]) -> None:
    many = akorn_here(*words, "--limit", 6).stdout.splitlines()
    assert re.fullmatch(r"FG-ARI -?\d+\.\d ± \d+\.\d  MBO \d+\.\d ± \d+\.\d", many[0])
    assert many[1].startswith("tetrominoes: 6 pictures, 4 clusters")
    assert "standard error" in many[2]
    one = akorn_here(*words, "--limit", 1).stdout
    assert re.match(r"FG-ARI -?\d+\.\d  MBO \d+\.\d\n", one)
    assert "±" not in one


@pytest.mark.slow
def test_pictures_of_other_sizes(akorn: Akorn, akorn_here: Akorn, words: list[object], tmp_path: Path) -> None:
    made = generate("tetrominoes", "test", 4)
    assert made.labels is not None
    wide = [(0, 0), (0, 1), (0, 3)]
    np.savez(
        tmp_path / "tetrominoes-33.npz", images=np.pad(made.images, [(0, 0), *wide]), labels=np.pad(made.labels, wide)
    )
    words += ["--data", "tetrominoes-33.npz", "--results", "None"]
    assert_refused(
        akorn_here(*words),
        "pictures of 33 × 35 pixels cannot be cut into patches of 8 × 8",
        "with --size 32, the size in training",
    )
    assert_refused(akorn_here(*words, "--size", 32, "--fit", "refuse"), "the picture is 35×33, expected 32×32")
    scored = akorn(*words, "--size", 32)
    assert scored.returncode == 0, scored.stderr
    assert scored.stderr.splitlines() == [
        "tetrominoes-33.npz: read as tetrominoes because of its name: 4 clusters,"
        " unless --clusters or a key `clusters` says otherwise",
        "tetrominoes: 4 of 4 pictures resized from 35×33 to 32×32, the largest square in the middle of each",
    ]
    whole = akorn_here(*words, "--size", 32, "--fit", "stretch", "--results", "here")
    assert whole.returncode == 0, whole.stderr
    (record,) = (tmp_path / "here").iterdir()
    assert json.loads(record.read_text())["config"]["fit"] == "stretch"


def test_one_more_cluster_than_objects_whatever_their_numbers(
    akorn_here: Akorn, words: list[object], tmp_path: Path
) -> None:
    made = generate("tetrominoes", "test", 3)
    assert made.labels is not None
    np.savez(tmp_path / "fruit.npz", images=made.images, labels=made.labels * 60)
    scored = akorn_here(*words, "--data", "fruit.npz", "--results", "None", "--json")
    assert json.loads(scored.stdout)["clusters"] == 4
    assert "read as" not in scored.stderr


def test_pictures_that_fit_no_memory(akorn_here: Akorn, words: list[object], tmp_path: Path) -> None:
    refused = akorn_here(*words, "--limit", 10**9)
    assert_refused(refused, "1,000,000,000 pictures of tetrominoes", "ask for fewer")
    assert not (tmp_path / "results").exists()
