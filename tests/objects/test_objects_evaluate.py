"""Scores of known clusters, against the number of clusters, from one process or two, and how they are reported."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from seen import Seen

from akorn.cli import parse
from akorn.errors import AkornError
from akorn.objects import metrics, plots
from akorn.objects.colouring import colour_features, colour_labels, like_truth, overlay, palette, write_page
from akorn.objects.commands import evaluate as eval_objects
from akorn.objects.config import AkornConfig
from akorn.objects.data.picture_sets import Pictures
from akorn.objects.evaluate import evaluate, evaluate_counts
from akorn.objects.model import build
from akorn.objects.segmenter import Segmenter, SegmentSettings, as_channels, data_set_of


def squares(count: int = 6, seed: int = 0, *, classes: bool = False) -> Pictures:
    """16×16: a red and a green square, on patches of 4, on grey; some pixels ignored."""
    rng = np.random.default_rng(seed)
    images = np.full((count, 3, 16, 16), 110, np.uint8)
    labels = np.zeros((count, 16, 16), np.int16)
    for image, label in zip(images, labels, strict=True):
        for number, place in enumerate(rng.permutation(16)[:2], 1):
            row, column = 4 * (place // 4), 4 * (place % 4)
            image[:, row : row + 4, column : column + 4] = 10
            image[number - 1, row : row + 4, column : column + 4] = 250
            label[row : row + 4, column : column + 4] = number
    labels[:, 0, 0] = -1
    kinds = np.where(labels > 0, 1, labels).astype(np.int16)  # both squares are of one class
    return Pictures(images, labels, kinds if classes else None, 3, "squares")


def test_clusters_that_are_the_objects_score_everything() -> None:
    found = evaluate(Seen(), squares())
    assert (found.fg_ari, found.mbo, found.clusters) == (100.0, 100.0, 3)
    assert found.scores.keys() == {"fg_ari", "mbo"}
    assert found.per_picture["mbo"].shape == (6,)
    told = found.as_json()
    assert (told["fg_ari"], told["pictures"], told["method"], told["steps"]) == (100.0, 6, "average", 1)
    assert evaluate(Seen(), squares(), method="kmeans").mbo == 100.0


def test_instances_and_classes() -> None:
    found = evaluate(Seen(), squares(classes=True))
    assert found.mbo_i == found.mbo == 100.0
    assert found.mbo_c == pytest.approx(50.0, abs=4)  # a cluster covers one of two squares, some less a pixel
    assert found.scores.keys() == {"fg_ari", "mbo", "mbo_i", "mbo_c"}


def test_scores_are_the_metrics_of_the_masks() -> None:
    data = squares(5, seed=1)
    model = Seen(place=0.5)
    settings = SegmentSettings(uptile=2)
    masks = Segmenter(model, settings).segment(torch.from_numpy(data.images), 4)
    assert data.labels is not None
    truth = torch.from_numpy(data.labels)
    found = evaluate(model, data, 4, uptile=2, batch=2)
    np.testing.assert_allclose(found.per_picture["fg_ari"], 100 * metrics.fg_ari(masks, truth).numpy())
    assert found.mbo == pytest.approx(100 * metrics.mean(metrics.mbo(masks, truth)))


def test_errors_are_those_of_the_mean_over_pictures_with_a_score() -> None:
    data = squares(7, classes=True)
    assert data.labels is not None
    assert data.classes is not None
    data.labels[[2, 5]], data.classes[[2, 5]] = 0, 0  # nothing to score
    found = evaluate(Seen(place=4.0), data, 3)
    assert found.errors.keys() == {f"{name}_error" for name in found.scores}
    for name in ("fg_ari", "mbo", "mbo_c"):
        known = np.delete(found.per_picture[name], [2, 5])
        assert known.mean() == pytest.approx(found.scores[name])
        spread = ((known - known.mean()) ** 2).sum() / 4
        assert found.errors[f"{name}_error"] == pytest.approx((spread / 5) ** 0.5)
        assert spread > 0
    assert found.errors["mbo_i_error"] == found.errors["mbo_error"]
    alone = evaluate(Seen(), data.load([0, 2]))  # two pictures, one of them with a score
    assert alone.errors == {}
    assert not any(key.endswith("_error") for key in alone.as_json())


def test_all_settings_can_be_chosen_with_the_same_defaults() -> None:
    taken = inspect.signature(evaluate).parameters
    assert {field.name: field.default for field in fields(SegmentSettings)}.items() <= (
        {name: parameter.default for name, parameter in taken.items()}.items()
    )
    assert eval_objects._settings(eval_objects.Options()) == SegmentSettings()
    few, many = (evaluate(Seen(place=1.0), squares(), "auto", ratio=ratio).mbo for ratio in (0.9, 0.3))
    assert few < 60 < many == 100


def test_several_numbers_of_clusters_are_each_ones_scores() -> None:
    data, model = squares(), Seen(place=0.3)
    curve = evaluate_counts(model, data, [2, 3, 5, 3])
    calls = len(model.calls)
    assert list(curve) == [2, 3, 5]
    assert calls == 1  # one batch, looked at once
    for count, found in curve.items():
        assert found.scores == evaluate(model, data, count).scores


def test_random_starts_depend_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    model = build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).train()
    data = squares(5)
    first = evaluate(model, data, batch=2, seed=1).per_picture["mbo"]
    assert model.training  # as it was
    np.testing.assert_array_equal(evaluate(model, data, batch=2, seed=1).per_picture["mbo"], first)
    assert not np.array_equal(evaluate(model, data, batch=2, seed=2).per_picture["mbo"], first)


def test_uptiling_and_bilinear_enlargement_make_more_points() -> None:
    images = torch.from_numpy(squares(2).images)
    for settings, side in ((SegmentSettings(uptile=4), 16), (SegmentSettings(bilinear=3), 12), (None, 4)):
        segmenter = Segmenter(Seen(), settings)
        assert segmenter.features(images).shape[2:] == (side, side) == segmenter.grid(16, 16)


def test_grey_and_colours_become_each_other() -> None:
    grey = torch.rand(2, 1, 4, 4)
    torch.testing.assert_close(as_channels(as_channels(grey, 3), 1), grey)
    assert as_channels(grey, 1) is grey
    assert evaluate(Seen(channels=1), squares()).clusters == 3


def test_what_cannot_be_scored() -> None:
    data = squares(2)
    with pytest.raises(AkornError, match=r"17 clusters .* 16 patches"):
        evaluate(Seen(), data, 17)
    with pytest.raises(AkornError, match="must divide the patch size, 4"):
        evaluate(Seen(), data, uptile=3)
    with pytest.raises(AkornError, match="patches of 5 × 5"):
        evaluate(Seen(patch=5), data)
    with pytest.raises(AkornError, match="no masks"):
        evaluate(Seen(), Pictures(data.images, None, None, 3, "bare"))
    with pytest.raises(AkornError, match="no picture has an object"):
        evaluate(Seen(), Pictures(data.images, np.zeros((2, 16, 16), np.int16), None, 3, "empty"))
    with pytest.raises(AkornError, match="batch must be at least 1"):
        evaluate(Seen(), data, batch=0)


_SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from akorn.objects.config import AkornConfig
from akorn.objects.evaluate import evaluate
from akorn.objects.model import build
from test_objects_evaluate import squares

torch.manual_seed(0)
model = build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).eval()
found = evaluate(model, squares(7), batch=2)
print(json.dumps([found.scores, found.per_picture["mbo"].tolist()]))
"""


