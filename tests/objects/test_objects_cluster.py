"""Average linkage gives SciPy's partitions, whichever way it is computed; k-means finds what is there."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

import akorn.objects.linkage as cpu
from akorn.errors import AkornError
from akorn.objects import linkage_batched
from akorn.objects.cluster import average_linkage, cluster, partitions
from akorn.objects.kmeans import by_first_point, kmeans
from akorn.objects.tree import Tree

CUTS = (1, 2, 3, 5, 12, 40)


def blobs(pictures: int, points: int, spread: float, seed: int = 0, width: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(pictures, 6, width, generator=generator, dtype=torch.float64)
    which = torch.randint(6, (pictures, points), generator=generator)
    noise = torch.randn(pictures, points, width, generator=generator, dtype=torch.float64)
    return means.gather(1, which[:, :, None].expand_as(noise)) + spread * noise


def on_a_line() -> Tensor:
    """Ever larger gaps: one merge a round, the worst case for rounds."""
    return (1.0 + 0.01 * torch.arange(150, dtype=torch.float64)).cumsum(0)[None, :, None]


POINTS: dict[str, Callable[[], Tensor]] = {
    "objects": lambda: blobs(3, 130, 0.4),
    "noise": lambda: blobs(2, 130, 100.0, seed=1),
    "line": on_a_line,
    "tight": lambda: blobs(2, 130, 1e-5, seed=2) + 3.0,  # a matrix product alone would lose half the digits
    "float32": lambda: blobs(2, 100, 0.3, seed=3).float(),
}


def chained(points: Tensor) -> Tree:
    """By nearest-neighbour chains from the first merge on."""
    rows = []
    for one in points.double().numpy():
        d = cpu.distances(one, cpu.Room(len(one)))
        count = len(d)
        into, height = np.zeros(count, np.int64), np.full(count, np.inf)
        cpu._chain(d, np.arange(count), np.ones(count), np.ones(count, bool), into, height)
        rows.append((into, height))
    return joined(rows)


def joined(rows: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Tree:
    into, height = zip(*rows, strict=True)
    return Tree(torch.from_numpy(np.stack(into)), torch.from_numpy(np.stack(height)))


WAYS: dict[str, Callable[[Tensor], Tree]] = {
    "quick": average_linkage,
    "rounds": lambda points: joined(cpu.link(one) for one in points.double().numpy()),
    "threads": lambda points: average_linkage(points, threads=2),
    "chain": chained,
    "batched": lambda points: Tree(*linkage_batched.link(points)),
}


def same(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> bool:
    pairs = np.unique(np.stack((ours, theirs)), axis=1).shape[1]
    return pairs == len(np.unique(ours)) == len(np.unique(theirs))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", POINTS)
def test_partitions_and_heights_are_scipys(kind: str, way: str) -> None:
    points = POINTS[kind]()
    tree = WAYS[way](points)
    for index, one in enumerate(points.double().numpy()):
        theirs = linkage(one, "average")
        heights = tree.height[index].sort().values[:-1].numpy()
        np.testing.assert_allclose(heights, theirs[:, 2], rtol=1e-5 if way in ("quick", "threads") else 1e-9)
        for k in CUTS:
            ours = tree.cut(k)[index].numpy()
            assert same(ours, fcluster(theirs, k, "maxclust")), (index, k)
            assert ours.max() == k - 1


def test_ties_are_cut_together_as_scipy_does() -> None:
    points = blobs(1, 12, 1.0).repeat_interleave(4, 1)  # every point four times: distance 0
    for way in WAYS.values():
        tree = way(points)
        for k in (2, 12, 20, 47):  # there are 12 different points, so never more clusters
            theirs = fcluster(linkage(points[0].numpy(), "average"), k, "maxclust")
            assert same(tree.cut(k)[0].numpy(), theirs)
        assert int(tree.cut(20).max()) == 11
        assert tree.cut(48)[0].tolist() == list(range(48))


@pytest.mark.parametrize("way", WAYS)
def test_a_grid_full_of_ties_ends_in_a_partition(way: str) -> None:
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    points = torch.stack((rows, columns), -1).reshape(1, 64, 2).double()
    tree = WAYS[way](points)
    heights = tree.height[0].sort().values[:-1]
    assert bool((heights[:16] == 1).all())  # neighbours first
    assert len(tree.cut(4)[0].unique()) <= 4
    assert torch.equal(tree.cut(4), WAYS[way](points).cut(4))


def test_a_number_for_each_picture_and_numbering() -> None:
    points = blobs(3, 60, 0.2)
    labels = cluster(points, [1, 4, 60])
    assert labels.max(1).values.tolist() == [0, 3, 59]
    first = [labels[1].tolist().index(k) for k in range(4)]
    assert first == sorted(first)  # numbered in the order of appearance
    again = partitions(points)
    assert torch.equal(again(4)[1], labels[1])


def test_close_pairs_keep_their_digits() -> None:
    points = 100.0 + 1e-6 * torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points[0] = 0.0  # one far away: the others nearly coincide beside it
    found = torch.from_numpy(cpu.distances(points.numpy(), cpu.Room(40))).fill_diagonal_(0)
    exact = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=0)
    assert torch.equal(found, found.T)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 1, 0, 3], [3, 1, 2, 0]])
def test_distances_that_float32_cannot_tell_apart(order: list[int]) -> None:
    points = torch.tensor([2 + 1e-9, 1.0, 0.0, 50.0], dtype=torch.float64)[order].view(1, 4, 1)
    tree = average_linkage(points)
    assert tree.error is not None
    assert float(tree.error[0]) > 0  # by way of float32, in which both are 1 apart
    assert same(tree.cut(3)[0].numpy(), fcluster(linkage(points[0].numpy(), "average"), 3, "maxclust"))


def test_a_cut_between_heights_that_the_error_hides_is_made_exactly() -> None:
    exact = Tree(torch.tensor([[0, 0, 1, 0]]), torch.tensor([[torch.inf, 1.0, 2.0, 2 + 1e-8]], dtype=torch.float64))
    asked: list[int] = []

    def exactly(index: int) -> tuple[Tensor, Tensor]:
        asked.append(index)
        return exact.into[index], exact.height[index]

    rounded = exact.height.clone()
    rounded[0, 2], rounded[0, 3] = 2 + 2e-8, 2.0  # the wrong way round
    tree = Tree(exact.into.clone(), rounded, torch.tensor([1e-6], dtype=torch.float64), exactly)
    tree.cut(3)
    assert asked == []  # between 1 and 2: no doubt
    assert torch.equal(tree.cut(2), exact.cut(2))
    assert torch.equal(tree.cut(2), exact.cut(2))
    assert asked == [0]  # once


@pytest.mark.parametrize(
    ("clusters", "message"), [(0, "at least 1"), (61, "61 clusters .* only 60 patches"), ([3], "one for each of 2")]
)
@pytest.mark.parametrize("method", ["average", "kmeans"])
def test_impossible_numbers_of_clusters(clusters: int, message: str, method: str) -> None:
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


def test_one_point_and_equal_points() -> None:
    assert cluster(torch.zeros(2, 1, 3), 1).tolist() == [[0], [0]]
    for way in WAYS.values():
        assert way(torch.ones(1, 9, 3, dtype=torch.float64)).cut(4).tolist() == [[0] * 9]


def test_kmeans_finds_blobs_whatever_else_is_in_the_batch() -> None:
    points = blobs(4, 90, 0.05, seed=5)
    labels = kmeans(points, 6, seed=3)
    tree = average_linkage(points)
    for ours, theirs in zip(labels.numpy(), tree.cut(6).numpy(), strict=True):
        assert same(ours, theirs)  # far apart, so that every method must agree
    torch.testing.assert_close(kmeans(points[2:3], 6, seed=3)[0], labels[2])
    assert torch.equal(kmeans(points, 6, seed=3), labels)


def test_kmeans_reaches_a_minimum_of_lloyds_steps() -> None:
    points = blobs(1, 80, 5.0, seed=6)
    labels = kmeans(points, 4)[0]
    means = torch.stack([points[0][labels == k].mean(0) for k in range(4)])
    assert torch.equal(torch.cdist(points[0], means).argmin(1), labels)


def test_numbering_by_the_first_point() -> None:
    assert by_first_point(torch.tensor([[5, 2, 5, 0], [1, 1, 0, 3]])).tolist() == [[0, 1, 0, 2], [0, 0, 1, 2]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", POINTS)
def test_cuda_gives_the_same_partitions(kind: str) -> None:
    points = POINTS[kind]()
    here, there = average_linkage(points), average_linkage(points.cuda())
    for k in CUTS:
        assert torch.equal(here.cut(k), there.cut(k).cpu())
