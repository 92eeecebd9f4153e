"""`akorn eval` for CIFAR models: what it prints, records, keeps and refuses."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robustness_toy import TINY, write_cifar

from akorn.errors import AkornError
from akorn.ledger import read_records
from akorn.robustness.autoattack import AutoAttacked
from akorn.robustness.checks import Check
from akorn.robustness.commands import evaluate as eval_robustness
from akorn.robustness.commands import make as make_command
from akorn.robustness.config import AkornConfig
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.corruptions.store import make_cifar10c
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import EvalSettings, Score, score
from akorn.robustness.model import build
from akorn.robustness.protocol import Request
from akorn.robustness.report import evaluate


@pytest.mark.slow
def test_eval_with_everything(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_cifar(tmp_path / "data")
    options = eval_robustness.Options(
        model=str(model_folder), data=data, limit=8, starts=2, attacks="fgsm, pgd,pgd-smooth,transfer", attack_limit=4,
        eot=2, attack_steps=2, source=str(model_folder), batch=4, device="cpu", json=True, plots=tmp_path / "plots",
        results=tmp_path / "results",
    )  # fmt: skip
    assert eval_robustness.run(options) == 0
    out, err = capsys.readouterr()
    assert "--plots attacks 8 pictures with PGD: 6 forward and 4 backward passes each" in err
    found = json.loads(out)
    scores = {"clean", "noise", "noise_uniform", "ece", "fgsm", "pgd", "pgd_smooth", "transfer"}
    assert scores <= found.keys()
    assert found["starts_of"] == dict.fromkeys(scores, 2)
    assert found["source"] == "model"
    assert found["scores"]["clean"] == {"accuracy": found["clean"], "ece": found["ece"], "pictures": 8, "starts": 2}
    assert (found["pictures"], found["attacked"], found["starts"], found["eot"]) == (8, 4, 2, 2)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"reliability.png", "adversarial.png"}
    (record,) = (tmp_path / "results").iterdir()
    kept = json.loads(record.read_text())
    assert kept["kind"] == "eval"
    assert kept["config"]["epsilon"] == pytest.approx(8 / 255)
    assert kept["config"]["source"] == "model"
    assert kept["config"]["noise_kind"] == "sign"  # which `noise` had not in the first records
    assert (kept["extra"]["starts_of"], kept["extra"]["scores"]) == (found["starts_of"], found["scores"])
    assert kept["extra"]["scores"]["pgd"] == {"accuracy": found["pgd"], "ece": kept["extra"]["scores"]["pgd"]["ece"],
                                              "pictures": 4, "starts": 2}  # fmt: skip
    assert str(tmp_path) not in record.read_text()


def test_eval_on_validation_pictures(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_cifar(tmp_path / "data")
    options = eval_robustness.Options(
        model=str(model_folder), data=data, device="cpu", split="valid", json=True, results=tmp_path / "results"
    )
    for told, seen in ((None, True), ({"split": "train"}, False)):
        if told is not None:
            origin = {"recipe": "cifar10_akorn_conv", "seed": 0, "overrides": {}, "data": told}
            (model_folder / "training.json").write_text(json.dumps(origin))
        assert eval_robustness.run(options) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["pictures"] == 10  # one of each class
        assert ("was trained on all 50,000 pictures, so on these too" in err) == seen
        assert json.loads(out).get("seen_in_training", False) == seen
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()]
    assert {record["config"]["data_split"] for record in records} == {"valid"}

    make = make_command.Options(folder=tmp_path / "c", data=data, corruptions=("contrast",), split="valid")
    assert make_command.run(make) == 0
    monkeypatch.setattr("akorn.robustness.report.COMMON", ("contrast",))
    monkeypatch.setattr("akorn.robustness.data.cifar_c.COMMON", ("contrast",))
    assert eval_robustness.run(replace(options, corrupted=tmp_path / "c")) == 0
    with pytest.raises(AkornError, match="holds valid pictures, but test ones are scored"):
        eval_robustness.run(replace(options, corrupted=tmp_path / "c", split="test"))


def test_eval_by_default_and_on_corrupted_pictures(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_cifar(tmp_path / "data")
    monkeypatch.setitem(sys.modules, "pyautoattack", None)  # not needed here
    basic = eval_robustness.Options(model=str(model_folder), data=data, device="cpu", starts=3, results=None)
    assert eval_robustness.run(basic) == 0
    printed = capsys.readouterr().out
    assert "pgd" not in printed
    heading, *scores = (line.split() for line in printed.splitlines()[:4])
    assert heading == ["score", "%", "ECE,", "%", "pictures", "starts"]
    assert [(row[0], *row[3:]) for row in scores] == [(name, "12", "3") for name in ("clean", "noise", "noise_uniform")]
    for place in ("report", "data.cifar_c"):
        monkeypatch.setattr(f"akorn.robustness.{place}.COMMON", ("fog", "snow"))
    corrupted = tmp_path / "CIFAR-10-C"
    corrupted.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    for name in ("fog", "snow"):
        np.save(corrupted / f"{name}.npy", pixels)
    np.save(corrupted / "labels.npy", np.arange(60) % 10)
    options = eval_robustness.Options(model=str(model_folder), data=data, corrupted=corrupted, device="cpu", json=True,
                                      results=None)  # fmt: skip
    assert eval_robustness.run(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"corrupted", "corrupted_ece", "corrupted_ece_pooled", "severity"} <= found.keys()
    assert found["corruptions"].keys() == {"fog", "snow"}
    for what, mean in (("accuracy", "corrupted"), ("ece", "corrupted_ece")):
        assert np.mean([each[what] for each in found["corruptions"].values()]) == pytest.approx(found[mean])
    assert {(each["pictures"], each["starts"]) for each in found["corruptions"].values()} == {(12, 1)}
    assert eval_robustness.run(replace(options, json=False)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["corruption", "%", "ECE,", "%", "pictures", "starts"] in lines
    fog = found["corruptions"]["fog"]
    assert ["fog", f"{fog['accuracy']:.2f}", f"{fog['ece']:.2f}", "12", "1"] in lines
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


def test_a_bad_file_of_corruptions_is_known_before_anything_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupted = tmp_path / "corrupted"
    corrupted.mkdir()
    np.save(corrupted / "labels.npy", np.zeros(5, np.uint8))
    for name in COMMON[:-1]:
        np.save(corrupted / f"{name}.npy", np.zeros((5, 32, 32, 3), np.uint8))
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(1))
    monkeypatch.setattr("akorn.robustness.report.score", lambda *words, **options: pytest.fail("scored"))
    np.save(corrupted / f"{COMMON[-1]}.npy", np.zeros((4, 32, 32, 3), np.uint8))
    with pytest.raises(AkornError, match=rf"{COMMON[-1]}\.npy has 4 pictures"):
        evaluate(build(TINY), pictures, Request(corrupted=corrupted), EvalSettings())


def test_checks_and_warnings_are_printed(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check("steps", False, {"10": 50.0, "20": 61.25}, "11.2 points higher at 20 than at 10", 1)

    def checked(*words: Any, each: Callable[[Check], None], **options: Any) -> list[Check]:
        each(check)
        return [check]

    monkeypatch.setattr("akorn.robustness.report.check_defence", checked)
    monkeypatch.setattr(
        "akorn.robustness.attacked.autoattack",
        lambda model, images, labels, **options: AutoAttacked(images, labels < 0, 3, "rand", ("it looks [odd]",)),
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    options = eval_robustness.Options(
        model=str(model_folder), data=write_cifar(tmp_path / "data"), limit=4, starts=2, attacks="autoattack",
        checks=True, device="cpu", results=None, json=True,
    )  # fmt: skip
    assert eval_robustness.run(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["checks"] == [check.as_json()]
    assert found["check_epsilon"] == pytest.approx(8 / 255)
    assert (found["autoattack"], found["scores"]["autoattack"]["warnings"]) == (0, ["it looks [odd]"])
    assert (found["starts"], found["starts_of"]["clean"], found["starts_of"]["autoattack"]) == (2, 2, 1)
    assert eval_robustness.run(replace(options, json=False)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "check steps FAILS: 11.2 points higher at 20 than at 10 (10: 50.0, 20: 61.2; starts 1)" in out
    assert "autoattack: AutoAttack warns: it looks [odd]" in out
    assert "autoattack 0.00 4 1 3" in out  # no ECE; pictures, starts and tests


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attacks": "magic"}, "no 'magic', expected some of fgsm"),
        ({"attacks": ","}, "no ',', expected some of fgsm"),
        ({"source": "cifar10-conv"}, "--source is for --attacks transfer and for --checks"),
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


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (replace(TINY, classes=5), "model: the model has 5 classes, expected CIFAR-10's 10"),
        (replace(TINY, size=64), "model: the model is for pictures of 64 × 64, expected 32 × 32"),
        (
            replace(TINY, head="projection"),
            "model: the model is not a CIFAR-10 classifier yet: it was only pre-trained",
        ),
    ],
)
def test_eval_refuses_models_of_other_pictures(
    config: AkornConfig, words: str, model_folder: Path, tmp_path: Path
) -> None:
    build(config).save_pretrained(model_folder)
    data = write_cifar(tmp_path / "data")
    with pytest.raises(AkornError, match=words):
        eval_robustness.run(eval_robustness.Options(model=str(model_folder), data=data, device="cpu", results=None))


def test_a_damaged_note_on_the_training_is_said_before_any_work(model_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(model_folder, tmp_path / "copy")
    (copy / "training.json").write_text("{")
    with pytest.raises(AkornError, match=r"training\.json: damaged"):
        eval_robustness.run(eval_robustness.Options(model=str(copy), data=tmp_path / "none", device="cpu"))


def test_what_was_scored_before_an_interruption_is_recorded(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*words: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("akorn.robustness.attacked.attacked_score", interrupted)
    options = eval_robustness.Options(
        model=str(model_folder), data=write_cifar(tmp_path / "data"), attacks="pgd,transfer", device="cpu",
        source=str(model_folder), results=tmp_path / "results",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(options)
    (kept,) = (tmp_path / "results").iterdir()
    found = json.loads(kept.read_text())
    assert {"clean", "noise", "ece"} <= found["metrics"].keys()
    assert "pgd" not in found["metrics"]
    assert (found["config"]["source"], found["config"]["finished"]) == ("model", False)
    assert f"not finished; what was scored is recorded in {kept}" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(replace(options, results=None))
    assert "not finished; scored so far: clean " in capsys.readouterr().err
    monkeypatch.setattr("akorn.robustness.report.score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(options)
    assert list((tmp_path / "results").iterdir()) == [kept]  # nothing was scored: nothing to record


def test_single_corruptions_and_checks_before_an_interruption_are_kept(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_cifar(tmp_path / "data")
    pictures = load_cifar10(data, "test")
    make_cifar10c(tmp_path / "c", pictures.images.numpy(), pictures.labels.numpy(), ["fog", "snow"], [5])
    options = eval_robustness.Options(
        model=str(model_folder),
        data=data,
        limit=2,
        corrupted=tmp_path / "c",
        device="cpu",
        results=tmp_path / "results",
    )
    asked = []

    def once(*words: Any, **settings: Any) -> Score:
        asked.append(words)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return score(*words, **settings)

    monkeypatch.setattr("akorn.robustness.corrupted.score", once)
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(options)
    (kept,) = (tmp_path / "results").iterdir()
    record = json.loads(kept.read_text())
    (name,) = record["extra"]["corrupted"]
    assert record["extra"]["corrupted"][name]["pictures"] == 2
    assert (record["config"]["severity"], record["config"]["finished"]) == (5, False)

    check = Check("steps", True, {"10": 50.0}, "falls and settles", 1)

    def half(*words: Any, each: Callable[[Check], None], **options: Any) -> list[Check]:
        each(check)
        raise KeyboardInterrupt

    monkeypatch.setattr("akorn.robustness.report.check_defence", half)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    kept.unlink()
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(replace(options, corrupted=None, checks=True))
    (kept,) = (tmp_path / "results").iterdir()
    record = json.loads(kept.read_text())
    assert record["extra"]["checks"] == [check.as_json()]
    assert "checks_passed" not in record["config"]
    capsys.readouterr()
    with pytest.raises(KeyboardInterrupt):
        eval_robustness.run(replace(options, corrupted=None, checks=True, results=None))
    assert "check steps holds" in capsys.readouterr().err


def test_a_plot_that_cannot_be_written_is_said_before_any_work(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plots" / "adversarial.png").mkdir(parents=True)
    options = eval_robustness.Options(
        model=str(model_folder), data=tmp_path / "none", device="cpu", results=None, plots=tmp_path / "plots"
    )
    with pytest.raises(AkornError, match=r"adversarial\.png: this is a folder"):
        eval_robustness.run(options)


@pytest.mark.parametrize(
    ("recipe", "pretrained"), [("cifar10_akorn_conv", True), ("cifar10_akorn_conv_falling_rate", False)]
)
def test_the_record_tells_pretraining_from_going_on(
    recipe: str, pretrained: bool, model_folder: Path, tmp_path: Path
) -> None:
    origin = {"recipe": recipe, "seed": 0, "overrides": {"init": "before"}}
    (model_folder / "training.json").write_text(json.dumps(origin), encoding="utf-8")
    data, results = write_cifar(tmp_path / "data"), tmp_path / "results"
    options = eval_robustness.Options(model=str(model_folder), data=data, limit=2, device="cpu", results=results)
    assert eval_robustness.run(options) == 0
    (found,) = read_records(results)
    assert found["config"]["pretrained"] is pretrained