@pytest.mark.slow
def test_two_processes_give_exactly_what_one_gives() -> None:
    base = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        base.pop(name, None)
    # The store where the processes meet lives here and keeps its port: others look for free ports at the same time.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"},
        **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"},
    }
    command = [sys.executable, "-c", _SCRIPT, str(Path(__file__).parent)]
    kinds = [{}, *({**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2))]
    started = [subprocess.Popen(command, env=base | more, stdout=subprocess.PIPE, text=True) for more in kinds]
    try:
        said = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0, 0]
    one, *two = (json.loads(text) for text in said)
    assert two == [one, one]


def test_plots_are_pictures(tmp_path: Path) -> None:
    data, model = squares(3), Seen(place=0.2)
    curve = evaluate_counts(model, data, [2, 3, 4])
    plots.plot_against_clusters({"seen": curve}, tmp_path / "curve.png", marked=3)
    plots.plot_examples(Segmenter(model), data, 3, tmp_path / "examples.png")
    bare = Pictures(data.images, None, None, 3, "bare")
    plots.plot_examples(Segmenter(model), bare, 3, tmp_path / "bare.png")
    plots.plot_components(Segmenter(model), data, tmp_path / "components.png", groups=2)
    for path in tmp_path.iterdir():
        with Image.open(path) as image:
            assert image.format == "PNG"
            assert len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)) > 3
    with pytest.raises(AkornError, match=r"\.png, \.svg or \.pdf"):
        plots.plot_against_clusters({"seen": curve}, tmp_path / "curve.doc")
    with pytest.raises(ValueError, match="rows of 2"):
        write_page(tmp_path / "x.png", ["a", "b"], [[np.zeros((2, 2, 3), np.uint8)]])


