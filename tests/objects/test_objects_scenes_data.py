"""Rendered sets: `akorn data make clevr` and the like, and training on scenes that are never stored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from akorn.cli import main
from akorn.engine.task import Foreseeing
from akorn.errors import AkornError
from akorn.objects.commands.make import Options, run
from akorn.objects.data import Pictures, generate, load
from akorn.objects.data.endless import EndlessScenes
from akorn.objects.data.npz import NpzParts
from akorn.objects.recipes import RECIPES
from akorn.objects.task import make_task
from akorn.scenes import Family, Studio


def test_files_are_what_load_renders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    assert run(Options(name="clevr", folder=folder, test=2, seed=4, device="cpu", json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {"test": str(folder / "test.npz")}
    written = load(folder, "test")
    assert isinstance(written, Pictures)
    assert written.fingerprint() == generate("clevr", "test", 2, 4).fingerprint()
    assert written.made == {
        "scenes": "clevr", "split": "test", "seed": 4, "objects": [3, 6], "samples": 16, "size": 128,
    }  # fmt: skip
    assert (written.name, written.clusters, written.images.shape) == ("clevr", 11, (2, 3, 128, 128))
    second = generate("clevr", "test", 1, 4, start=1, labels=False)
    assert (second.images[0] == written.images[1]).all()
    with np.load(folder / "test.npz") as arrays:
        assert arrays["depth"].shape == (2, 128, 128)
        assert np.abs(np.linalg.norm(arrays["normals"].astype(float), axis=1) / 127 - 1).max() < 0.02
    lines = [json.loads(line) for line in (folder / "test-scenes.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 1]
    assert written.labels is not None
    assert written.labels[0].max() <= len(lines[0]["objects"])
    assert {"shape", "size", "material", "color", "x", "y", "theta", "r"} == set(lines[0]["objects"][0])
    assert sorted(path.name for path in folder.iterdir()) == ["test-scenes.jsonl", "test.npz"]


def test_sizes_objects_and_textures(tmp_path: Path) -> None:
    options = Options(
        name="clevrtex", folder=tmp_path, count=1, size=40, objects=(2, 2), samples=1, geometry=False, device="cpu"
    )
    assert run(options) == 0
    made = load(tmp_path, "train")
    assert isinstance(made, Pictures)
    assert made.images.shape == (1, 3, 40, 40)
    with np.load(tmp_path / "train.npz") as arrays:
        assert "depth" not in arrays
    (line,) = (tmp_path / "train-scenes.jsonl").read_text().splitlines()
    assert len(json.loads(line)["objects"]) == 2
    assert "color" not in json.loads(line)["objects"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("clevr {} --size 0", "--size must be from 1 to 4,096, got 0"),
        ("clevr {} --size 1000000", "--size must be from 1 to 4,096, got 1,000,000"),
        ("clevr {} --samples 0", "--samples must be from 1 to 65,536, got 0"),
        ("clevr {} --samples 100000000", "--samples must be from 1 to 65,536, got 100,000,000"),
        ("clevr {} --objects 3 12", "objects are from 3 to 12, expected from 0 to 10"),
        ("clevr {} --count 0", "--count must be at least 1, got 0"),
        ("clevr {} --device abacus", "the device 'abacus' cannot be used"),
        ("shapes {} --objects 3 4", "--objects is for scenes that are rendered, not for shapes"),
        ("shapes {} --samples 16", "--samples is for scenes that are rendered, not for shapes"),
        ("shapes {} --no-geometry", "--no-geometry is for scenes that are rendered, not for shapes"),
        (
            "clevr {} --objects 0 0",
            "objects are from 0 to 0, expected from 0 to 10, the smaller number first, the larger",
        ),
    ],
)
def test_bad_options_are_refused(words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["data", "make", *words.format(tmp_path / "a").split()])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"akorn: {said}")
    assert not (tmp_path / "a").exists()


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AkornError("the lamp broke")

    monkeypatch.setattr("akorn.scenes.studio.colours", fail)
    with pytest.raises(AkornError, match="the lamp broke"):
        run(Options(name="clevr", folder=tmp_path, count=1, device="cpu"))
    assert list(tmp_path.iterdir()) == []


def test_arrays_grow_in_pieces(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).integers(0, 255, (7, 3, 4, 4)).astype(np.uint8)
    with NpzParts(tmp_path / "a.npz", 7, 5, "clevr") as parts:
        for low in range(0, 7, 3):
            parts.add({"images": whole[low : low + 3], "labels": np.zeros((len(whole[low : low + 3]), 4, 4), np.int8)})
    read = load(tmp_path / "a.npz")
    assert isinstance(read, Pictures)
    assert (read.images == whole).all()
    assert (read.clusters, read.name) == (5, "clevr")


@pytest.mark.skipif(sys.platform == "win32", reason="has no locks")
def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    """Arrays that another run is still writing stay."""
    killed = f"""
