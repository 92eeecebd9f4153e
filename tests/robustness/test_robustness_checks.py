"""The checks of a defence: they hold if gradients are honest, and fail if gradients are hidden."""

from __future__ import annotations

import pytest
import torch
from robustness_toy import Templates, template_pictures

from akorn.robustness.checks import Check, CheckSettings, check_defence, falls, no_better, paired, vanishes
from akorn.robustness.evaluate import EvalSettings, Score, fixed_start

SMALL = CheckSettings(steps=(4, 8), eot=(2, 4), epsilons=(8 / 255, 32 / 255, 128 / 255), queries=150)


def scored(right: int, of: int = 100) -> Score:
    chances = torch.zeros(of, 2)
    chances[:right, 0] = 1
    chances[right:, 1] = 1
    return Score(chances, torch.zeros(of, dtype=torch.long), 1)


@pytest.mark.parametrize("blur", [0.0, 0.05, 0.3])
def test_an_honest_model_passes(blur: float) -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(60)
    found = check_defence(Templates(blur), images, labels, SMALL, EvalSettings(starts=2), source=Templates())
    assert [check.name for check in found] == ["steps", "eot", "epsilon", "smooth", "adaptive", "gradient", "black-box"]
    assert [check.passed for check in found] == [True] * 7, [check.reason for check in found]
    assert found[2].accuracies["128/255"] == 0
    between = ["between starts", "between means over 4"] if blur else []
    assert found[4].accuracies == {}  # there are no Kuramoto layers
    assert list(found[5].accuracies) == ["cosine, %", *between]
    assert all(cosine > 40 for cosine in found[5].accuracies.values())
    assert found[5].accuracies["cosine, %"] > 90
    assert set(found[6].accuracies) == {"pgd", "noise", "square", "transfer"}
    assert bool(found[1].accuracies) == bool(blur)
    assert [check.starts for check in found] == ([2, 2, 2, 2, 1, 4, 1] if blur else [1] * 7)


def test_no_attack_runs_twice() -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(20)
    said: list[str] = []
    settings = CheckSettings(steps=(2, 3), eot=(1, 2), epsilons=(8 / 255, 32 / 255), queries=2)
    done: list[Check] = []
    found = check_defence(Templates(0.05), images, labels, settings, progress=said.append, each=done.append)
    assert done == found
    assert said == [
        *("PGD, 3 steps", "PGD, 2 steps", "PGD, EoT 1", "PGD, ε = 32/255", "PGD on the smoothed loss"),
        *("gradients nearby", "PGD, start fixed", "random noise", "Square, 2 queries"),
    ]
    accuracies = {check.name: check.accuracies for check in found}
    assert accuracies["epsilon"]["8/255"] == accuracies["steps"]["3"] == accuracies["eot"]["2"]


def test_hidden_gradients_are_found_out() -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(60)
    found = {c.name: c for c in check_defence(Templates(hide=True), images, labels, SMALL, source=Templates())}
    assert not found["epsilon"].passed  # an attack without gradients never gets there
    assert not found["gradient"].passed
    assert found["gradient"].accuracies == {"cosine, %": 0.0}
    assert not found["black-box"].passed
    assert found["black-box"].accuracies["transfer"] < found["black-box"].accuracies["pgd"]
    assert "transfer" in found["black-box"].reason or "square" in found["black-box"].reason


@pytest.mark.parametrize("blur", [0.05, 0.3])
def test_hidden_gradients_are_found_out_behind_random_starts(blur: float) -> None:
    """Without any other model: Square itself gets below PGD, since both attack the model with the same fixed start."""
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(60)
    model = Templates(blur, hide=True)
    settings = CheckSettings(steps=(4, 8), eot=(2, 4), epsilons=(8 / 255, 128 / 255), queries=400)
    found = {c.name: c for c in check_defence(model, images, labels, settings, EvalSettings(starts=8))}
    assert not found["black-box"].passed
    assert found["black-box"].reason.startswith("square gets")
    assert not found["gradient"].passed
    assert not found["epsilon"].passed
    assert model.random_start  # free again


def test_a_start_that_cannot_be_fixed_is_refused() -> None:
    class Loose(torch.nn.Linear):
        random_start = True

    with (
        pytest.raises(ValueError, match=r"Loose draws random starts, and has no fix_start"),
        fixed_start(Loose(1, 1), 0),
    ):
        pass


def test_a_rough_loss_is_found_out() -> None:
    """Fast waves on the pictures turn gradients every other grey level; the loss averaged over noise has none."""
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(60)
    settings = CheckSettings(steps=(4, 8), eot=(16, 64), epsilons=(8 / 255,), queries=2)
    found = {c.name: c for c in check_defence(Templates(rough=0.002), images, labels, settings, source=Templates())}
    assert not found["gradient"].passed
    assert found["gradient"].accuracies["cosine, %"] < 30
    assert not found["smooth"].passed
    assert found["smooth"].accuracies["smoothed"] < found["smooth"].accuracies["pgd"] - 20
    assert "smoothed gets" in found["smooth"].reason


def test_the_rules_allow_two_standard_errors() -> None:
    assert falls("steps", [("10", scored(60)), ("20", scored(58)), ("50", scored(57))]).passed
    rising = falls("steps", [("10", scored(50)), ("20", scored(60))])
    assert not rising.passed
    assert "higher at 20" in rising.reason
    falling = falls("steps", [("10", scored(60)), ("20", scored(40))])
    assert not falling.passed
    assert "not settled" in falling.reason
    assert vanishes("epsilon", [("8", scored(50)), ("64", scored(1))]).passed
    assert not vanishes("epsilon", [("8", scored(50)), ("64", scored(10))]).passed
    assert no_better("black-box", scored(50), [("square", scored(49)), ("transfer", scored(90))]).passed
    assert not no_better("black-box", scored(50), [("square", scored(30))]).passed


def test_differences_are_those_of_the_same_pictures() -> None:
    a = torch.tensor([True, True, False, False])
    mean, error = paired(a, torch.tensor([True, False, False, False]))
    assert mean == 0.25
    assert error == pytest.approx(0.5 / 2)
    assert paired(a, a) == (0.0, 0.0)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="steps of the checks must grow"):
        CheckSettings(steps=(20, 10))
