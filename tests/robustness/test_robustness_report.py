"""The whole evaluation behind `akorn eval` for CIFAR models: which scores, of which pictures, by which attacks."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from robustness_toy import TINY, write_cifar

from akorn.robustness import attacked, plots, report
from akorn.robustness.attacks import PGD
from akorn.robustness.autoattack import AutoAttacked
from akorn.robustness.checks import Check
from akorn.robustness.config import ResNetConfig
from akorn.robustness.corruptions.constants import COMMON
from akorn.robustness.corruptions.store import make_cifar10c
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import EvalSettings, Score, fixed_start, sample, score
from akorn.robustness.evaluation_plots import shown_passes
from akorn.robustness.model import CifarNet, build
from akorn.robustness.protocol import Request
from akorn.robustness.report import evaluate


def test_some_corruptions_are_scored_without_a_mean(tmp_path: Path) -> None:
    corrupted = tmp_path / "corrupted"
    corrupted.mkdir()
    np.save(corrupted / "labels.npy", np.zeros(10, np.uint8))
    for name in ("fog", "spatter"):  # one of the 15, and one of the extra ones
        np.save(corrupted / f"{name}.npy", np.zeros((10, 32, 32, 3), np.uint8))
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(2))
    found = evaluate(build(TINY), pictures, Request(corrupted=corrupted), EvalSettings())
    assert set(found.details["corrupted"]) == {"fog", "spatter"}
    assert "corrupted" not in found.metrics
    assert found.facts["corruptions_missing"] == [name for name in COMMON if name != "fog"]


def test_autoattack_gets_the_version_that_fits_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool, int | None]] = []

    def fake(model: CifarNet, images: torch.Tensor, labels: torch.Tensor, **options: Any) -> AutoAttacked:
        asked.append((options["version"], model.random_start, model.fixed_start))
        assert options["epsilon"] == 0.1
        tests = 3 if model.random_start else 1
        return AutoAttacked(images, torch.tensor([True] * 3 + [False]), tests, options["version"], ("suspicious",))

    monkeypatch.setattr("akorn.robustness.attacked.autoattack", fake)
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(4))
    request = Request(("autoattack", "autoattack-standard", "square"), epsilon=0.1)
    model = build(TINY)
    found = evaluate(model, pictures, request, EvalSettings(seed=6, starts=4))
    assert asked == [("rand", True, None), ("standard", False, 6), ("square", True, None)]
    assert model.random_start  # free again
    assert [found.metrics[key] for key in ("autoattack", "autoattack_standard", "square")] == [75, 75, 75]
    scores, starts = found.details["scores"], found.details["starts_of"]
    assert starts.keys() == found.metrics.keys()  # every figure says how many
    assert (starts["clean"], starts["autoattack"], starts["square_unattacked"]) == (4, 1, 1)
    assert scores["autoattack"] == {
        "accuracy": 75.0, "version": "rand", "pictures": 4, "starts": 1, "tests": 3, "start_seed": None,
        "warnings": ["suspicious"],
    }  # fmt: skip
    assert (scores["autoattack_standard"]["start_seed"], scores["autoattack_standard"]["tests"]) == (6, 1)
    with fixed_start(model, 6):
        assert (
            found.metrics["autoattack_standard_unattacked"] == score(model, pictures.images, pictures.labels).accuracy
        )
    evaluate(build(ResNetConfig(width=4, blocks=(1,))), pictures, Request(("autoattack",), epsilon=0.1), EvalSettings())
    assert asked[-1] == ("standard", False, None)  # a function needs no fixed start


def test_the_checks_are_run_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(model: CifarNet, images: torch.Tensor, *rest: Any, **options: Any) -> list[Check]:
        assert rest[1].epsilon == 0.1
        assert images.equal(pictures.images[sample(len(pictures), 3, seed=7)])
        falling = {"8/255": 50.0, "16/255": 0.0}
        found = [Check("epsilon", True, falling, "falls to nothing"), Check("eot", False, {}, "rises")]
        for check in found:
            options["each"](check)
        return found

    monkeypatch.setattr("akorn.robustness.report.check_defence", fake)
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    monkeypatch.setattr(report, "CHECKED", 3)
    request = Request(epsilon=0.1, checks=True, steps=1, eot=1, plots=tmp_path)
    found = evaluate(build(TINY), pictures, request, EvalSettings(seed=7))
    assert (found.facts["checks_passed"], found.facts["checked"]) == (False, 3)
    assert [check["passed"] for check in found.details["checks"]] == [True, False]
    assert [path.name for path in found.plots] == ["reliability.png", "adversarial.png", "epsilon.png"]


def test_without_an_attack_pictures_must_be_right_in_every_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(model: CifarNet, images: torch.Tensor, labels: torch.Tensor, **options: Any) -> AutoAttacked:
        return AutoAttacked(images, labels == labels, 3, "rand", ())

    answers = {"autoattack-test-0": [1, 1, 1, 0], "autoattack-test-1": [1, 1, 0, 1], "autoattack-test-2": [1, 0, 1, 1]}

    def answer(
        model: CifarNet, images: torch.Tensor, labels: torch.Tensor, settings: EvalSettings, **options: Any
    ) -> Score:
        right = torch.tensor(answers.get(options.get("purpose", "clean"), [1, 1, 1, 1])).bool()
        return Score(torch.eye(10)[torch.where(right, labels, (labels + 1) % 10)], labels, settings.starts)

    monkeypatch.setattr("akorn.robustness.attacked.autoattack", fake)
    for place in ("report", "attacked"):
        monkeypatch.setattr(f"akorn.robustness.{place}.score", answer)
    pictures = load_cifar10(write_cifar(tmp_path), "test").take(slice(4))
    found = evaluate(build(TINY), pictures, Request(("autoattack",)), EvalSettings(starts=4))
    assert (found.metrics["clean"], found.metrics["autoattack"], found.metrics["autoattack_unattacked"]) == (
        100,
        100,
        25,
    )


def test_what_the_plot_takes_is_foretold(tmp_path: Path) -> None:
    model = build(TINY)
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    request = Request(limit=3, steps=2, eot=4, plots=tmp_path)
    seen: list[int] = []
    plain, drawn = [], []
    for asked, counts in ((replace(request, plots=None), plain), (request, drawn)):
        seen.clear()
        handle = model.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
        evaluate(model, pictures, asked, EvalSettings())
        handle.remove()
        counts.append(sum(seen))
    count, forward, backward = shown_passes(model, request)
    assert (count, forward, backward) == (3, 12, 8)
    assert drawn[0] - plain[0] == count * (forward + 2)  # and the answers before and after


def test_adversarial_pictures_are_adaptive_where_the_attacks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(TINY)
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    titles: list[str] = []
    show = plots.plot_adversarial

    def seen(*args: Any, title: str) -> Path:
        titles.append(title)
        return show(*args, title=title)

    monkeypatch.setattr(plots, "plot_adversarial", seen)
    entered = []
    monkeypatch.setattr(attacked, "last_steps", lambda model: entered.append(model) or nullcontext())
    request = Request(limit=3, attack_limit=1, steps=1, eot=1, plots=tmp_path)
    for attacks, times in (((), 0), (("pgd",), 0), (("pgd-adaptive",), 2)):
        entered.clear()
        evaluate(model, pictures, replace(request, attacks=attacks), EvalSettings())
        assert len(entered) == times
        assert ("last Kuramoto steps" in titles[-1]) == bool(times)


def test_the_mean_is_over_the_benchmarks_corruptions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("report", "data.cifar_c"):
        monkeypatch.setattr(f"akorn.robustness.{place}.COMMON", ("fog", "snow"))
    pictures = load_cifar10(write_cifar(tmp_path / "data"), "test")
    images, labels = pictures.images.numpy(), pictures.labels.numpy()
    make_cifar10c(tmp_path / "c", images, labels, ["fog", "snow", "spatter"], [5])
    answers = {"fog": 90.0, "snow": 70.0, "spatter": 20.0}

    def known(*words: Any, purpose: str = "", **settings: Any) -> Score:
        found = score(*words, purpose=purpose, **settings)
        right = answers.get(purpose.removeprefix("corrupted-"), 50.0) / 100
        chances = torch.zeros_like(found.probabilities)
        wrong = torch.arange(len(chances)) >= round(right * len(chances))
        chances[torch.arange(len(chances)), (found.labels + wrong) % 10] = 1
        return replace(found, probabilities=chances)

    monkeypatch.setattr("akorn.robustness.corrupted.score", known)
    found = evaluate(build(TINY), pictures, Request(corrupted=tmp_path / "c"), EvalSettings())
    single = {name: each["accuracy"] for name, each in found.details["corrupted"].items()}
    assert single.keys() == {"fog", "snow", "spatter"}
    assert found.metrics["corrupted"] == pytest.approx((single["fog"] + single["snow"]) / 2)
    assert found.metrics["corrupted"] != pytest.approx(sum(single.values()) / 3)


def test_pgd_smooth_has_noise_and_pgd_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = []

    def seen(model: CifarNet, images: Any, labels: Any, attack: PGD, *rest: Any, **options: Any) -> Score:
        noise.append(attack.noise)
        return score(model, images, labels)

    monkeypatch.setattr("akorn.robustness.attacked.attacked_score", seen)
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    evaluate(build(TINY), pictures, Request(("pgd", "pgd-smooth"), limit=2, epsilon=0.1), EvalSettings())
    assert noise == [0, pytest.approx(0.05)]
