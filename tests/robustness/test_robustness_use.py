"""The classifier, the plots, and the commands `akorn classify` and `akorn eval` for CIFAR models."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from robustness_toy import TINY, Templates, template_pictures, write_cifar

from akorn.cli import classify, eval_robustness, parse
from akorn.errors import AkornError
from akorn.robustness.autoattack import AutoAttacked
from akorn.robustness.checks import Check
from akorn.robustness.classifier import Classifier, read_picture
from akorn.robustness.config import CLASSES, ResNetConfig
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import EvalSettings, as_float, score
from akorn.robustness.model import CifarNet, build
from akorn.robustness.plots import plot_accuracy, plot_adversarial, plot_reliability
from akorn.robustness.report import Request, evaluate


@pytest.fixture
def model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("akorn.rooms.ROOMS", ("sudoku", "robustness"))
    torch.manual_seed(0)
    build(TINY).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def picture(path: Path, size: tuple[int, int] = (32, 32), mode: str = "RGB") -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def test_the_answer_depends_on_the_picture_alone() -> None:
    torch.manual_seed(0)
    classifier = Classifier(build(TINY), device="cpu")
    images = torch.rand(3, 3, 32, 32)
    found = classifier.classify(images, starts=4)
    alone = classifier.classify(images[2:], starts=4)[0]
    assert alone == found[2]
    assert classifier.classify(images, starts=4, seed=1)[0] != found[0]
    for answer in found:
        assert answer.starts == 4
        assert answer.spread > 0
        assert sum(chance for _, chance in answer.ranking) == pytest.approx(1, abs=1e-5)
        assert (answer.label, answer.confidence) == answer.ranking[0]
        assert [name for name, _ in answer.ranking] != list(CLASSES)
        assert sorted(name for name, _ in answer.ranking) == sorted(CLASSES)
    plain = Classifier(build(ResNetConfig(width=4, blocks=(1,))), device="cpu").classify(images, starts=4)
    assert {answer.starts for answer in plain} == {1}  # a function needs no second look
    with pytest.raises(AkornError, match="pre-trained only"):
        Classifier(build(ResNetConfig(width=4, blocks=(1,), head="projection")), device="cpu")
    with pytest.raises(ValueError, match="3, 32, 32"):
        classifier.classify(torch.zeros(1, 3, 16, 16))


def test_pictures_are_read_as_they_are_or_changed_and_said(tmp_path: Path) -> None:
    path = picture(tmp_path / "same.png")
    same = read_picture(path, resize=False)
    assert same.changes == ()
    np.testing.assert_array_equal(same.pixels.permute(1, 2, 0).numpy(), np.asarray(Image.open(path)))
    wide = read_picture(picture(tmp_path / "wide.png", (80, 40)))
    assert wide.changes == ("cut to its middle 40 × 40 and resized from 80 × 40 to 32 × 32",)
    assert wide.pixels.shape == (3, 32, 32)
    assert read_picture(picture(tmp_path / "grey.png", mode="L")).changes == ("converted from L to RGB",)
    clear = tmp_path / "clear.png"
    Image.new("RGBA", (32, 32), (255, 0, 0, 0)).save(clear)
    assert bool((read_picture(clear).pixels == 255).all())  # nothing but the white below
    for name, words in (("wide.png", "80 × 40 pixels, expected 32 × 32"), ("grey.png", "its mode is L")):
        with pytest.raises(AkornError, match=words):
            read_picture(tmp_path / name, resize=False)
    (tmp_path / "cut.png").write_bytes(path.read_bytes()[:500])
    (tmp_path / "text.png").write_text("no picture")
    for name, words in (("cut.png", "cannot be read"), ("text.png", "not a picture"), ("none.png", "no such file")):
        with pytest.raises(AkornError, match=words):
            read_picture(tmp_path / name)


def test_plots_are_written_whole(tmp_path: Path) -> None:
    images, labels = template_pictures(30)
    found = score(Templates(), images, labels)
    x = as_float(images[:5])
    names = [CLASSES[k] for k in labels[:5]]
    written = [
        plot_reliability({"clean": found.reliability, "again": found.reliability}, tmp_path / "r.png"),
        plot_accuracy({"PGD": {8: 40.0, 16: 10.0}}, tmp_path / "a.svg", log=True, pictures=200),
        plot_adversarial(x, 1 - x, names, ["cat"] * 5, tmp_path / "b.png", pairs=3, title="turned round"),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)
    with Image.open(tmp_path / "r.png") as drawn:
        assert np.asarray(drawn.convert("L")).std() > 10
    with pytest.raises(AkornError, match=r"\.png"):
        plot_accuracy({"PGD": {8: 40.0}}, tmp_path / "a.docx")
    with pytest.raises(ValueError, match="as many"):
        plot_adversarial(x, x, names, names[:2], tmp_path / "c.png")


def test_classify(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, large = picture(tmp_path / "good.png"), picture(tmp_path / "large.png", (64, 64))
    words = (str(good), str(large), str(tmp_path / "nothing.png"))
    status = classify.run(classify.Options(images=words, model=str(model_folder), starts=2, device="cpu", json=True))
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert status == 2  # one could not be read, the others are answered
    assert [line["image"] for line in lines] == list(words)
    assert lines[0]["label"] in CLASSES
    assert len(lines[0]["top"]) == 3
    assert lines[0]["starts"] == 2
    assert "resized from 64 × 64" in lines[1]["changes"][0]
    assert "no such file" in lines[2]["error"]
    assert err.count("\n") == 1
    assert classify.run(classify.Options(images=words[:1], model=str(model_folder), device="cpu", top=1)) == 0
    assert capsys.readouterr().out.count("%") == 1
    strict = classify.Options(images=words[1:2], model=str(model_folder), device="cpu", resize=False)
    assert classify.run(strict) == 2
    assert "expected 32 × 32" in capsys.readouterr().err
    unread = classify.Options(images=words[2:], model="no such model", device="cpu", json=True)
    assert classify.run(unread) == 2  # what is wrong with the picture is said, and no model is looked for
    assert "no such file" in json.loads(capsys.readouterr().out)["error"]
    for wrong, part in ((classify.Options(), "needs a picture"), (classify.Options(images=("x",), top=0), "--top")):
        with pytest.raises(AkornError, match=part):
            classify.run(wrong)


def test_words_of_the_commands() -> None:
    read = parse(classify.Options, ["a.png", "b.png", "--starts", "4", "--no-resize"], "classify")
    assert (read.images, read.starts, read.resize) == (("a.png", "b.png"), 4, False)
    asked = parse(eval_robustness.Options, ["m", "--data", "d", "--attacks", "pgd,fgsm", "--epsilon", "0.1"], "eval")
    assert (asked.model, asked.data, asked.attacks, asked.epsilon) == ("m", Path("d"), "pgd,fgsm", 0.1)


def test_eval_with_everything(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_cifar(tmp_path / "data")
    options = eval_robustness.Options(
        model=str(model_folder), data=data, limit=8, starts=2, attacks="fgsm, pgd,pgd-smooth,transfer", attack_limit=4,
        eot=2, attack_steps=2, source=str(model_folder), batch=4, device="cpu", json=True, plots=tmp_path / "plots",
        results=tmp_path / "results",
    )  # fmt: skip
    assert eval_robustness.run(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"clean", "noise", "ece", "fgsm", "pgd", "pgd_smooth", "transfer"} <= found.keys()
    assert (found["pictures"], found["attacked"], found["starts"], found["eot"]) == (8, 4, 2, 2)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"reliability.png", "adversarial.png"}
    (record,) = (tmp_path / "results").iterdir()
    kept = json.loads(record.read_text())
    assert kept["kind"] == "eval"
    assert kept["config"]["epsilon"] == pytest.approx(8 / 255)
    assert kept["extra"]["scores"]["pgd"] == {"accuracy": found["pgd"], "ece": kept["extra"]["scores"]["pgd"]["ece"],
                                              "pictures": 4, "starts": 2}  # fmt: skip
    assert str(tmp_path) not in record.read_text()


def test_eval_by_default_and_on_corrupted_pictures(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_cifar(tmp_path / "data")
    monkeypatch.setitem(sys.modules, "pyautoattack", None)  # not needed here
    basic = eval_robustness.Options(model=str(model_folder), data=data, device="cpu")
    assert eval_robustness.run(basic) == 0
    printed = capsys.readouterr().out
    assert "clean" in printed
    assert "pgd" not in printed
    monkeypatch.setattr("akorn.robustness.report.COMMON", ("fog", "snow"))
    corrupted = tmp_path / "CIFAR-10-C"
    corrupted.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    for name in ("fog", "snow"):
        np.save(corrupted / f"{name}.npy", pixels)
    np.save(corrupted / "labels.npy", np.arange(60) % 10)
    options = eval_robustness.Options(model=str(model_folder), data=data, corrupted=corrupted, device="cpu", json=True)
    assert eval_robustness.run(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"corrupted", "corrupted_ece", "corrupted_ece_pooled", "severity"} <= found.keys()
    assert (found["corruptions_by"], found["corrupted_pictures"]) == ("CIFAR-10-C", 12)
    for name in ("fog", "snow", "labels"):  # made of the first three pictures only
        np.save(corrupted / f"{name}.npy", np.load(corrupted / f"{name}.npy")[:15])
    fewer = eval_robustness.Options(model=str(model_folder), data=data, corrupted=corrupted, limit=5, device="cpu",
                                    json=True, results=tmp_path / "results")  # fmt: skip
    assert eval_robustness.run(fewer) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pictures"], found["corrupted_pictures"]) == (5, 3)
    (kept,) = (tmp_path / "results").iterdir()
    assert len(json.loads(kept.read_text())["extra"]["corrupted_fingerprint"]) == 64


def test_corruptions_that_are_missing_are_known_before_anything_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupted = tmp_path / "corrupted"
    corrupted.mkdir()
    np.save(corrupted / "labels.npy", np.zeros(5, np.uint8))
    for name in COMMON[:-1]:
        np.save(corrupted / f"{name}.npy", np.zeros((5, 32, 32, 3), np.uint8))
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(1))
    monkeypatch.setattr("akorn.robustness.report.score", lambda *words, **options: pytest.fail("scored"))
    with pytest.raises(AkornError, match=rf"{COMMON[-1]}\.npy does not exist"):
        evaluate(build(TINY), pictures, Request(corrupted=corrupted), EvalSettings())


def test_autoattack_gets_the_version_that_fits_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool, int | None]] = []

    def fake(model: CifarNet, images: torch.Tensor, labels: torch.Tensor, **options: Any) -> AutoAttacked:
        asked.append((options["version"], model.random_start, model.fixed_start))
        assert options["epsilon"] == 0.1
        return AutoAttacked(images, torch.tensor([True] * 3 + [False]), options["version"], ("suspicious",))

    monkeypatch.setattr("akorn.robustness.report.autoattack", fake)
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(4))
    request = Request(("autoattack", "autoattack-standard", "square"), epsilon=0.1)
    model = build(TINY)
    found = evaluate(model, pictures, request, EvalSettings(seed=6))
    assert asked == [("rand", True, None), ("standard", False, 6), ("square", True, None)]
    assert model.random_start  # free again
    assert [found.metrics[key] for key in ("autoattack", "autoattack_standard", "square")] == [75, 75, 75]
    assert "autoattack_again" in found.metrics
    assert found.details["autoattack"]["autoattack_standard"]["start_seed"] == 6
    assert found.details["autoattack"]["autoattack"]["warnings"] == ["suspicious"]
    evaluate(build(ResNetConfig(width=4, blocks=(1,))), pictures, Request(("autoattack",), epsilon=0.1), EvalSettings())
    assert asked[-1] == ("standard", False, None)  # a function needs no fixed start


def test_the_checks_are_run_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(model: CifarNet, images: torch.Tensor, *rest: Any, **options: Any) -> list[Check]:
        assert rest[1].epsilon == 0.1
        falling = {"8/255": 50.0, "16/255": 0.0}
        return [Check("epsilon", True, falling, "falls to nothing"), Check("eot", False, {}, "rises")]

    monkeypatch.setattr("akorn.robustness.report.check_defence", fake)
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    request = Request(epsilon=0.1, limit=4, checks=True, steps=1, eot=1, plots=tmp_path)
    found = evaluate(build(TINY), pictures, request, EvalSettings())
    assert (found.facts["checks_passed"], found.facts["checked"]) == (False, 4)
    assert [check["passed"] for check in found.details["checks"]] == [True, False]
    assert [path.name for path in found.plots] == ["reliability.png", "adversarial.png", "epsilon.png"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attacks": "magic"}, "no 'magic', expected some of fgsm"),
        ({"epsilon": -0.1}, "--epsilon must be from 0 to 1"),
        ({"limit": 0}, "--limit must be at least 1"),
        ({"severity": 6}, "--severity"),
        ({"attacks": "transfer"}, "--source"),
        ({"data": None}, "--data is missing"),
        ({"attacks": "autoattack"}, r"pip install 'akorn\[attacks\]'"),
        ({"checks": True}, r"pip install 'akorn\[attacks\]'"),
        ({}, "no CIFAR-10|does not exist"),
    ],
)
def test_eval_refuses(
    options: dict[str, object], words: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    given = {"model": str(model_folder), "data": tmp_path / "none", "device": "cpu", **options}
    with pytest.raises(AkornError, match=words):
        eval_robustness.run(eval_robustness.Options(**given))  # type: ignore[arg-type]
