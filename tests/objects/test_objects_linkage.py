"""Average linkage gives SciPy's partitions, whichever way it is computed and in however many threads."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from clustered_points import blobs, same
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

import akorn.objects.linkage as cpu
from akorn.objects import linkage_batched
from akorn.objects.cluster import average_linkage, cluster
from akorn.objects.tree import Tree

CUTS = (1, 2, 3, 5, 12, 40)


def on_a_line() -> Tensor:
    """Ever larger gaps: one merge per round, the worst case for rounds."""
    return (1.0 + 0.01 * torch.arange(150, dtype=torch.float64)).cumsum(0)[None, :, None]


def plain_background() -> Tensor:
    """Many points that are the same, between others."""
    points = blobs(2, 130, 0.4, seed=4)
    points[:, 20:80] = points[:, :1]
    return points


POINTS: dict[str, Callable[[], Tensor]] = {
    "objects": lambda: blobs(3, 130, 0.4),
    "noise": lambda: blobs(2, 130, 100.0, seed=1),
    "line": on_a_line,
    "copies": plain_background,
    "tight": lambda: blobs(2, 130, 1e-5, seed=2) + 3.0,  # a matrix product alone would lose half the digits
    "float32": lambda: blobs(2, 100, 0.3, seed=3).float(),
}


def joined(rows: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Tree:
    into, height = zip(*rows, strict=True)
    return Tree(torch.from_numpy(np.stack(into)), torch.from_numpy(np.stack(height)))


WAYS: dict[str, Callable[[Tensor], Tree]] = {
    "any": lambda points: average_linkage(points, threads=2),
    "alone": lambda points: joined(cpu.link(one.double()) for one in points),
    "batched": lambda points: Tree(*linkage_batched.link(points)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", POINTS)
def test_partitions_and_heights_are_scipys(kind: str, way: str) -> None:
    points = POINTS[kind]()
    tree = WAYS[way](points)
    for index, one in enumerate(points.double().numpy()):
        theirs = linkage(one, "average")
        heights = tree.height[index].sort().values[:-1].numpy()
        np.testing.assert_allclose(heights, theirs[:, 2], rtol=1e-9)
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


def test_close_pairs_keep_their_digits() -> None:
    points = 100.0 + 1e-6 * torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points[0] = 0.0  # one far away: the others nearly coincide beside it
    found = torch.from_numpy(squareform(cpu.distances(points)))
    exact = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=0)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 1, 0, 3], [3, 1, 2, 0]])
@pytest.mark.parametrize("way", WAYS)
def test_distances_that_float32_cannot_tell_apart(way: str, order: list[int]) -> None:
    points = torch.tensor([2 + 1e-9, 1.0, 0.0, 50.0], dtype=torch.float64)[order].view(1, 4, 1)
    theirs = fcluster(linkage(points[0].numpy(), "average"), 3, "maxclust")
    assert same(WAYS[way](points).cut(3)[0].numpy(), theirs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_larger_pictures_on_any_number_of_threads(threads: int) -> None:
    points, before = blobs(3, 300, 0.5), torch.get_num_threads()  # more rows than are worked on at a time
    tree = average_linkage(points, threads=threads)
    assert torch.get_num_threads() == before
    for index, one in enumerate(points.numpy()):
        theirs = linkage(one, "average")
        np.testing.assert_allclose(tree.height[index].sort().values[:-1].numpy(), theirs[:, 2], rtol=1e-9)
        for k in CUTS:
            assert same(tree.cut(k)[index].numpy(), fcluster(theirs, k, "maxclust")), (index, k)


@pytest.mark.parametrize("count", [2, 127, 128, 129, 257])
def test_distances_are_the_upper_triangle_row_by_row(count: int) -> None:
    points = blobs(1, count, 0.5)[0]
    np.testing.assert_allclose(cpu.distances(points), torch.pdist(points).numpy(), rtol=1e-9)


def test_one_point_and_equal_points() -> None:
    assert cluster(torch.zeros(2, 1, 3), 1).tolist() == [[0], [0]]
    for way in WAYS.values():
        assert way(torch.ones(1, 9, 3, dtype=torch.float64)).cut(4).tolist() == [[0] * 9]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", POINTS)
def test_cuda_gives_the_same_partitions(kind: str) -> None:
    points = POINTS[kind]()
    here, there = WAYS["batched"](points), average_linkage(points.cuda())
    for k in CUTS:
        assert torch.equal(here.cut(k), there.cut(k).cpu())
