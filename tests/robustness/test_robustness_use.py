"""The classifier, the plots, and the command `akorn classify`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from robustness_toy import TINY, Templates, template_pictures

from akorn.cli import parse
from akorn.errors import AkornError
from akorn.robustness.classifier import Classifier, Picture, Prediction, doubts, read_picture
from akorn.robustness.commands import classify
from akorn.robustness.commands import evaluate as eval_robustness
from akorn.robustness.config import CLASSES, ResNetConfig, ViTConfig
from akorn.robustness.evaluate import as_float, score
from akorn.robustness.model import build
from akorn.robustness.plots import plot_accuracy, plot_adversarial, plot_reliability


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
    with pytest.raises(AkornError, match="only pre-trained"):
        Classifier(build(ResNetConfig(width=4, blocks=(1,), head="projection")), device="cpu")
    with pytest.raises(ValueError, match="3, 32, 32"):
        classifier.classify(torch.zeros(1, 3, 16, 16))
    with pytest.raises(ValueError, match=r"pictures are from 0 to 1, got values up to 25[45]"):
        classifier.classify(255 * images)
    assert classifier.classify([]) == []
    for foreign, words in (
        (ResNetConfig(width=4, blocks=(1,), classes=5), "5 classes, expected CIFAR-10's 10"),
        (ViTConfig(channels=8, heads=2, blocks=1, size=64), "64 × 64, expected 32 × 32"),
    ):
        with pytest.raises(AkornError, match=words):
            Classifier(build(foreign), device="cpu")


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
        plot_adversarial(x, 1 - x, names, ["cat"] * 5, names, tmp_path / "b.png", pairs=3, title="turned round"),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)
    with Image.open(tmp_path / "r.png") as drawn:
        assert np.asarray(drawn.convert("L")).std() > 10
    with pytest.raises(AkornError, match=r"\.png"):
        plot_accuracy({"PGD": {8: 40.0}}, tmp_path / "a.docx")
    with pytest.raises(ValueError, match="as many"):
        plot_adversarial(x, x, names, names[:2], names, tmp_path / "c.png")


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
    again = (words[0], words[2], words[0], words[2])  # named twice, answered twice
    asked = classify.Options(images=again, model=str(model_folder), device="cpu", json=True)
    assert classify.run(asked) == 2
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["image"] for line in lines] == list(again)
    assert lines[0] == lines[2]
    assert lines[1] == lines[3]
    assert err.count("no such file") == 2
    strict = classify.Options(images=words[1:2], model=str(model_folder), device="cpu", resize=False)
    assert classify.run(strict) == 2
    assert "expected 32 × 32" in capsys.readouterr().err
    unread = classify.Options(images=words[2:], model="no such model", device="cpu", json=True)
    assert classify.run(unread) == 2  # what is wrong with the picture is said, and no model is looked for
    assert "no such file" in json.loads(capsys.readouterr().out)["error"]
    for wrong, part in ((classify.Options(), "needs a picture"), (classify.Options(images=("x",), top=0), "--top")):
        with pytest.raises(AkornError, match=part):
            classify.run(wrong)


def test_classify_says_what_the_model_knows(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    small, large = picture(tmp_path / "in" / "a.png"), picture(tmp_path / "in" / "b.png", (400, 300))
    (tmp_path / "in" / "notes.txt").write_text("not looked at")
    asked = classify.Options(images=(str(tmp_path / "in"),), model=str(model_folder), device="cpu")
    assert classify.run(asked) == 0
    out, err = capsys.readouterr()
    assert [line.split(": ")[0] for line in out.splitlines()] == [str(small), str(large)]
    first = err.splitlines()[0]
    assert all(name in first for name in CLASSES)
    assert "32 × 32 photographs, and nothing else" in first
    assert f"{large}: 400 × 300 pixels, and the model knows 32 × 32 photographs" in err
    assert classify.run(replace(asked, json=True)) == 0
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    assert "confidence means little" in answers[1]["warnings"][0]
    assert answers[0]["confidence"] < 0.5  # the model is untrained
    assert "no class has a chance of 50 % or more" in answers[0]["warnings"][0]
    (tmp_path / "empty").mkdir()
    assert classify.run(replace(asked, images=(str(tmp_path / "empty"),))) == 2
    assert "this folder contains no pictures" in capsys.readouterr().err


def test_a_sure_answer_to_a_small_picture_is_not_doubted() -> None:
    sure = Prediction("cat", 0.9, (("cat", 0.9),), 4, 0.0)
    seen = Picture(torch.zeros(3, 32, 32, dtype=torch.uint8), ())
    assert doubts(seen, sure) == []
    assert doubts(replace(seen, size=(127, 400)), sure) == []
    assert len(doubts(replace(seen, size=(128, 400)), sure)) == 1
    assert len(doubts(seen, replace(sure, confidence=0.49))) == 1


def test_words_of_the_commands() -> None:
    read = parse(classify.Options, ["a.png", "b.png", "--starts", "4", "--no-resize"], "classify")
    assert (read.images, read.starts, read.resize) == (("a.png", "b.png"), 4, False)
    asked = parse(eval_robustness.Options, ["m", "--data", "d", "--attacks", "pgd,fgsm", "--epsilon", "0.1"], "eval")
    fraction = parse(eval_robustness.Options, ["m", "--epsilon", "8/255", "--noise", "16/255"], "eval")
    assert (fraction.epsilon, fraction.noise) == (8 / 255, 16 / 255)
    assert (asked.model, asked.data, asked.attacks, asked.epsilon) == ("m", Path("d"), "pgd,fgsm", 0.1)
