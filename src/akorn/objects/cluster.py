"""Clustering of points, many pictures at once: average linkage as in SciPy, and k-means."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects import linkage, linkage_batched
from akorn.objects.kmeans import kmeans
from akorn.objects.tree import LEAST, RATIO, Auto, Counts, Tree, chunks, cluster_counts
from akorn.runtime.devices import device_memory, machine_memory

Method = Literal["average", "kmeans"]
_ROOM = 4 * 2**30  # bytes for distances at one time


def cluster(
    points: Tensor, clusters: Counts, method: Method = "average", *, seed: int = 0, threads: int | None = None
) -> Tensor:
    """Points [B, P, F] → labels [B, P], int64 from 0; `clusters` is one number or one for each picture.

    AkornError if a picture has fewer points than clusters. seed: the seed of k-means' starts.
    """
    return partitions(points, method, seed=seed, threads=threads)(clusters)


def partitions(
    points: Tensor,
    method: Method = "average",
    *,
    seed: int = 0,
    threads: int | None = None,
    least: float = 0.0,
    ratio: float = RATIO,
) -> Callable[[Counts | Auto], Tensor]:
    """A function from numbers of clusters to labels, for several numbers: average linkage builds its tree once.

    least: the smallest share of the points that a cluster may have, with average linkage; 0 for the published protocol.
    "auto" as the number lets each picture's tree choose it (`Tree.choose`).
    """
    if method not in get_args(Method):
        raise ValueError(f"method is {method!r}, expected one of {', '.join(get_args(Method))}")
    _check(points)
    if method == "average":
        tree = average_linkage(points, threads=threads)

        def cut(clusters: Counts | Auto) -> Tensor:
            if isinstance(clusters, str):
                enough = least or LEAST
                return tree.cut_significant(tree.choose(enough, ratio), enough)
            return tree.cut_significant(clusters, least) if least else tree.cut(clusters)

        return cut
    if least:
        raise AkornError(f"the least size of a cluster, {least:g}, is for average linkage, not for {method}")

    def grouped(clusters: Counts | Auto) -> Tensor:
        if isinstance(clusters, str):
            raise AkornError(
                f"the number of clusters cannot be chosen by {method}: give a number, or use average linkage"
            )
        return _kmeans(points, clusters, seed)

    return grouped


def average_linkage(points: Tensor, *, threads: int | None = None) -> Tree:
    """The tree of every picture's points [B, P, F], on the points' device.

    On CUDA all pictures run at once, elsewhere one per core; by default on all cores that this process may use. The
    partitions are those of SciPy's `linkage(points, "average")`, except for ties: everything is computed in float64,
    but of two merges at the same distance either may come first, which changes later distances. AkornError if the
    distances do not fit into memory.
    """
    _check(points)
    check_memory(points.shape[1], points.device)
    points = points.detach()
    pictures, count = points.shape[:2]
    if points.is_cuda:
        pieces = chunks(pictures, _ROOM // (4 * 8 * count**2))  # a round holds about four matrices at once
        parts = [linkage_batched.link(points[start:end]) for start, end in pieces]
        return Tree(torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts]))
    points = points.cpu().double()  # an Apple GPU has no float64
    several = max(1, min(threads or _cores(), pictures, _ROOM // _triangle(count)))
    try:
        rows = _link_all(points, several)
    except MemoryError as full:  # other processes use memory too
        raise _too_many(count, _triangle(count), machine_memory()) from full
    return Tree(*(torch.from_numpy(np.stack([row[part] for row in rows])) for part in (0, 1)))


def _link_all(points: Tensor, several: int) -> list[tuple[linkage.Ints, linkage.Floats]]:
    """`linkage.link` of every picture, in this many threads."""
    if several == 1:
        return [linkage.link(one) for one in points]
    before = torch.get_num_threads()
    try:  # with its own threads for every product, torch would wait for the slowest one each time
        with ThreadPoolExecutor(several, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(linkage.link, points))
    finally:
        torch.set_num_threads(before)  # some of torch's libraries have one number for all threads


def _triangle(count: int) -> int:
    """Bytes for the distances between this many points on a CPU, each pair once."""
    return 4 * count**2


def check_memory(count: int, device: torch.device) -> None:
    """AkornError if the distances between this many points of one picture do not fit into the device's memory."""
    need = 4 * 8 * count**2 if device.type == "cuda" else _triangle(count)
    have = device_memory(device)
    if need > have:
        raise _too_many(count, need, have)


def kmeans_memory(patches: int, channels: int, components: int, clusters: int, device: torch.device) -> int:
    """Peak memory of k-means for one picture in bytes, without its features.

    In units of P·F numbers: the points and the centred points, four copies for the restarts, and twice as much again
    for their differences from a mean; in Lloyd's steps once as much, and four times [4, P, clusters].
    """
    number = 4 if device.type == "mps" else 8
    size = channels if min(patches, channels) <= components else components  # as returned by `as_points`
    starts, lloyd = 14 * size, 10 * size + 16 * clusters
    return number * patches * max(starts, lloyd)


def _too_many(count: int, need: int, have: float) -> AkornError:
    return AkornError(
        f"{count:,} patches per picture are too many for average linkage: distances need {need / 2**30:,.1f} GiB of"
        f" memory, but the machine has {have / 2**30:,.1f}; choose a smaller --uptile or --size, or --method kmeans"
    )


def _cores() -> int:
    """The number of cores for this process: its share, if a launcher started several processes here."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _kmeans(points: Tensor, clusters: Counts, seed: int) -> Tensor:
    """k-means, with pictures that have the same number of clusters together."""
    counts = cluster_counts(clusters, *points.shape[:2])
    labels = torch.empty(points.shape[:2], dtype=torch.int64, device=points.device)
    for count in counts.unique().tolist():
        which = (counts == count).nonzero()[:, 0].to(points.device)
        labels[which] = kmeans(points[which], count, seed=seed)
    return labels


def _check(points: Tensor) -> None:
    if points.ndim != 3 or not points.is_floating_point() or 0 in points.shape:
        raise ValueError(f"points must be floating point [B, P, F], got {points.dtype} {list(points.shape)}")
    if not bool(points.isfinite().all()):
        raise ValueError("points must be finite, these contain NaN or ∞")
