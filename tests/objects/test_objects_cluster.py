"""Clusters of points by either method: their numbers, what is refused, what fits into memory; k-means finds the true
clusters.
"""

import weakref
from typing import Any

import pytest
import torch
from clustered_points import blobs, same
from torch.utils._python_dispatch import TorchDispatchMode

from akorn.errors import AkornError
from akorn.objects.cluster import average_linkage, cluster, partitions
from akorn.objects.kmeans import by_first_point, kmeans


def test_a_number_for_each_picture_and_numbering() -> None:
    points = blobs(3, 60, 0.2)
    labels = cluster(points, [1, 4, 60])
    assert labels.max(1).values.tolist() == [0, 3, 59]
    first = [labels[1].tolist().index(k) for k in range(4)]
    assert first == sorted(first)  # numbered in the order of appearance
    again = partitions(points)
    assert torch.equal(again(4)[1], labels[1])


@pytest.mark.parametrize(
    ("clusters", "message"), [(0, "at least 1"), (61, "61 clusters .* only 60 patches"), ([3], "one for each of 2")]
)
@pytest.mark.parametrize("method", ["average", "kmeans"])
def test_impossible_numbers_of_clusters(clusters: int | list[int], message: str, method: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        cluster(blobs(2, 60, 0.2), clusters, method)  # type: ignore[arg-type]
    assert isinstance(caught.value, AkornError) or clusters == [3]


def test_points_that_are_none() -> None:
    with pytest.raises(ValueError, match="NaN"):
        cluster(torch.full((1, 4, 2), torch.nan), 2)
    with pytest.raises(ValueError, match=r"\[B, P, F\]"):
        cluster(torch.zeros(4, 2), 2)
    with pytest.raises(ValueError, match="ward"):
        cluster(torch.zeros(1, 4, 2), 2, "ward")  # type: ignore[arg-type]


def test_more_points_than_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    points = blobs(1, 200, 0.2)
    monkeypatch.setattr("akorn.runtime.devices.machine_memory", lambda: 4 * 200.0**2)
    assert int(cluster(points, 3).max()) == 2
    monkeypatch.setattr("akorn.runtime.devices.machine_memory", lambda: 4 * 200.0**2 - 1)
    with pytest.raises(AkornError, match=r"200 patches per picture are too many .* --uptile or --size"):
        cluster(points, 3)
    assert int(cluster(points, 3, "kmeans").max()) == 2


def test_memory_that_others_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("akorn.objects.linkage.distances", full)
    with pytest.raises(AkornError, match="200 patches per picture are too many"):
        average_linkage(blobs(1, 200, 0.2))


def test_kmeans_finds_blobs_whatever_else_is_in_the_batch() -> None:
    points = blobs(4, 90, 0.05, seed=5)
    labels = kmeans(points, 6, seed=3)
    tree = average_linkage(points)
    for ours, theirs in zip(labels.numpy(), tree.cut(6).numpy(), strict=True):
        assert same(ours, theirs)  # far apart, so that every method must agree
    torch.testing.assert_close(kmeans(points[2:3], 6, seed=3)[0], labels[2])
    assert torch.equal(kmeans(points, 6, seed=3), labels)


class Living(TorchDispatchMode):
    """Counts the arrays that exist at the same time."""

    now = most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.now += 1
            self.most = max(self.most, self.now)
            weakref.finalize(made, self._gone)
        return made

    def _gone(self) -> None:
        self.now -= 1


def test_kmeans_keeps_no_array_per_cluster() -> None:
    """Small arrays that stay split the memory that large ones free, so that it is never used again."""
    with Living() as living:
        kmeans(blobs(1, 90, 0.2), 80, steps=3)
    assert living.most < 40


def test_kmeans_reaches_a_minimum_of_lloyds_steps() -> None:
    points = blobs(1, 80, 5.0, seed=6)
    labels = kmeans(points, 4)[0]
    means = torch.stack([points[0][labels == k].mean(0) for k in range(4)])
    assert torch.equal(torch.cdist(points[0], means).argmin(1), labels)


def test_numbering_by_the_first_point() -> None:
    assert by_first_point(torch.tensor([[5, 2, 5, 0], [1, 1, 0, 3]])).tolist() == [[0, 1, 0, 2], [0, 0, 1, 2]]
