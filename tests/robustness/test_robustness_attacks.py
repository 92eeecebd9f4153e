"""Attacks: they stay in the ball, they find what there is, and random models are attacked through the mean."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pytest
import torch
from robustness_toy import TINY, Templates, template_pictures
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.robustness.attacks import (
    FGSM,
    PGD,
    gradient_agreement,
    loss_gradient,
    mean_loss,
    per_picture,
    start_agreement,
)
from akorn.robustness.autoattack import autoattack
from akorn.robustness.evaluate import (
    EvalSettings,
    as_float,
    attacked_score,
    channels_last,
    fixed_start,
    noisy_score,
    score,
)
from akorn.robustness.model import build
from akorn.robustness.random_noise import random_noise

EPSILON = 8 / 255


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_pictures_are_scored_in_float32_from_0_to_1() -> None:
    pixels = torch.arange(256, dtype=torch.uint8).view(4, 1, 8, 8).repeat(1, 3, 1, 1)
    x = as_float(pixels)
    assert torch.equal(x, pixels.float() / 255)
    assert as_float(x) is x
    assert as_float(x.double()).dtype == torch.float32
    with pytest.raises(ValueError, match="bytes or floats"):
        as_float(pixels.long())  # they would be taken for values from 0 to 255


@pytest.mark.parametrize("loss", ["cross-entropy", "margin"])
@pytest.mark.parametrize("kind", ["pgd", "fgsm"])
def test_adversarial_pictures_stay_in_the_ball_and_in_range(kind: str, loss: str) -> None:
    images, labels = template_pictures(20, 0.1, 0.49)
    x = as_float(images)
    attack = PGD(0.1, 5, loss=loss) if kind == "pgd" else FGSM(0.1, loss=loss)  # type: ignore[arg-type]
    adversarial = attack(Templates(), x, labels, generator())
    assert float((adversarial - x).abs().max()) <= 0.1 + 1e-6
    assert 0 <= float(adversarial.min()) <= float(adversarial.max()) <= 1
    before, after = (per_picture(Templates()(y), labels, loss) for y in (x, adversarial))  # type: ignore[arg-type]
    assert (after > before).all()


def test_pgd_is_as_strong_as_can_be_on_a_linear_model() -> None:
    images, labels = template_pictures(40)
    model = Templates()
    clean = score(model, images, labels).accuracy
    found = attacked_score(model, images, labels, PGD(EPSILON, 10, loss="margin"))
    # The margin to class j can fall by ε Σ|t_y − t_j|, and to no class by more.
    with torch.no_grad():
        logits = model(as_float(images))
        t = model.templates.flatten(1)
        reach = 40 * EPSILON * (t[labels][:, None] - t).abs().mean(2)  # [B, 10]
        margin = logits.gather(1, labels[:, None]) - logits
        best = (margin - reach).masked_fill(torch.nn.functional.one_hot(labels, 10).bool(), 1e9).amin(1) > 0
    assert clean == 100
    assert 20 < 100 * float(best.float().mean()) < 80
    assert found.accuracy == pytest.approx(100 * float(best.float().mean()), abs=5)


def test_of_several_restarts_the_worst_is_kept() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 3)).eval()
    with torch.no_grad():
        model[1].weight.mul_(20)  # a landscape with many hills: where PGD ends depends on where it begins

    class Hills(nn.Module):
        random_start = False

        def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
            return model(x)

    x, labels = torch.rand(32, 3, 2, 2), torch.arange(32) % 3

    def loss(restarts: int) -> Tensor:
        attack = PGD(0.1, 3, restarts=restarts)
        return per_picture(model(attack(Hills(), x, labels, generator())), labels, "cross-entropy").detach()

    once, often = loss(1), loss(8)
    assert (often >= once - 1e-6).all()
    assert (often > once + 1e-3).sum() > 8


def test_one_loss_of_nan_does_not_end_the_attack() -> None:
    images, labels = template_pictures(10, 0.1, 0.49)
    x = as_float(images)
    model, calls = Templates(), []

    class FailsOnce(nn.Module):
        random_start = False

        def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
            calls.append(len(x))
            return model(x) * torch.nan if len(calls) == 1 else model(x)

    adversarial = PGD(0.1, 3)(FailsOnce(), x, labels, generator())
    with torch.no_grad():
        before, after = (per_picture(model(y), labels, "cross-entropy") for y in (x, adversarial))
    assert (after > before).all()


def test_gradients_are_averaged_over_starts() -> None:
    images, labels = template_pictures(10)
    x = as_float(images)
    noisy = Templates(blur=0.5)
    exact = torch.stack([loss_gradient(noisy, x, labels, 1, generator(k))[0] for k in range(200)]).mean(0)

    def error(eot: int) -> float:
        return float((loss_gradient(noisy, x, labels, eot, generator(999))[0] - exact).norm())

    assert error(64) < 0.3 * error(1)
    calls: list[int] = []
    plain = Templates()
    plain.register_forward_hook(lambda *_: calls.append(1))
    loss_gradient(plain, x, labels, 64, generator())
    assert len(calls) == 1  # a function has one gradient


@pytest.mark.parametrize(("at_once", "sizes"), [(None, [8] * 5), (8, [8] * 5), (23, [16, 16, 8]), (1000, [40])])
def test_starts_that_run_at_once_are_those_one_by_one(at_once: int | None, sizes: list[int]) -> None:
    images, labels = template_pictures(8)
    noisy, x = Templates(blur=0.5), as_float(images)
    wanted, losses = loss_gradient(noisy, x, labels, 5, generator())
    seen: list[int] = []
    noisy.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    found, mean = loss_gradient(noisy, x, labels, 5, generator(), at_once=at_once)
    assert seen == sizes
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(mean, losses)
    torch.testing.assert_close(mean_loss(noisy, x, labels, 5, generator(), at_once=at_once), losses)
    assert seen == 2 * sizes


def test_an_attack_runs_as_many_pictures_at_once_as_the_settings_say() -> None:
    images, labels = template_pictures(8)
    noisy = Templates(blur=0.5)
    seen: list[int] = []
    noisy.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    attacked_score(noisy, images, labels, PGD(EPSILON, 2, 6), EvalSettings(batch_size=25))
    assert seen == [24, 24] * 3 + [8]  # two steps and the last loss, and the score
    seen.clear()
    attacked_score(noisy, images, labels, FGSM(EPSILON, 6), EvalSettings(batch_size=5))
    assert seen == [5] * 7 + [3] * 7


def test_kernels_are_channels_last_for_a_while_only() -> None:
    model = build(TINY).eval()
    before = {name: (p.data_ptr(), p.stride()) for name, p in model.named_parameters()}
    x = torch.rand(2, 3, 32, 32, generator=generator())
    wanted = model(x, start_seed=1)
    with channels_last(model):
        assert all(p.is_contiguous(memory_format=torch.channels_last) for p in model.parameters() if p.ndim == 4)
        assert {p.data_ptr() for p in model.parameters()} != {place for place, _ in before.values()}
        torch.testing.assert_close(model(x, start_seed=1), wanted)
    assert {name: (p.data_ptr(), p.stride()) for name, p in model.named_parameters()} == before


def test_an_attacked_model_is_as_it_was() -> None:
    images, labels = template_pictures(4, side=32)
    model = build(TINY).train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    found = attacked_score(model, images, labels, PGD(EPSILON, 2, 2), EvalSettings(starts=3))
    assert found.starts == 3
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    for name, t in model.state_dict().items():
        torch.testing.assert_close(t, before[name], rtol=0, atol=0)  # running statistics too


def test_transferred_pictures_are_made_for_the_source() -> None:
    images, labels = template_pictures(20)
    kept: list[torch.Tensor] = []
    hidden = Templates(hide=True)
    alone = attacked_score(hidden, images, labels, PGD(EPSILON, 5))
    lent = attacked_score(hidden, images, labels, PGD(EPSILON, 5), source=Templates(), keep=kept)
    assert torch.cat(kept).shape == images.shape
    assert lent.accuracy < alone.accuracy  # the source's gradient is not hidden


def test_random_noise_has_the_size_asked_for() -> None:
    x = torch.full((4, 3, 8, 8), 0.5)
    uniform = random_noise(x, 0.25, generator(), "uniform") - x
    sign = random_noise(x, 0.25, generator()) - x  # as published
    assert 0.2 < float(uniform.abs().max()) <= 0.25
    assert float(uniform.abs().mean()) == pytest.approx(0.125, abs=0.02)
    torch.testing.assert_close(sign.abs(), torch.full_like(x, 0.25))
    bright = random_noise(torch.ones(1, 3, 8, 8), 0.25, generator())
    assert float(bright.max()) <= 1
    images, labels = template_pictures(20, 0.05, 0.2)
    assert noisy_score(Templates(), images, labels, epsilon=0.25).accuracy > 50  # noise averages out, attacks do not
    with pytest.raises(ValueError, match="normal"):
        random_noise(x, 0.1, kind="normal")  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [-1 / 255, 1.5, float("nan")])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    images, labels = template_pictures(2)
    for attack in (PGD, FGSM):
        with pytest.raises(AkornError, match="epsilon must be from 0 to 1"):
            attack(epsilon)
    with pytest.raises(AkornError, match="epsilon"):
        random_noise(as_float(images), epsilon)
    with pytest.raises(AkornError, match="epsilon"):
        autoattack(Templates(), as_float(images), labels, version="rand", epsilon=epsilon)
    with pytest.raises(AkornError, match="steps"):
        PGD(steps=0)
    for attack in (PGD, FGSM):
        with pytest.raises(AkornError, match="the attack's loss is 'hinge'"):
            attack(loss="hinge")  # type: ignore[arg-type]


@pytest.mark.slow
def test_autoattack_on_models_with_and_without_a_random_start() -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(12)
    x = as_float(images)
    state = torch.get_rng_state()
    found = autoattack(Templates(), x, labels, version="standard", queries=20, epsilon=EPSILON)
    torch.testing.assert_close(torch.get_rng_state(), state)  # it seeds torch's own generator: put back
    assert 0 < int(found.robust.sum()) < 12
    assert float((found.adversarial - x).abs().max()) <= EPSILON + 1e-6
    again = Templates()(found.adversarial).argmax(1) == labels
    torch.testing.assert_close(again, found.robust)
    pgd = attacked_score(Templates(), images, labels, PGD(EPSILON, 20, loss="margin"))
    assert 100 * float(found.robust.float().mean()) <= pgd.accuracy + 100 / 12  # at most one picture weaker

    random = Templates(blur=0.05)
    with pytest.raises(AkornError, match="fix_start"):
        autoattack(random, x, labels, version="standard")
    drawn = autoattack(random, x, labels, version="rand", epsilon=EPSILON, eot=2)
    assert int(drawn.robust.sum()) < 12
    square = autoattack(random, x, labels, version="square", epsilon=EPSILON, queries=20)
    assert (found.tests, drawn.tests, square.tests) == (1, 3, 2)
    assert any("randomized" in words for words in square.warnings)  # AutoAttack's own suspicion is kept


@pytest.mark.parametrize("version", ["rand", "square"])
def test_autoattack_counts_bad_luck(version: Literal["rand", "square"]) -> None:
    """With ε = 0 it leaves the pictures that are right in as many tests: far fewer than in one."""
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(400, 0.02, 0.06)
    model = Templates(blur=0.3)
    found = autoattack(model, as_float(images), labels, version=version, epsilon=0.0, eot=2, queries=2)
    each = torch.stack([score(model, images, labels, purpose=f"test {k}").correct for k in range(found.tests)])
    robust, unattacked = float(found.robust.double().mean()), float(each.all(0).double().mean())
    assert robust < float(each[0].double().mean()) - 0.15
    assert robust == pytest.approx(unattacked, abs=0.1)  # four standard errors


def test_cudnn_searches_for_gradients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(12)
    seen: list[tuple[bool, bool]] = []
    model = Templates()
    model.register_forward_hook(lambda *_: seen.append((torch.is_grad_enabled(), torch.backends.cudnn.benchmark)))
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    autoattack(model, as_float(images), labels, version="standard", queries=20, epsilon=EPSILON)
    assert set(seen) == {(True, True), (False, False)}  # Square's pictures become fewer: a search each time
    assert torch.backends.cudnn.benchmark


def test_autoattack_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    images, labels = template_pictures(2)
    with pytest.raises(AkornError, match=r"pip install 'akorn\[attacks\]'"):
        autoattack(Templates(), as_float(images), labels, version="square")


def test_a_start_is_fixed_and_freed() -> None:
    model = build(TINY)
    with fixed_start(model, 3):
        assert not model.random_start
    assert model.random_start


class Turning(Templates):
    """Every start looks at the picture through other signs: gradients of two starts have little in common."""

    kept = 0.5
    """The share of signs that are kept; with a half of them, nothing."""

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        signs = (self.kept - torch.rand(images.shape, generator=generator)).sign()
        return super().forward(0.5 + (images - 0.5) * signs, generator)


def test_starts_agree_as_far_as_they_have_a_direction_in_common() -> None:
    images, labels = template_pictures(40)
    pictures = as_float(images)
    assert start_agreement(Templates(), pictures, labels, 1, generator()).min() > 0.999  # a function
    turning = Turning(0.05)
    for eot in (1, 16):
        assert abs(float(start_agreement(turning, pictures, labels, eot, generator()).mean())) < 0.05
    turning.kept = 0.7
    one, many = (float(start_agreement(turning, pictures, labels, eot, generator()).mean()) for eot in (1, 16))
    assert 0.05 < one < 0.2
    assert many == pytest.approx(16 * one / (1 + 15 * one), abs=0.1)  # what 16 share adds up, the rest cancels out


def test_gradients_nearby_agree_where_the_loss_is_smooth() -> None:
    """However random the starts are, which both gradients share, and however sure the answers."""
    images, labels = template_pictures(8)
    pictures = images.float() / 255

    for model in (Templates(0.05), Turning(0.05), Templates(rough=0.002)):
        same = gradient_agreement(model, pictures, labels, 3, generator(), distance=0.0)
        assert torch.allclose(same, torch.ones(8, dtype=same.dtype))
        near = gradient_agreement(model, pictures, labels, 3, generator()).mean()
        assert near < 0.5 if model.rough else near > 0.9
    sure = Templates()
    sure.templates.data *= 50
    assert gradient_agreement(sure, pictures, labels, 1, generator()).min() > 0.9


def test_pgd_keeps_the_worst_point_it_has_seen() -> None:
    class Well(nn.Module):
        """Wrong around a brightness of a half, and right on either side: steps that are too long leave the spot."""

        random_start = False

        def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
            away = (images.mean((1, 2, 3)) - 0.5).abs()
            return torch.stack((20 * away, torch.full_like(away, 1.0)), 1)

    images, labels = torch.full((8, 3, 4, 4), 0.5), torch.zeros(8, dtype=torch.long)
    attack = PGD(0.1, steps=4, eot=1, step_size=0.07)
    seen: list[Tensor] = []

    class Watched(Well):
        def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
            seen.append(images.detach())
            return super().forward(images, generator)

    made = attack(Watched(), images, labels, generator())
    worst, *losses = (per_picture(Well()(x), labels, "cross-entropy") for x in (made, *seen))
    torch.testing.assert_close(worst, torch.stack(losses).amax(0))
    assert bool((worst > losses[-1]).any())  # the last point was not the worst


@pytest.mark.parametrize(("version", "few", "many"), [("square", {"queries": 2}, {"queries": 40}),
                                                       ("rand", {"eot": 1}, {"eot": 3})])  # fmt: skip
def test_autoattack_gets_its_budget(version: Any, few: dict[str, int], many: dict[str, int]) -> None:
    pytest.importorskip("pyautoattack", reason="the extra `attacks` is not installed")
    images, labels = template_pictures(4, 0.3, 0.4)  # nothing that an attack so small can change

    class Counted(Templates):
        calls = 0

        def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
            self.calls += 1
            return super().forward(images, generator)

    calls = []
    for budget in (few, many):
        model = Counted(0.01)
        autoattack(model, as_float(images), labels, version=version, epsilon=0.001, **budget)
        calls.append(model.calls)
    assert calls[1] > 2 * calls[0]
