"""Calibration, ensembles of starts, samples, corrupted folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from robustness_toy import TINY, Templates, template_pictures
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.robustness.calibration import expected_calibration_error, reliability
from akorn.robustness.commands.evaluate import Options
from akorn.robustness.corrupted import corrupted_score
from akorn.robustness.evaluate import EvalSettings, Score, noisy_score, probabilities, sample, score
from akorn.robustness.model import build
from akorn.robustness.report import Request


def random_predictions(count: int = 500) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    chances = (3 * torch.randn(count, 10, generator=generator)).softmax(1)
    return chances, torch.randint(0, 10, (count,), generator=generator)


def test_ece_is_that_of_torchmetrics() -> None:
    metrics = pytest.importorskip("torchmetrics.functional.classification", reason="torchmetrics is not installed")
    chances, labels = random_predictions()
    chances[:20] = torch.eye(10)[:1]  # confidences of exactly 1 too
    expected = metrics.multiclass_calibration_error(chances, labels, 10, n_bins=15, norm="l1")
    assert expected_calibration_error(chances, labels) == pytest.approx(100 * float(expected), abs=1e-3)


def test_ece_by_hand() -> None:
    chances = torch.tensor([[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 0, 0])
    # In their bins: 0.9 said and 0.75 right, 0.8 said and 0.5 right.
    assert expected_calibration_error(chances, labels) == pytest.approx(100 * (0.15 + 0.30) / 2, abs=1e-4)
    found = reliability(chances, labels, 15)
    assert int(found.count.sum()) == 8
    sure = torch.eye(2)[torch.tensor([0, 1])]
    assert expected_calibration_error(sure, torch.tensor([0, 1])) == 0
    assert expected_calibration_error(sure, torch.tensor([1, 0])) == 100
    with pytest.raises(ValueError, match=r"\[N, classes\]"):
        reliability(chances, labels[:3])


def test_more_starts_steady_the_answers() -> None:
    images, labels = template_pictures(100, 0.01, 0.05)
    model = Templates(blur=0.5)
    one, many = (score(model, images, labels, EvalSettings(starts=k)) for k in (1, 64))
    assert (one.starts, many.starts) == (1, 64)
    assert many.accuracy > one.accuracy + 10
    assert score(Templates(), images, labels, EvalSettings(starts=64)).starts == 1  # nothing to average


def test_the_same_seed_gives_the_same_score() -> None:
    images, labels = template_pictures(9, side=32)
    model = build(TINY)
    first, again = (noisy_score(model, images, labels, EvalSettings(seed=4, batch_size=4)) for _ in range(2))
    torch.testing.assert_close(first.probabilities, again.probabilities, rtol=0, atol=0)
    other = noisy_score(model, images, labels, EvalSettings(seed=5, batch_size=4))
    assert not torch.equal(first.probabilities, other.probabilities)
    torch.testing.assert_close(first.probabilities.sum(1), torch.ones(9))


def test_a_sample_is_random_and_stated_by_its_seed() -> None:
    assert sample(5, None, 0).tolist() == [0, 1, 2, 3, 4]
    chosen = sample(1000, 100, 0)
    assert len(set(chosen.tolist())) == 100
    assert chosen.tolist() == sorted(chosen.tolist())
    torch.testing.assert_close(chosen, sample(1000, 100, 0))
    assert chosen.tolist() != sample(1000, 100, 1).tolist()
    assert chosen.max() > 900
    with pytest.raises(AkornError, match="at least 1"):
        sample(10, 0, 0)


def test_corrupted_pictures_are_scored_one_corruption_at_a_time(tmp_path: Path) -> None:
    images, labels = template_pictures(8, 0.1, 0.3, side=32)
    pixels = images.permute(0, 2, 3, 1).numpy()
    np.save(tmp_path / "labels.npy", np.tile(labels.numpy(), 5))
    np.save(tmp_path / "fog.npy", np.concatenate([pixels] * 5))
    np.save(tmp_path / "snow.npy", np.concatenate([pixels] * 4 + [255 - pixels]))  # turned round at severity 5
    model = Templates(side=32)
    found = corrupted_score(model, tmp_path, ("fog", "snow"))
    assert found.scores["fog"].accuracy == 100
    assert found.scores["snow"].accuracy == 0
    assert found.accuracy == 50
    assert found.ece == pytest.approx((found.scores["fog"].ece + found.scores["snow"].ece) / 2)
    assert len(found.pooled.labels) == 16
    assert corrupted_score(model, tmp_path, ("snow",), severity=4, chosen=torch.tensor([2, 3])).accuracy == 100
    with pytest.raises(AkornError, match="too few"):
        corrupted_score(model, tmp_path, ("snow",), chosen=torch.tensor([8]))
    with pytest.raises(AkornError, match=r"frost\.npy"):
        corrupted_score(model, tmp_path, ("frost",))


def test_bad_questions_are_refused() -> None:
    images, labels = template_pictures(4)
    with pytest.raises(AkornError, match="starts must be at least 1"):
        EvalSettings(starts=0)
    with pytest.raises(ValueError, match=r"\[N, 3, H, W\]"):
        score(Templates(), images[:, :1], labels)
    with pytest.raises(ValueError, match="labels"):
        score(Templates(), images, labels[:2])


def test_accuracies_are_exact() -> None:
    found = Score(torch.eye(10)[torch.tensor([0] * 50)], torch.tensor([0] * 8 + [1] * 42), 1)
    assert found.accuracy == 16.0


def test_answers_are_means_of_probabilities_not_of_logits() -> None:
    given = iter([torch.tensor([[0.0, 5.0]]), torch.tensor([[3.0, 0.0]])])

    class Model(nn.Module):
        def forward(self, images: Tensor, generator: torch.Generator) -> Tensor:
            return next(given)

    found = probabilities(Model(), torch.zeros(1, 3, 8, 8), 2, torch.Generator())
    wanted = (torch.tensor([[0.0, 5.0]]).softmax(1) + torch.tensor([[3.0, 0.0]]).softmax(1)) / 2
    torch.testing.assert_close(found, wanted)


def test_pictures_are_scored_with_starts_that_the_attack_has_not_seen() -> None:
    images, labels = template_pictures(4)
    seen: dict[str, int] = {}

    class Model(Templates):
        def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
            assert generator is not None
            seen["starts"] = generator.initial_seed()
            return super().forward(images, generator)

    def change(batch: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        seen["attack"] = generator.initial_seed()
        return batch

    score(Model(0.1), images, labels, change=change)
    assert seen["starts"] != seen["attack"]


def test_noise_is_64_of_255_by_default() -> None:
    assert Request().noise == Options().noise == pytest.approx(64 / 255)