def test_colours_tell_labels_apart_and_follow_the_truth() -> None:
    assert len(np.unique(palette(64), axis=0)) == 64
    truth = np.array([[0, 0, 1, 1], [0, 2, 2, -1]])
    predicted = np.array([[5, 5, 0, 0], [5, 1, 3, 0]])
    renamed = like_truth(predicted, truth)
    assert renamed.tolist() == [[0, 0, 1, 1], [0, 2, 3, 1]]
    assert colour_labels(truth)[1, 3].tolist() == [255, 255, 255]
    mixed = overlay(np.full((1, 2, 4), 100, np.uint8), predicted)
    assert mixed.shape == (2, 4, 3)
    assert mixed[0, 2].tolist() == [255, 255, 255]  # a border


def test_equal_features_have_equal_colours() -> None:
    features = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))[:, [0, 1, 1, 0]].view(8, 2, 2)
    colours = colour_features(features).reshape(4, 3)
    assert colours[0].tolist() == colours[3].tolist() != colours[1].tolist() == colours[2].tolist()


def run(*words: object) -> int:
    return eval_objects.run(parse(eval_objects.Options, [str(word) for word in words], "eval"))


def test_eval_prints_scores_records_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("akorn.rooms.ROOMS", ("sudoku", "objects"))
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    data = squares(4)
    assert data.labels is not None
    np.savez("squares.npz", images=data.images / 255, labels=data.labels)
    words = ["tiny", "--data", "squares.npz", "--device", "cpu"]
    assert run(*words, "--json", "--plots", "plots", "--results", "results", "--against-clusters", 2, 4) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0 <= told["fg_ari"] <= 100
    assert 0 <= told["mbo"] <= 100
    assert (told["pictures"], told["clusters"]) == (4, 3)
    assert {path.name for path in Path("plots").iterdir()} == {"examples.png", "components.png", "clusters.png"}
    (record,) = Path("results").iterdir()
    kept = json.loads(record.read_text())
    assert kept["metrics"]["mbo"] == told["mbo"]
    assert {"data": "squares", "pictures": 4, "clusters": 3, "method": "average", "uptile": 1, "steps": 2}.items() <= (
        kept["config"].items()
    )
    same = {"fg_ari", "mbo", "fg_ari_error", "mbo_error"}
    assert {key: kept["metrics"][key] for key in same} == kept["extra"]["against_clusters"]["3"]
    assert set(kept["extra"]["against_clusters"]) == set(told["against_clusters"]) == {"2", "3", "4"}
    assert run(*words, "--limit", 2, "--uptile", 2, "--clusters", 2) == 0
    assert "2 pictures, 2 clusters" in capsys.readouterr().out
    assert run(*words, "--against-clusters", 4, 2, 4, "--results", "None") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines if " clusters: FG-ARI " in line] == ["4 clusters", "2 clusters"]
    of_two = told["against_clusters"]["2"]
    assert (
        f"2 clusters: FG-ARI {of_two['fg_ari']:.1f} ± {of_two['fg_ari_error']:.1f}  MBO {of_two['mbo']:.1f}"
        in "\n".join(lines)
    )
    for method in ("average", "kmeans"):  # no plots are needed
        more = ["--method", method, "--against-clusters", 4, "--json", "--results", method]
        assert run(*words, *more) == 0
        (record,) = Path(method).iterdir()
        assert (
            json.loads(record.read_text())["extra"]["against_clusters"]
            == json.loads(capsys.readouterr().out)["against_clusters"]
        )


