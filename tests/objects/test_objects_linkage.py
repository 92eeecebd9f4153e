"""Average linkage gives SciPy's partitions, whichever way it is computed and in however many processes."""

import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
import torch
from clustered_points import blobs, same
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

import akorn.objects.linkage as cpu
from akorn.objects import linkage_batched, linkage_helpers
from akorn.objects.cluster import average_linkage, cluster
from akorn.objects.linkage_distances import Room, between_clusters, distances
from akorn.objects.linkage_helpers import link_all
from akorn.objects.tree import Tree

CUTS = (1, 2, 3, 5, 12, 40)


def on_a_line() -> Tensor:
    """Ever larger gaps: one merge a round, the worst case for rounds."""
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


def chained(points: Tensor) -> Tree:
    """By nearest-neighbour chains from the first merge on."""
    rows = []
    for one in points.double().numpy():
        room = Room(len(one))
        merging = cpu._Merging(one, room)
        merging._chain()
        rows.append((merging.into, merging.height))
    return joined(rows)


def given_up(points: Tensor) -> Tree:
    """By float32 for one round, then by float64."""
    rows = []
    for one in points.double().numpy():
        room, again = Room(len(one), np.float32), Room(len(one))
        merging = cpu._Merging(one, room)
        a = np.flatnonzero(merging._nearest[merging._nearest] == np.arange(len(merging.names)))
        a = a[a < merging._nearest[a]]
        b, halves = merging._nearest[a], np.full((2, len(a)), 0.5, np.float32)
        merging._merge(a, b, merging._union(a, b, halves)[0], halves)
        merging._shrink()
        merging.go_on(between_clusters(distances(one, again), merging.roots(), merging.names), again)
        rows.append((merging.into, merging.height))
    return joined(rows)


def joined(rows: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Tree:
    into, height = zip(*rows, strict=True)
    return Tree(torch.from_numpy(np.stack(into)), torch.from_numpy(np.stack(height)))


WAYS: dict[str, Callable[[Tensor], Tree]] = {
    "quick": lambda points: joined(cpu.link(one)[:2] for one in points.double().numpy()),
    "rounds": lambda points: joined(cpu.link_exactly(one) for one in points.double().numpy()),
    "any": lambda points: average_linkage(points, threads=2),
    "chain": chained,
    "given up": given_up,
    "batched": lambda points: Tree(*linkage_batched.link(points)),
}
EXACT = ("rounds", "chain", "batched")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", POINTS)
def test_partitions_and_heights_are_scipys(kind: str, way: str) -> None:
    points = POINTS[kind]()
    tree = WAYS[way](points)
    for index, one in enumerate(points.double().numpy()):
        theirs = linkage(one, "average")
        heights = tree.height[index].sort().values[:-1].numpy()
        np.testing.assert_allclose(heights, theirs[:, 2], rtol=1e-9 if way in EXACT else 1e-5)
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
    found = torch.from_numpy(distances(points.numpy(), Room(40))).fill_diagonal_(0)
    exact = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=0)
    assert torch.equal(found, found.T)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 1, 0, 3], [3, 1, 2, 0]])
def test_distances_that_float32_cannot_tell_apart(order: list[int]) -> None:
    points = torch.tensor([2 + 1e-9, 1.0, 0.0, 50.0], dtype=torch.float64)[order].view(1, 4, 1)
    into, height, error = cpu.link(points[0].numpy())
    assert error > 0  # by way of float32, in which both are 1 apart
    tree = joined([(into, height)])
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


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[linkage_helpers._Helpers]:
    """Helpers from the first picture on, and none left."""
    pool = linkage_helpers._Helpers()
    monkeypatch.setattr(linkage_helpers, "_helpers", pool)
    monkeypatch.setattr(linkage_helpers, "_ENOUGH", 0)
    yield pool
    pool.close()


def assert_linked(pictures: list[NDArray[np.float64]], found: list[linkage_helpers.Rows]) -> None:
    for one, ours in zip(pictures, found, strict=True):
        into, height, error = cpu.link(one)
        np.testing.assert_array_equal(ours[0], into)
        np.testing.assert_allclose(ours[1], height, rtol=1e-12)
        assert ours[2] == error


def test_helper_processes_give_the_same_and_stay(helpers: linkage_helpers._Helpers) -> None:
    for count in (110, 60):
        pictures = list(blobs(5, count, 0.5).numpy())
        assert_linked(pictures, link_all(pictures, 2))
        before = set(helpers._idle)
    assert len(before) == 2
    link_all(pictures, 2)
    assert set(helpers._idle) == before
    helpers.close()
    assert all(helper._process.returncode is not None for helper in before)


@pytest.mark.parametrize("threads", [1, 2])
def test_larger_pictures_one_a_core(threads: int, helpers: linkage_helpers._Helpers) -> None:
    points = blobs(3, 200, 0.5)
    tree = average_linkage(points, threads=threads)
    assert tree.error is not None
    assert bool((tree.error > 0).all())  # by way of float32
    assert len(helpers._idle) == (0 if threads == 1 else 2)
    assert tree.exactly is not None
    for index, one in enumerate(points.numpy()):
        theirs = linkage(one, "average")
        np.testing.assert_allclose(tree.exactly(index)[1].sort().values[:-1].numpy(), theirs[:, 2], rtol=1e-9)
        for k in CUTS:
            assert same(tree.cut(k)[index].numpy(), fcluster(theirs, k, "maxclust")), (index, k)


def test_a_helper_that_is_lost_is_made_up_for(helpers: linkage_helpers._Helpers) -> None:
    pictures = list(blobs(4, 60, 0.5).numpy())
    link_all(pictures, 2)
    lost = list(helpers._idle)
    for helper in lost:
        helper._process.kill()
        helper._process.wait()
    assert_linked(pictures, link_all(pictures, 2))
    with pytest.raises(OSError, match=r"ended|[Bb]roken|closed"):
        lost[0].link(pictures[0])


@pytest.mark.parametrize("program", ["/nowhere/python", "", "/bin/an-app"])
def test_threads_where_helpers_cannot_start(
    program: str, helpers: linkage_helpers._Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    pictures = list(blobs(4, 60, 0.5).numpy())
    assert_linked(pictures, link_all(pictures, 2))
    assert helpers._idle == []


def test_little_work_starts_no_process() -> None:
    pool = linkage_helpers._Helpers()
    assert not pool.worth_it(0.1)
    assert pool.worth_it(linkage_helpers._ENOUGH)  # with what came before


def test_one_point_and_equal_points() -> None:
    assert cluster(torch.zeros(2, 1, 3), 1).tolist() == [[0], [0]]
    for way in WAYS.values():
        assert way(torch.ones(1, 9, 3, dtype=torch.float64)).cut(4).tolist() == [[0] * 9]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", POINTS)
def test_cuda_gives_the_same_partitions(kind: str) -> None:
    points = POINTS[kind]()
    here, there = average_linkage(points), average_linkage(points.cuda())
    for k in CUTS:
        assert torch.equal(here.cut(k), there.cut(k).cpu())