import os, numpy as np
from pathlib import Path
from akorn.objects.data.npz import NpzParts
path = Path({str(tmp_path / "killed.npz")!r})
with NpzParts(path, 2, 5, "clevr") as parts:
    parts.add({{"images": np.zeros((1, 3, 4, 4), np.uint8)}})
    parts.beside(path.with_suffix(".jsonl")).write_text("half a li")
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    (left,) = tmp_path.iterdir()
    assert (left / "images.npy").exists()
    with NpzParts(tmp_path / "a.npz", 1, 5, "clevr") as first:
        assert not left.exists()
        first.beside(tmp_path / "a.jsonl").write_text("whole")
        first.add({"images": np.zeros((1, 3, 4, 4), np.uint8)})
        with NpzParts(tmp_path / "b.npz", 1, 5, "clevr") as second:
            second.add({"images": np.zeros((1, 3, 4, 4), np.uint8)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.npz", "b.npz"]
    assert (tmp_path / "a.jsonl").read_text() == "whole"


def test_an_endless_set_never_repeats_and_can_go_on() -> None:
    data = EndlessScenes("clevr", seed=2, size=16, count=100, samples=1)
    assert isinstance(data, Foreseeing)
    assert len(data) == 100
    first, second = torch.tensor([3, 1]), torch.tensor([1, 3])  # the same indices in another epoch's order
    data.expect(second)
    (a,), (b,) = data.batch(first), data.batch(second)
    assert a.shape == (2, 3, 16, 16)
    assert a.dtype == torch.uint8
    assert all((x != y).any() for x in a for y in b)
    again = EndlessScenes("clevr", seed=2, size=16, count=100, samples=1)
    assert torch.equal(again.batch(second)[0], b)  # announced or not, before or after others
    assert not torch.equal(EndlessScenes("clevr", 3, size=16, count=100, samples=1).batch(second)[0], b)


def test_a_recipe_trains_on_scenes_that_are_rendered_as_it_goes(tmp_path: Path) -> None:
    recipe = RECIPES["clevr_akorn"]()
    recipe = replace(
        recipe,
        model=replace(recipe.model, image_size=16, patch=8, channels=16, heads=2, steps=1),
        data=replace(recipe.data, endless=True, count=8),
    )
    task = make_task(recipe)
    assert task.settings()["data"]["endless"] is True
    assert task.fingerprint() == make_task(recipe).fingerprint()
    other = replace(recipe, data=replace(recipe.data, seed=1))
    assert task.fingerprint() != make_task(other).fingerprint()
    stored = replace(recipe, data=replace(recipe.data, endless=False))
    assert not {"endless", "samples"} & set(make_task(stored).settings()["data"])  # as checkpoints had it before
    more = make_task(replace(recipe, data=replace(recipe.data, samples=32)))
    assert more.settings()["data"]["samples"] == 32
    assert more.fingerprint() != task.fingerprint()
    for data, said in (
        (replace(recipe.data, name="shapes", endless=False, samples=2), "data.samples is for rendered scenes .clevr"),
        (replace(recipe.data, samples=0), "data.samples is 0, expected 1 or more"),
        (replace(recipe.data, name="shapes"), "data.endless is for rendered scenes .clevr, .*not for 'shapes'"),
        (replace(recipe.data, path=tmp_path), "data.endless is for rendered scenes"),
    ):
        with pytest.raises(AkornError, match=said):
            make_task(replace(recipe, data=data))


@pytest.mark.parametrize("endless", [False, True])
def test_more_rays_for_training_pictures(endless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training pictures have `data.samples` rays per pixel, validation pictures the usual number, on one device."""
    made: list[tuple[str, str, int]] = []

    class Seen(Studio):
        def __init__(
            self, family: Family, split: str = "train", seed: int = 0, device: torch.device | str = "cpu",
            size: int = 128, samples: int = 16,
        ) -> None:  # fmt: skip
            made.append((split, str(device), samples))
            super().__init__(family, split, seed, "cpu", size, 1)

    monkeypatch.setattr("akorn.scenes.studio.Studio", Seen)
    monkeypatch.setattr("akorn.objects.data.endless.Studio", Seen)
    monkeypatch.setattr("akorn.objects.data.scenes.renderer_device", torch.device)
    bars: list[str] = []

    @contextmanager
    def bar(text: str, **_: object) -> Iterator[None]:
        bars.append(text)
        yield None

    monkeypatch.setattr("akorn.objects.task.progress_bar", bar)
    recipe = RECIPES["clevr_akorn"]()
    recipe = replace(
        recipe,
        model=replace(recipe.model, image_size=128, patch=8, channels=16, heads=2, steps=1),
        data=replace(recipe.data, endless=endless, count=1, samples=24),
        valid=replace(recipe.valid, count=1, clusters=3),
    )
    make_task(recipe).build_data(torch.device("cpu"))
    assert sorted(made) == [("train", "cpu", 24), ("valid", "cpu", 16)]
    assert "making pictures of clevr to score" in bars
    made.clear()
    for device in ("cpu", "cuda:1"):
        generate("clevr", "test", 1, device=device)
    assert [where for _, where, _ in made] == ["cpu", "cuda:1"]


@pytest.mark.slow
def test_akorn_train_renders_while_it_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "train clevr_akorn --data.endless --data.count 4 --train.epochs 2 --train.batch-size 2 --valid.count 1"
        " --valid.clusters 3 --model.image-size 32 --model.channels 16 --model.heads 2 --model.steps 1"
        f" --train.precision float32 --device cpu --out {tmp_path / 'run'} --results None --json"
    )
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == 0
    assert 0 <= json.loads(capsys.readouterr().out)["mbo"] <= 100
