"""FG-ARI, ARI and MBO: golden numbers, scikit-learn, and what happens if there is little to score."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from akorn.objects import metrics

GOLDEN = Path(__file__).parents[1] / "golden" / "segmentation_metrics.npz"


def maps(pictures: int, objects: int, clusters: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(-1, objects + 1, (pictures, 12, 12), generator=generator)
    noise = torch.randint(0, clusters, truth.shape, generator=generator)
    predicted = torch.where(torch.rand(truth.shape, generator=generator) < 0.6, truth.clamp(min=0), noise)
    return predicted, truth


def plain_mbo(predicted: Tensor, truth: Tensor) -> float:
    """As the definition reads."""
    seen = truth >= 0
    best = []
    for k in truth[truth > 0].unique():
        thing = truth == k
        ious = [
            float((thing & (predicted == p) & seen).sum() / ((thing | (predicted == p)) & seen).sum())
            for p in predicted.unique()
        ]
        best.append(max(ious))
    return sum(best) / len(best)


def test_golden_numbers() -> None:
    golden = np.load(GOLDEN)
    predicted, truth = torch.from_numpy(golden["predicted"]), torch.from_numpy(golden["truth"])
    fg_ari, mbo = metrics.fg_ari(predicted, truth), metrics.mbo(predicted, truth)
    torch.testing.assert_close(fg_ari[:-1], torch.from_numpy(golden["fg_ari"]), rtol=0, atol=1e-12)
    assert math.isnan(fg_ari[-1])  # no object
    scored = torch.from_numpy(golden["mbo"])
    torch.testing.assert_close(mbo.nan_to_num(-1.0), scored, rtol=0, atol=1e-10)
    assert metrics.mean(mbo) == pytest.approx(float(golden["mbo_mean"]), abs=1e-10)


def test_scikit_learns_adjusted_rand_score() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    predicted, truth = maps(6, 4, 5)
    for ours, p, t in zip(metrics.ari(predicted, truth), predicted, truth, strict=True):
        assert float(ours) == pytest.approx(sklearn.adjusted_rand_score(t[t >= 0], p[t >= 0]), abs=1e-12)
    for ours, p, t in zip(metrics.fg_ari(predicted, truth), predicted, truth, strict=True):
        assert float(ours) == pytest.approx(sklearn.adjusted_rand_score(t[t > 0], p[t > 0]), abs=1e-12)


def test_mbo_is_its_definition() -> None:
    predicted, truth = maps(5, 3, 4, seed=1)
    expected = [plain_mbo(p, t) for p, t in zip(predicted, truth, strict=True)]
    torch.testing.assert_close(metrics.mbo(predicted, truth), torch.tensor(expected, dtype=torch.float64))


def test_neither_numbers_of_labels_nor_the_batch_matter() -> None:
    predicted, truth = maps(4, 3, 5, seed=2)
    names = torch.tensor([7, 30_000, 2, 9, 100_000])
    for score in (metrics.ari, metrics.fg_ari, metrics.mbo):
        whole = score(predicted, truth)
        torch.testing.assert_close(score(names[predicted], truth), whole)
        torch.testing.assert_close(score(predicted, torch.where(truth > 0, truth * 5000, truth)), whole)
        torch.testing.assert_close(torch.cat([score(predicted[i : i + 1], truth[i : i + 1]) for i in range(4)]), whole)


def test_a_perfect_and_a_worthless_answer() -> None:
    truth = torch.tensor([[[0, 0, 1, 1], [0, 2, 2, -1]]])
    perfect = torch.tensor([[[3, 3, 0, 0], [3, 1, 1, 0]]])
    one = torch.zeros_like(truth)
    for score in (metrics.ari, metrics.fg_ari, metrics.mbo):
        assert score(perfect, truth).item() == pytest.approx(1.0)
    assert metrics.fg_ari(one, truth).item() == 0.0
    assert metrics.mbo(one, truth).item() == pytest.approx(2 / 7)  # 2 of the 7 pixels that count, for both objects


def test_one_object() -> None:
    truth = torch.tensor([[[0, 1, 1, 1]], [[0, 1, 1, 1]]])
    predicted = torch.tensor([[[0, 2, 2, 2]], [[0, 2, 3, 3]]])
    assert metrics.fg_ari(predicted, truth).tolist() == [1.0, 0.0]  # in one cluster, in several
    assert metrics.mbo(predicted, truth).tolist() == pytest.approx([1.0, 2 / 3])


def test_pixels_in_no_cluster() -> None:
    truth = torch.tensor([[[0, 1, 1, 2]]])
    none = torch.full_like(truth, -1)
    assert metrics.mbo(none, truth).item() == 0.0
    assert metrics.fg_ari(none, truth).item() == 0.0
    some = torch.tensor([[[-1, 0, -1, 1]]])
    assert metrics.mbo(some, truth).item() == pytest.approx((1 / 2 + 1) / 2)


def test_nothing_to_score() -> None:
    truth = torch.stack((torch.full((4, 4), -1), torch.zeros(4, 4, dtype=torch.int64)))
    predicted = torch.zeros_like(truth)
    assert metrics.fg_ari(predicted, truth).isnan().all()
    assert metrics.mbo(predicted, truth).isnan().all()
    assert metrics.ari(predicted, truth).isnan().tolist() == [True, False]
    assert math.isnan(metrics.mean(metrics.mbo(predicted, truth)))
    assert metrics.mean(torch.tensor([math.nan, 0.25, 0.75])) == 0.5


def test_ignored_pixels_count_nowhere() -> None:
    predicted, truth = maps(3, 3, 4, seed=4)
    other = torch.where(truth < 0, (predicted + 1) % 4, predicted)
    for score in (metrics.ari, metrics.fg_ari, metrics.mbo):
        torch.testing.assert_close(score(predicted, truth), score(other, truth))


def test_maps_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="the same shape"):
        metrics.mbo(torch.zeros(1, 4, 4, dtype=torch.int64), torch.zeros(1, 4, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match="whole numbers"):
        metrics.mbo(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.int64))
