"""`akorn eval` of damaged models, data under another name's folder, and pictures that are too large: the messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from seen import Seen
from test_objects_evaluate import run, squares
from torch.profiler import ProfilerActivity, profile

from akorn.errors import AkornError
from akorn.models import training_of
from akorn.objects.cluster import kmeans_memory
from akorn.objects.config import AkornConfig
from akorn.objects.data import generate, write_npz
from akorn.objects.evaluate import evaluate
from akorn.objects.model import build
from akorn.objects.segmenter import Segmenter, SegmentSettings, data_set_of


def test_a_folder_of_its_name_does_not_hide_the_set_that_a_model_was_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=32, patch=8, channels=16, heads=2, steps=1)).save_pretrained("tiny")
    Path("tiny/training.json").write_text('{"recipe": "tetrominoes_akorn", "seed": 3}')
    said, kept = [], []
    for stage in ("absent", "empty", "full"):
        if stage != "absent":
            Path("tetrominoes").mkdir(exist_ok=True)
        if stage == "full":
            write_npz("tetrominoes/test.npz", generate("tetrominoes", "test", 3, seed=9))
        assert run("tiny", "--limit", 5, "--device", "cpu", "--json", "--results", stage) == 0
        said.append(json.loads(capsys.readouterr().out))
        (record,) = Path(stage).iterdir()
        kept.append(json.loads(record.read_text()))
    assert [told["pictures"] for told in said] == [5, 5, 5]
    assert said[0]["mbo"] == said[1]["mbo"] == said[2]["mbo"]
    assert {record["config"]["source"] for record in kept} == {"generated"}
    assert run("tiny", "--data", "tetrominoes", "--limit", 5, "--device", "cpu", "--json", "--results", "asked") == 0
    assert json.loads(capsys.readouterr().out)["pictures"] == 3  # what was asked for by name
    (record,) = Path("asked").iterdir()
    assert json.loads(record.read_text())["config"]["source"] == "tetrominoes"


@pytest.mark.parametrize(
    "failure", [OverflowError("too\nlarge"), MemoryError(), ValueError("odd"), OSError(5, "broken")]
)
def test_what_readers_overlook_is_said_in_a_line(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    Path("pictures").mkdir()
    Image.new("RGB", (16, 16)).save("pictures/a.png")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("akorn.objects.data.picture_files.FileSet.masks", fail)
    with pytest.raises(AkornError, match=rf"^pictures cannot be read \({type(failure).__name__}: ") as found:
        run("tiny", "--data", "pictures", "--size", 16, "--device", "cpu")
    assert "\n" not in str(found.value)


def test_a_frozen_network_has_no_steps() -> None:
    with pytest.raises(AkornError, match=r"--steps is for .* timm:dino is a frozen network"):
        run("timm:dino", "--data", "shapes", "--steps", 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not readable as JSON"),
        (b"\xff\xfe", "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (b"[1]", "it holds a list, expected an object"),
        (b'{"recipe": 3, "seed": 0}', "recipe is 3, expected a name"),
        (b'{"recipe": "shapes_akorn_l1"}', "seed is None, expected a whole number"),
        (b'{"recipe": "shapes_akorn_l1", "seed": 0, "overrides": [1]}', r"overrides is \[1\], expected"),
    ],
)
def test_a_damaged_note_on_the_training_is_said_before_any_work(
    content: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    Path("tiny/training.json").write_bytes(content)
    data = squares(2)
    np.savez("squares.npz", images=data.images, labels=data.labels)
    monkeypatch.setattr("akorn.objects.evaluate.evaluate_counts", None)  # it does not come to that
    with pytest.raises(AkornError, match=rf"^tiny/training\.json: damaged, .*{said}"):
        run("tiny", "--data", "squares.npz", "--clusters", 3, "--device", "cpu")
    with pytest.raises(AkornError, match=r"training\.json"):
        data_set_of("tiny")


def test_a_note_without_a_recipe_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    Path("tiny/training.json").write_text("{}")
    assert training_of("tiny") is None
    assert data_set_of("tiny") is None
    data = squares(2)
    np.savez("squares.npz", images=data.images, labels=data.labels)
    assert run("tiny", "--data", "squares.npz", "--device", "cpu", "--json", "--results", "results") == 0
    capsys.readouterr()
    (record,) = Path("results").iterdir()
    assert json.loads(record.read_text())["config"]["model"] == "tiny"
    with pytest.raises(AkornError, match="--data is missing"):
        run("tiny", "--device", "cpu")


def test_pictures_that_do_not_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    average, kmeans = Segmenter(Seen()), Segmenter(Seen(), SegmentSettings("kmeans"))

    def give(gib: float) -> None:
        monkeypatch.setattr("akorn.runtime.devices.machine_memory", lambda: gib * 2**30)

    give(8.0)
    kmeans.check(4, 1024, 1024)  # 65,536 patches: about 1 GiB
    with pytest.raises(AkornError, match=r"65,536 patches .* average linkage: .* or --method kmeans$"):
        average.check(4, 1024, 1024)
    with pytest.raises(AkornError, match=r"65,536 patches .* k-means, which needs 16\.\d GiB .* or --size$"):
        kmeans.check(2000, 1024, 1024)  # of so many clusters the distances do not fit
    give(0.5)
    with pytest.raises(AkornError, match=r"65,536 patches .* average linkage, and for k-means, .* or --size$"):
        average.check(4, 1024, 1024)
    with pytest.raises(AkornError, match=r"65,536 patches .* k-means, which needs 0\.9 GiB .* the machine has 0\.5"):
        kmeans.check(4, 1024, 1024)
    for segmenter in (average, kmeans):
        segmenter.check(4, 256, 256)
        with pytest.raises(AkornError, match=r"100,000 × 100,000 pixels are too large: they need 5\d\d\.\d GiB"):
            segmenter.check(4, 100_000, 100_000)


@pytest.mark.parametrize(("patches", "channels", "components", "clusters"), [(3000, 24, 64, 3), (3000, 4, 64, 40)])
def test_k_means_takes_the_memory_that_is_reckoned(patches: int, channels: int, components: int, clusters: int) -> None:
    """Within a few small arrays, by the largest sum of tensors that live at once."""
    features = torch.randn(1, channels, patches, 1, generator=torch.Generator().manual_seed(0))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        Segmenter(Seen(), SegmentSettings("kmeans", components=components)).masks(features, (1, 1))(clusters)
    changes = [event for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = np.cumsum([event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())])
    reckoned = kmeans_memory(patches, channels, components, clusters, torch.device("cpu"))
    assert 0.85 * reckoned < live.max() < 1.25 * reckoned


@pytest.mark.parametrize(("weight", "shown"), [(-0.5, "-0.5"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_an_impossible_weight_of_places(weight: float, shown: str) -> None:
    model = build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=1))
    with pytest.raises(AkornError, match=f"the weight of places is {shown}, expected 0 or more"):
        Segmenter(model, SegmentSettings(places=weight))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "kmeans", "least": 0.1}, "share of a cluster, 0.1, is for average linkage, not for kmeans"),
        ({"least": 0.5}, "the least share of a cluster is 0.5"),
        ({"ratio": 1.0}, "the ratio 1, expected between 0 and 1"),
        ({"places": -1.0}, "the weight of places is -1"),
        ({"edges": -1.0}, "the weight of edges is -1"),
        ({"bilinear": 0}, "must be at least 1, got 0 and 128"),
        ({"method": "ward"}, "method is 'ward', expected one of average, kmeans"),
        ({"read": "y"}, "read is 'y', expected one of m, x, both"),
    ],
)
def test_impossible_settings_are_refused_before_there_is_a_model(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(AkornError, match=message):
        SegmentSettings(**settings)


def test_k_means_does_not_choose_how_many_clusters() -> None:
    model = Seen()
    with pytest.raises(AkornError, match="cannot be chosen by kmeans"):
        evaluate(model, squares(), "auto", method="kmeans")
    assert not model.calls  # no features were computed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "kmeans", "--clusters", "auto"], "--clusters auto needs average linkage, got --method kmeans"),
        (["--method", "kmeans", "--least", 0.1], "is for average linkage, not for kmeans"),
        (["--auto-ratio", 2], "the ratio 2, expected between 0 and 1"),
        (["--uptile", 3], "the factor must divide the patch size, 4"),
        (["--input", 18], "input of 18 pixels cannot be cut into patches of 4"),
        (["--read", "x"], "Floor has no states x to cluster"),
    ],
)
def test_impossible_options_are_refused_before_data_are_generated(
    words: list[object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akorn.objects.data.layouts.load", None)
    with pytest.raises(AkornError, match=message):
        run("floor:colours", "--data", "tetrominoes", "--device", "cpu", *words)


def test_a_segmenter_takes_batches_of_pictures_in_tensors() -> None:
    segmenter = Segmenter(build(AkornConfig(image_size=32, patch=8, channels=16, heads=2, steps=1)))
    for job in (lambda images: segmenter.segment(images, 2), segmenter.features, segmenter.trajectory):
        with pytest.raises(AkornError, match=r"must be a tensor \[B, C, H, W\], got ndarray"):
            job(np.zeros((1, 3, 32, 32), np.uint8))
        with pytest.raises(AkornError, match=r"must be \[B, C, H, W\], got an array of shape \[3, 32, 32\]"):
            job(torch.zeros(3, 32, 32))
