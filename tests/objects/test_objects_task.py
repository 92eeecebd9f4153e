"""Object discovery as a task: a small run from end to end, what the loss sees, where pictures and weights come from."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.augment import AugmentConfig, two_views
from akorn.engine import scalars, train
from akorn.engine.contrastive import nt_xent
from akorn.engine.loop import home_of_order
from akorn.engine.task import Foreseeing
from akorn.errors import AkornError
from akorn.objects.data import StreamedData, generate, load, write_npz
from akorn.objects.model import ObjectsNet
from akorn.objects.recipes import ObjectsRecipe, shapes_akorn_l1, tetrominoes_akorn, tetrominoes_itrconv
from akorn.objects.task import ObjectsTask, StreamedPictures, TrainingPictures, make_task, start_from

CPU = torch.device("cpu")


def small(recipe: ObjectsRecipe, **train_options: object) -> ObjectsRecipe:
    """A recipe that runs in a second or two."""
    model = replace(recipe.model, channels=16, steps=2)
    if hasattr(model, "heads"):
        model = replace(model, heads=2)
    options = {"steps": 4, "batch_size": 8, "device": "cpu", "log_every": 1, "tensorboard": False, **train_options}
    return replace(
        recipe,
        model=model,
        train=replace(recipe.train, **options),
        data=replace(recipe.data, count=32),
        valid=replace(recipe.valid, count=4),
    )


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("recipe", [tetrominoes_akorn, tetrominoes_itrconv, shapes_akorn_l1])
def test_a_recipe_trains_and_is_scored(recipe, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    chosen = small(recipe())
    result = train(make_task(chosen), chosen.train, tmp_path / "run", results=tmp_path / "results")
    assert set(result.metrics) == {"fg_ari", "mbo"}
    assert 0 <= result.metrics["mbo"] <= 100
    assert math.isfinite(result.loss)
    assert result.record is not None


def test_training_teaches_to_tell_pictures_apart(tmp_path: Path) -> None:
    recipe = small(tetrominoes_akorn(), steps=60)
    mild = AugmentConfig(scale=(0.6, 1.0), hue=0.0, grey=0.0)
    recipe = replace(recipe, data=replace(recipe.data, count=8, augment=mild))
    train(make_task(recipe), recipe.train, tmp_path)
    losses = [row["loss"] for row in scalars.read(tmp_path) if "loss" in row]
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:5])


def test_a_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    recipe = small(tetrominoes_akorn(), steps=6, checkpoint_every=3)
    whole = train(make_task(recipe), recipe.train, tmp_path / "whole")
    train(make_task(recipe), replace(recipe.train, steps=3), tmp_path / "piece")
    resumed = train(make_task(recipe), recipe.train, tmp_path / "piece", resume=True)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_loss_is_that_of_two_views() -> None:
    recipe = small(tetrominoes_akorn())
    task = make_task(recipe)
    torch.manual_seed(0)
    model, data = task.build_model(), task.build_data(CPU)
    batch = data.batch(torch.arange(5), torch.Generator())
    assert (batch[0].dtype, batch[0].shape) == (torch.uint8, (5, 3, 32, 32))
    loss, extra = task.loss(model, batch, torch.Generator().manual_seed(3), None)
    generator = torch.Generator().manual_seed(3)
    first, second = model(two_views(batch[0], AugmentConfig(), generator), None, generator).chunk(2)
    torch.testing.assert_close(loss, nt_xent(first, second, temperature=0.1))
    assert -1 <= extra["similarity"] <= 1
    hot = ObjectsTask(replace(recipe, temperature=10.0)).loss(model, batch, torch.Generator().manual_seed(3), None)[0]
    assert hot.item() == pytest.approx(math.log(9), abs=0.05)  # hardly any difference between views


def test_bfloat16_autocast_trains(tmp_path: Path) -> None:
    recipe = small(tetrominoes_akorn(), precision="bf16", steps=2)
    assert math.isfinite(train(make_task(recipe), recipe.train, tmp_path).loss)


def test_only_the_model_that_is_trained_is_compiled() -> None:
    task = make_task(small(tetrominoes_akorn()))
    model = task.build_model()
    assert isinstance(model, ObjectsNet)
    task.compile(model.eval())
    assert not model.compiled
    task.compile(model.train())
    assert model.compiled


def test_a_folder_of_pictures_trains_without_scores(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (9, 40, 50, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    recipe = small(tetrominoes_akorn(), steps=1)
    recipe = replace(recipe, data=replace(recipe.data, path=folder))
    with caplog.at_level(logging.WARNING):
        result = train(make_task(recipe), recipe.train, tmp_path / "run")
    assert result.metrics == {}
    assert "9 of 9 pictures resized from 50×40 to 32×32" in caplog.messages[0]
    assert "have no masks" in caplog.messages[1]
    assert len(caplog.messages) == 2
    refusing = replace(recipe, data=replace(recipe.data, fit="refuse"))
    with pytest.raises(AkornError, match="the picture is 50×40, expected 32×32"):
        make_task(refusing).build_data(CPU)
    assert make_task(refusing).settings()["data"]["fit"] == "refuse"
    assert "fit" not in make_task(recipe).settings()["data"]  # so that older checkpoints can be gone on from
    (folder / "8.png").write_text("no picture")
    with pytest.raises(AkornError, match=r"8.png: not a picture"):
        make_task(recipe).fingerprint()  # before anything is trained, and whether or not all are read before


def test_other_sizes_of_validation_pictures_are_fitted_alike(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_npz(tmp_path / "v.npz", generate("shapes", "valid", 4))
    recipe = small(tetrominoes_akorn())
    recipe = replace(recipe, valid=replace(recipe.valid, path=tmp_path / "v.npz"))
    make_task(recipe).build_data(CPU)
    assert caplog.messages == ["shapes: 4 of 4 pictures resized from 40×40 to 32×32"]
    with pytest.raises(AkornError, match="the picture is 40×40, expected 32×32"):
        make_task(replace(recipe, data=replace(recipe.data, fit="refuse"))).build_data(CPU)


def test_a_file_of_pictures_is_trained_on_and_scored(tmp_path: Path) -> None:
    write_npz(tmp_path / "mine.npz", generate("tetrominoes", "train", 16, seed=3))
    recipe = small(tetrominoes_akorn(), steps=1)
    recipe = replace(recipe, data=replace(recipe.data, path=tmp_path / "mine.npz"))
    task = make_task(recipe)
    result = train(task, recipe.train, tmp_path / "run")
    assert "fg_ari" in result.metrics
    assert len(task.build_data(CPU)) == 16
    other = replace(recipe, data=replace(recipe.data, count=9))
    assert task.fingerprint() != make_task(other).fingerprint()


def test_pictures_that_do_not_fit_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    recipe = small(tetrominoes_akorn())
    recipe = replace(recipe, data=replace(recipe.data, path=tmp_path))
    whole = train(make_task(recipe), recipe.train, tmp_path / "whole")
    monkeypatch.setattr("akorn.objects.task.to_device", lambda pictures, device: StreamedData(pictures, device))
    expected: list[list[int]] = []
    monkeypatch.setattr(StreamedPictures, "expect", lambda self, indices: expected.append(indices.tolist()))
    streamed = train(make_task(recipe), recipe.train, tmp_path / "streamed")
    for a, b in zip(whole.model.parameters(), streamed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert len(expected) == 2 + 2 + 1  # of four steps, the two that follow each
    assert isinstance(StreamedPictures(None), Foreseeing)  # type: ignore[arg-type]


def test_the_host_has_the_numbers_of_pictures_that_it_reads() -> None:
    """On the device, every step would have to wait for them."""
    gpu = torch.device("cuda")
    assert home_of_order(StreamedPictures(None), gpu) == CPU  # type: ignore[arg-type]
    assert home_of_order(TrainingPictures(None), gpu) == gpu  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_streams_train_on_the_gpu_by_numbers_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    recipe = small(tetrominoes_akorn(), device="cuda")
    recipe = replace(recipe, data=replace(recipe.data, path=tmp_path))
    monkeypatch.setattr("akorn.objects.task.to_device", lambda pictures, device: StreamedData(pictures, device))
    places = []
    read = StreamedData.__getitem__
    monkeypatch.setattr(StreamedData, "__getitem__", lambda self, at: (places.append(at.device), read(self, at))[1])
    assert math.isfinite(train(make_task(recipe), recipe.train, tmp_path / "run").loss)
    assert places == [CPU] * 4


def test_weights_to_start_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small(tetrominoes_akorn())
    torch.manual_seed(1)
    source = make_task(recipe).build_model().eval()
    assert isinstance(source, ObjectsNet)
    mine = str(tmp_path / "mine")
    source.save_pretrained(mine, dtype="float32")
    monkeypatch.setattr("akorn.rooms.ROOMS", ("objects",))
    same = make_task(replace(recipe, init=mine)).build_model()
    assert all(torch.equal(a, b) for a, b in zip(same.state_dict().values(), source.state_dict().values(), strict=True))
    told = make_task(replace(recipe, init=mine)).settings()["init"]
    assert len(told) == 64  # a digest, not a place on this machine
    assert make_task(replace(recipe, init="shapes")).settings()["init"] == "shapes"
    larger = replace(recipe, init=mine, model=replace(recipe.model, image_size=64, gamma=0.25))
    model = make_task(larger).build_model().eval()
    assert isinstance(model, ObjectsNet)
    assert model.grid == (16, 16)
    assert {float(value) for name, value in model.state_dict().items() if name.endswith("gamma")} == {0.25}
    assert torch.equal(model.patches.map.weight, source.patches.map.weight)
    with pytest.raises(AkornError, match="not 'itrconv'"):
        start_from(make_task(small(tetrominoes_itrconv())).build_model(), mine)  # type: ignore[arg-type]
    with pytest.raises(AkornError, match="mine: tensor"):
        make_task(replace(recipe, init=mine, model=replace(recipe.model, channels=32))).build_model()


def test_what_cannot_be_scored_shows_before_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = small(tetrominoes_akorn())
    bare = tmp_path / "bare.npz"
    np.savez(bare, images=generate("tetrominoes", "valid", 4).images)
    wrong = [(replace(recipe.valid, path=bare), "no masks"), (replace(recipe.valid, clusters=0), "clusters is 0")]
    wrong += [(replace(recipe.valid, clusters=65), "from 1 to 64"), (replace(recipe.valid, path=tmp_path / "x"), "x")]
    for valid, message in wrong:
        with pytest.raises(AkornError, match=message):
            make_task(replace(recipe, valid=valid)).build_data(CPU)
    make_task(replace(recipe, valid=replace(recipe.valid, clusters=65, uptile=2))).build_data(CPU)
    cut = tmp_path / "cut.npz"
    cut.write_bytes(bare.read_bytes()[:500])
    with caplog.at_level(logging.WARNING), pytest.raises(AkornError, match="truncated"):
        make_task(replace(recipe, data=replace(recipe.data, path=cut))).build_data(CPU)
    assert not caplog.records  # said once, not also as a lack of validation pictures


def test_generated_pictures_are_other_ones_for_validation() -> None:
    task = make_task(small(tetrominoes_akorn()))
    train_set, valid = task._training().load(range(4)), task._validation()
    assert valid is not None
    assert not np.array_equal(train_set.images, valid.load(range(4)).images)
    assert load("tetrominoes", "valid", limit=4).fingerprint() == valid.fingerprint()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"train": {"batch_size": 1}}, "train.batch_size is 1, expected 2 or more"),
        ({"data": {"name": "photos"}}, "needs --data: a folder of photographs, or packs made by akorn data pack"),
        ({"data": {"name": "imagenet"}}, "needs --data: a folder of ImageNet's photographs, or packs made by"),
        ({"data": {"name": "shaped"}}, "needs --data: 'shaped' is not a data set that we generate"),
        ({"data": {"augment": AugmentConfig(hue=0.7)}}, "hue is 0.7"),
        ({"data": {"count": 0}}, "data.count is 0"),
        ({"valid": {"count": 0}}, "valid.count is 0"),
        ({"valid": {"uptile": 3}}, "valid.uptile is 3"),
        ({"model": {"gamma": -1.0}}, "gamma is -1.0"),
    ],
)
def test_impossible_recipes_are_refused(change: dict[str, object], message: str) -> None:
    recipe = small(tetrominoes_akorn())
    for name, value in change.items():
        value = replace(getattr(recipe, name), **value) if isinstance(value, dict) else value
        recipe = replace(recipe, **{name: value})
    with pytest.raises(AkornError, match=message):
        make_task(recipe)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("recompute", [False, True])
def test_views_model_and_loss_run_in_a_cuda_graph(tmp_path: Path, recompute: bool) -> None:
    recipe = small(tetrominoes_akorn(), device="cuda", steps=8)
    recipe = replace(recipe, model=replace(recipe.model, recompute=recompute))
    plain = train(make_task(recipe), recipe.train, tmp_path / "plain")
    recorded = train(make_task(recipe), replace(recipe.train, graph=True), tmp_path / "graph")
    for a, b in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=5e-3, rtol=0)