def test_a_file_that_tells_little_is_scored_as_the_model_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    Path("tiny/training.json").write_text('{"recipe": "dsprites_akorn", "seed": 3, "overrides": {}}')
    data = squares(2)
    np.savez("some.npz", images=data.images, labels=data.labels)
    np.savez("told_train.npz", images=data.images, labels=data.labels, clusters=3)
    kept = []
    for name in ("some.npz", "told_train.npz", "tetrominoes"):
        words = ["--data", name, "--limit", 2, "--device", "cpu", "--results", f"results-{name}"]
        assert run("tiny", *words, "--json") == 0
        (record,) = Path(f"results-{name}").iterdir()
        kept.append(json.loads(record.read_text())["config"])
    capsys.readouterr()
    assert [config["clusters"] for config in kept] == [7, 3, 4]
    assert [config["source"] for config in kept] == ["some.npz", "told_train.npz", "generated"]
    assert [config["split"] for config in kept] == [None, "train", "test"]


def test_plots_go_as_far_as_there_are_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    data = squares(2)
    np.savez("squares.npz", images=data.images, labels=data.labels)
    assert run("tiny", "--data", "squares.npz", "--clusters", 10, "--plots", "plots", "--device", "cpu") == 0
    assert Path("plots/clusters.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--clusters", 0], "--clusters must be at least 1"),
        (["--against-clusters", 0], "--against-clusters must be at least 1"),
        (["--weights", "x"], "frozen network"),
        (["--data", "absent.npz"], "absent.npz"),
        ([], "--data is missing"),
        (["--data", "squares.npz", "--clusters", 17], "17 clusters"),
        (["--data", "wrong.npz"], "wrong"),
        (["--data", "bare.npz"], "bare.npz: its pictures have no masks"),
        (["--data", ""], "name is empty"),
    ],
)
def test_eval_says_what_is_wrong(
    words: list[object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akorn.rooms.ROOMS", ("sudoku", "objects"))
    monkeypatch.chdir(tmp_path)
    build(AkornConfig(image_size=16, patch=4, channels=16, heads=2, steps=2)).save_pretrained("tiny")
    data = squares(2)
    np.savez("squares.npz", images=data.images, labels=data.labels)
    np.savez("wrong.npz", images=data.images, labels=data.labels[:, :8])  # type: ignore[index]
    np.savez("bare.npz", images=data.images)
    with pytest.raises(AkornError, match=message):
        run("tiny", "--device", "cpu", *words)


def test_the_data_set_of_a_model() -> None:
    assert data_set_of("shapes") == "shapes"
    assert data_set_of("runs/clevrtex-ood_akorn") == "clevrtex-ood"
    assert data_set_of("clevrtex_itrsa") == "clevrtex"
    assert data_set_of("sudoku") is None
