"""Cuts of a tree that leave outliers alone, and how many clusters the data has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects.cluster import average_linkage, partitions


def groups(*sizes: int, outliers: int = 0, spread: float = 0.05) -> tuple[Tensor, Tensor]:
    """Points around corners of a triangle and so on, and far outliers; with the group of each point, −1 for those."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.arange(len(sizes)) * (2 * torch.pi / len(sizes))
    centres = torch.stack((angles.cos(), angles.sin()), 1)
    truth = torch.cat([torch.full((size,), number) for number, size in enumerate(sizes)])
    points = centres[truth] + spread * torch.randn(len(truth), 2, generator=generator)
    far = 20 * torch.stack((torch.arange(outliers) + 1.0, torch.zeros(outliers)), 1)
    return torch.cat((points, far))[None].double(), torch.cat((truth, torch.full((outliers,), -1)))


def together(labels: Tensor, truth: Tensor) -> bool:
    """Whether the groups are exactly the clusters, outliers left out."""
    known = truth >= 0
    pairs = {(int(a), int(b)) for a, b in zip(labels[known], truth[known], strict=True)}
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_outliers_do_not_use_up_clusters() -> None:
    points, truth = groups(30, 20, 10, outliers=2)
    assert not together(partitions(points)(3)[0], truth)  # the published protocol spends two on outliers
    assert together(partitions(points, least=0.05)(3)[0], truth)


@pytest.mark.parametrize("clusters", [1, 2, 3, 5])
def test_without_a_least_size_it_is_the_plain_cut(clusters: int) -> None:
    points, _ = groups(8, 9, 10)
    tree = average_linkage(points)
    assert bool((tree.cut_significant(clusters, 0.0) == tree.cut(clusters)).all())


@pytest.mark.parametrize("sizes", [(20, 20), (20, 30, 10), (15, 15, 15, 15)])
def test_the_data_chooses_its_number(sizes: tuple[int, ...]) -> None:
    points, truth = groups(*sizes, outliers=1)
    labels = partitions(points, least=0.05, ratio=0.4)("auto")[0]
    assert together(labels, truth)


def test_points_that_are_all_outliers_are_one_cluster() -> None:
    points = torch.tensor([[[0.0], [1.0], [3.0], [9.0]]]).double()
    tree = average_linkage(points)
    assert tree.choose(0.6).tolist() == [1]
    assert tree.cut_significant(3, 0.6).tolist() == [[0, 0, 0, 0]]


def test_k_means_has_no_tree() -> None:
    points, _ = groups(5, 5)
    with pytest.raises(AkornError, match="cannot be chosen by kmeans"):
        partitions(points, "kmeans")("auto")
    with pytest.raises(AkornError, match="is for average linkage, not for kmeans"):
        partitions(points, "kmeans", least=0.1)
